"""How much of its source a summary without a model keeps, beside head-and-tail truncation of equal size.

    python benchmarks/summary_retention.py [--limit TOKENS] [--chunk TOKENS] [FILE ...]

Each file is a transcript (JSON or JSON lines); with none, the example of this
repository and 400 messages of the seeded corpus. The messages are cut
into chunks; each is summarised, and cut to the same number of tokens by keeping its first and its last
half. Counted are the distinct identifiers, numbers and names of the source that the text still has as
whole words. Times of day are not counted: a summary writes its own. The patterns are the benchmark's own.

For a file of LoCoMo chats it also counts what people ask about. *gold answers*: answers to the questions of the
categories 1 to 4 that one of their evidence turns in the chunk has word for word, and that the text still has so.
*answer words*: the content words of all these answers that those turns have.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import tiktoken

sys.path.insert(0, str(Path(__file__).parent))

from lcm_plugin.cli.transcripts import read_transcripts
from lcm_plugin.config import LcmConfig
from lcm_plugin.evaluation.loaders.locomo import evidence_of, load, messages
from lcm_plugin.events import EventBus
from lcm_plugin.messages.encodings import ENCODING, PATTERN, vocabulary
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.recall.query import is_function_word
from lcm_plugin.summarize.base import SourceBlock, SummaryTask
from lcm_plugin.summarize.summarizer import Summarizer

KINDS = ("identifiers", "numbers", "names")
ASKED = ("gold answers", "answer words")
START = 1_715_785_200_000
_WORD = re.compile(r"[\w$€][\w$€./:@%+#-]*[\w%]|\w")
_NUMBER = re.compile(r"[$€]?\d[\d.,:%/-]*")
_IDENTIFIER = re.compile(r".*(?:[A-Za-z].*\d|\d.*[A-Za-z]|[_/@]|[a-z][A-Z]|\w\.\w)|[A-Z]{2,}")
_TIME = re.compile(r"(?:\d{4}-\d\d-\d\d[T_])?\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+]\d+(?::\d\d)?)?")
_PLAIN = re.compile(r"[^\W_]+")
_NAME = re.compile(r"(?<=[a-z,] )([A-Z][a-z]{2,})\b")

Facts = dict[str, set[str]]


@dataclass
class Kept:
    """Facts of the source, and how many of them each text kept."""

    source: int = 0
    ours: int = 0
    truncated: int = 0


@dataclass
class Report:
    """One file's figures."""

    name: str
    chunks: int = 0
    source_tokens: int = 0
    tokens: int = 0
    seconds: float = 0.0
    kept: dict[str, Kept] = field(default_factory=lambda: {kind: Kept() for kind in KINDS})
    asked: dict[str, Kept] = field(default_factory=lambda: {kind: Kept() for kind in ASKED})

    @property
    def ratio(self) -> float:
        """Facts we keep per fact that truncation keeps."""
        ours = sum(kept.ours for kept in self.kept.values())
        return ours / max(1, sum(kept.truncated for kept in self.kept.values()))


@dataclass(frozen=True, slots=True)
class Answer:
    """A gold answer, and the texts of the turns that hold it."""

    text: str
    evidence: frozenset[str]


def facts(text: str) -> Facts:
    """The distinct identifiers, numbers and names of a text."""
    found: Facts = {kind: set() for kind in KINDS}
    for word in words_of(text):
        if _TIME.fullmatch(word):
            continue
        if _NUMBER.fullmatch(word):
            if len(word) > 1:
                found["numbers"].add(word)
        elif _IDENTIFIER.fullmatch(word):
            found["identifiers"].add(word)
    found["names"] = set(_NAME.findall(text)) - found["identifiers"]
    return found


def words_of(text: str) -> set[str]:
    """The distinct words of a text, in which its facts are looked up."""
    return set(_WORD.findall(text))


def load_encoding() -> tiktoken.Encoding:
    """The package's vocabulary in tiktoken, which also gives the text of tokens."""
    return tiktoken.Encoding(ENCODING, pat_str=PATTERN, mergeable_ranks=vocabulary(), special_tokens={})


def head_and_tail(text: str, tokens: int, encoding: tiktoken.Encoding) -> str:
    """The first and the last half of a text, ``tokens`` in all."""
    ids = encoding.encode_ordinary(text)
    half = tokens // 2
    return f"{encoding.decode(ids[:half])} … {encoding.decode(ids[len(ids) - (tokens - half) :])}"


def blocks_of(messages: Iterable[dict[str, Any]]) -> Iterator[SourceBlock]:
    """The messages as source blocks, calls written as ``name(arguments)``."""
    for number, message in enumerate(messages, 1):
        if message.get("role") == "system":
            continue
        content = message.get("content")
        texts = (
            [content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)]
            if content
            else []
        )
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        texts += [f"{call['name']}({call['arguments']})" for call in calls]
        at = _time(message, number)
        tool = str(message.get("name") or "") if message["role"] == "tool" else ""
        sender = "" if tool else str(message.get("name") or "")
        yield SourceBlock(f"msg_{number}", message["role"], "\n".join(texts), at, at, sender, tool)


