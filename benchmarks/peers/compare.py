"""lcm_plugin beside its peers, in one run: the same corpus, the same questions, the same window.

    python benchmarks/peers/compare.py [--messages 3000] [--locomo FILE]
        [--hermes-lcm CHECKOUT] [--lcm-x CHECKOUT] [--hermes-python PYTHON] [--lossless-claw CHECKOUT --node NODE]

Each peer runs unchanged from a checkout of its own, in its own runtime, with its own defaults, driven as its host
drives it (see the two drivers beside this file; lcm-x grew from hermes-lcm and has its engine's interface). Left out is
what has no checkout given. CPU times are those of the process that holds the engine, of all its threads. Summaries are
returned at once by each. The recall rows ask each peer's ``lcm_grep`` the question exactly as it stands, by relevance.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from recall import load

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.evaluation.corpus import Corpus
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import CompletionRequest, Turn
from lcm_plugin.version import VERSION

HERE = Path(__file__).parent
WINDOW = 128_000
Row = dict[str, Any]
Shown = list[list[list[str]]]
"""For each chat and question, the contents of the hits, best first."""


def turns(size: int) -> Iterator[list[Row]]:
    """Whole turns of the corpus, until ``size`` messages are out."""
    made = 0
    for turn in Corpus(1).turns():
        if made >= size:
            return
        made += len(turn)
        yield turn


def play(size: int) -> Row:
    """Our own session, through the hooks, every request assembled."""
    session = Session("agent:main:main")
    sent = content = largest = requests = 0
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "lcm.db"
        config = LcmConfig(database=str(database), summary_max_calls_per_window=1_000_000)  # weeks in seconds
        plugin = LcmPlugin(config, completer=Summaries())
        began = time.process_time()
        for turn in turns(size):
            delta: list[Row] = []
            for message in turn:
                delta.append(message)
                sent += 1
                content += len(json.dumps(message, ensure_ascii=False).encode())
                if message["role"] == "assistant":
                    continue
                context = plugin.before_turn(Turn(session, delta, mode="append", window=WINDOW))
                largest, requests, delta = max(largest, context.tokens), requests + 1, []
            plugin.after_turn(Turn(session, delta, mode="append", window=WINDOW))
            plugin.engine.wait_idle(60)  # a real turn lasts longer than a pass
        cpu = time.process_time() - began
        rows = sum(1 for _ in plugin.engine.messages(session))
        assemble = _assemble_ms(plugin.engine, session)
        plugin.engine.call_tool(session, "lcm_grep", {"pattern": "anything"})  # indexes what is missing
        plugin.engine.close()
        return {
            "messages": sent,
            "rows": rows,
            "cpu_ms_per_message": 1000 * cpu / sent,
            "assemble_ms": assemble,
            "largest": largest,
            "bytes_per_byte": database.stat().st_size / content,
        }


class Summaries:
    """Answers at once with some 1,200 tokens of the corpus, other ones each time."""

    def __init__(self) -> None:
        self._rng = Random(1)
        self._sentences = Corpus(1).sentences()

    def __call__(self, request: CompletionRequest) -> str:
        return " ".join(self._rng.choices(self._sentences, k=70))


def _assemble_ms(engine: Engine, session: Session) -> float:
    """Milliseconds of a context after one more message, median of 50."""
    times = []
    for number in range(50):
        engine.ingest(session, [{"role": "user", "content": f"And number {number}?"}], mode="append")
        began = time.process_time()
        engine.assemble(session, WINDOW)
        times.append(1000 * (time.process_time() - began))
    return sorted(times)[25]


def ask(chats: list[Any]) -> Shown:
    """What our ``lcm_grep`` shows for each question."""
    shown = []
    for chat in chats:
        with (
            tempfile.TemporaryDirectory() as folder,
            Engine.open(LcmConfig(database=f"{folder}/lcm.db")) as engine,
        ):
            session = Session(f"agent:{chat.name}:main")
            engine.ingest(session, chat.messages)
            texts = [message["content"] for message in chat.messages]
            by_id = dict(zip((f"msg_{n}" for n in range(1, len(texts) + 1)), texts, strict=True))
            answers = []
            for question in chat.questions:
                arguments = {"pattern": question.text, "scope": "messages", "limit": 10}
                hits = engine.call_tool(session, "lcm_grep", arguments)["hits"]
                answers.append([by_id[hit["id"]] for hit in hits])
            shown.append(answers)
    return shown


def judge(chats: list[Any], shown: Shown) -> Row:
    """hit@1, hit@10 and all-evidence@10 in per cent."""
    first = ten = every = asked = 0
    for chat, answers in zip(chats, shown, strict=True):
        for question, contents in zip(chat.questions, answers, strict=True):
            wanted = {chat.messages[place]["content"] for place in question.places}
            asked += 1
            first += contents[:1] != [] and contents[0] in wanted
            ten += bool(wanted & set(contents))
            every += wanted <= set(contents)
    return {
        "questions": asked,
        "hit@1": 100 * first / asked,
        "hit@10": 100 * ten / asked,
        "all@10": 100 * every / asked,
    }


def of_hermes_engine(arguments: argparse.Namespace, checkout: str, questions: Path | None) -> Row:
    command = [arguments.hermes_python, HERE / "hermes_lcm.py", checkout, str(arguments.messages)]
    return _run([*command, *([questions] if questions else [])])


def of_lossless_claw(arguments: argparse.Namespace, questions: Path | None, folder: str) -> Row:
    corpus = Path(folder) / "corpus.jsonl"
    corpus.write_text(
        "".join(json.dumps(turn) + "\n" for turn in turns(arguments.messages)), encoding="utf-8"
    )
    command = [arguments.node, "--import", "tsx", HERE / "lossless_claw.mjs", corpus]
    return _run([*command, *([questions] if questions else [])], arguments.lossless_claw)


def version_of(checkout: str) -> str:
    """The folder's name and the version that its own files give."""
    folder = Path(checkout).resolve()
    said = (
        file.read_text(encoding="utf-8")
        for name in ("plugin.yaml", "package.json")
        if (file := folder / name).exists()
    )
    found = next((re.search(r'"?version"?: "?([\w.-]+)', text) for text in said), None)
    return f"{folder.name} {found[1] if found else ''}".strip()


def _run(command: list[Any], folder: str | None = None) -> Row:
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command[1]} failed:\n{done.stderr[-2000:]}")
    answer: Row = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=3000)
    parser.add_argument("--locomo", type=Path)
    parser.add_argument("--hermes-lcm")
    parser.add_argument("--lcm-x")
    parser.add_argument("--hermes-python", default=sys.executable)
    parser.add_argument("--lossless-claw")
    parser.add_argument("--node", default="node")
    arguments = parser.parse_args()
    chats = list(load(arguments.locomo)) if arguments.locomo else []
    with tempfile.TemporaryDirectory() as folder:
        questions = Path(folder) / "questions.jsonl" if chats else None
        if questions:
            asked = (
                {"messages": chat.messages, "questions": [q.text for q in chat.questions]} for chat in chats
            )
            questions.write_text("".join(json.dumps(chat) + "\n" for chat in asked), encoding="utf-8")
        results = {f"lcm_plugin {VERSION}": {"play": play(arguments.messages), "recall": ask(chats)}}
        for checkout in (arguments.hermes_lcm, arguments.lcm_x):
            if checkout:
                results[version_of(checkout)] = of_hermes_engine(arguments, checkout, questions)
        if arguments.lossless_claw:
            name = version_of(arguments.lossless_claw)
            results[name] = of_lossless_claw(arguments, questions, folder)
    for name, result in results.items():
        figures = {**result["play"], **(judge(chats, result["recall"]) if chats else {})}
        print(name, json.dumps({key: round(value, 2) for key, value in figures.items()}))


if __name__ == "__main__":
    main()