def chunks_of(
    blocks: Iterable[SourceBlock], size: int, counter: TokenCounter
) -> Iterator[tuple[tuple[SourceBlock, ...], int]]:
    """Runs of blocks of at most ``size`` tokens, with their tokens."""
    run: list[SourceBlock] = []
    tokens = 0
    for block in blocks:
        cost = counter.text(block.text)
        if run and tokens + cost > size:
            yield tuple(run), tokens
            run, tokens = [], 0
        run.append(block)
        tokens += cost
    if run:
        yield tuple(run), tokens


def plain(text: str) -> str:
    """A text's words in small letters, for looking a phrase up."""
    return " ".join(["", *_PLAIN.findall(text.lower()), ""])


def answers_of(path: str) -> list[Answer]:
    """The gold answers of LoCoMo chats with the texts of their evidence turns."""
    found: list[Answer] = []
    for sample in json.loads(Path(path).read_text(encoding="utf-8")):
        rows = list(messages(sample))
        places = {row["id"].rpartition("/")[2]: index for index, row in enumerate(rows)}
        for item in sample["qa"]:
            if item["category"] in (1, 2, 3, 4) and str(item.get("answer", "")).strip():
                evidence = evidence_of(item["evidence"], places)
                texts = frozenset(rows[place]["content"] for place in evidence)
                found.append(Answer(str(item["answer"]), texts))
    return found


def measure(
    name: str, blocks: Iterable[SourceBlock], limit: int, chunk: int, answers: Sequence[Answer] = ()
) -> Report:
    """Summarises chunk after chunk and counts what is left of each."""
    counter = TokenCounter()
    encoding = load_encoding()
    summarizer = Summarizer(LcmConfig(summary_model="", fallback_models=[]), counter, EventBus())
    report = Report(name)
    for run, tokens in chunks_of(blocks, chunk, counter):
        if tokens < 4 * limit:
            continue
        started = time.process_time()
        draft = summarizer.summarize(SummaryTask(run, 0, limit, tokens))
        report.seconds += time.process_time() - started
        if draft is None:
            continue
        report.chunks += 1
        report.source_tokens += tokens
        report.tokens += draft.tokens
        source = "\n".join(f"{block.role}: {block.text}" for block in run)
        cut = head_and_tail(source, draft.tokens, encoding)
        _count(report, source, draft.text, cut)
        _count_answers(report, {block.text for block in run}, answers, plain(draft.text), plain(cut))
    return report


def _count_answers(
    report: Report, texts: set[str], answers: Sequence[Answer], ours: str, truncated: str
) -> None:
    for answer in answers:
        turns = [plain(text) for text in answer.evidence & texts]
        phrase = plain(answer.text)
        words = [f" {word} " for word in phrase.split() if not is_function_word(word)]
        for kind, wanted in (("gold answers", [phrase]), ("answer words", words)):
            for text in wanted:
                if any(text in turn for turn in turns):
                    report.asked[kind].source += 1
                    report.asked[kind].ours += text in ours
                    report.asked[kind].truncated += text in truncated


def _count(report: Report, source: str, summary: str, cut: str) -> None:
    ours, truncated = words_of(summary), words_of(cut)
    for kind, found in facts(source).items():
        report.kept[kind].source += len(found)
        report.kept[kind].ours += len(found & ours)
        report.kept[kind].truncated += len(found & truncated)


def _time(message: dict[str, Any], number: int) -> int:
    told = message.get("created_at")
    if isinstance(told, str):
        return int(datetime.fromisoformat(told).timestamp() * 1_000)
    return START + number * 20_000


def _sources(files: Sequence[str]) -> Iterator[tuple[str, Iterable[dict[str, Any]]]]:
    if not files:
        from lcm_plugin.evaluation.corpus import Corpus

        example = Path(__file__).parent.parent / "examples" / "incident.jsonl"
        yield example.name, [entry.message for entry in read_transcripts([str(example)])]
        yield "corpus (seed 1, 400 messages)", Corpus(1).messages(400)
    for path in files:
        if _is_locomo(path):
            yield path, [message for talk in load(Path(path)) for message in talk.messages]
        else:
            yield path, [entry.message for entry in read_transcripts([path])]


def _is_locomo(path: str) -> bool:
    return path.endswith("locomo_dev.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--limit", type=int, default=1_200, help="tokens of a summary")
    parser.add_argument("--chunk", type=int, default=20_000, help="tokens of a chunk")
    options = parser.parse_args()
    for name, rows in _sources(options.files):
        answers = answers_of(name) if _is_locomo(name) else ()
        report = measure(name, blocks_of(rows), options.limit, options.chunk, answers)
        print(
            f"{name}: {report.chunks} chunks, {report.source_tokens:,} -> {report.tokens:,} tokens, "
            f"{1_000 * report.seconds / max(1, report.chunks):.1f} ms a chunk"
        )
        for kind, kept in (*report.kept.items(), *(report.asked.items() if answers else ())):
            print(
                f"  {kind:12} {kept.source:6} in the source, {kept.ours:5} kept, {kept.truncated:5} by truncation"
            )
        print(f"  {report.ratio:.2f} times as many as head-and-tail truncation")


if __name__ == "__main__":
    main()
