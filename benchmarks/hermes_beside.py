"""One talk in the real Hermes Agent under each context engine: what it costs, and what stays in view.

    .venvs/hermes/bin/python benchmarks/hermes_beside.py [--turns 60] [--window 64000] [--turn-tokens 2700]
        [--engines compressor,balanced,economy,faithful,CHECKOUT] [--toolsets default]

Hermes' own loop and programs run with their default toolset against a server on the loopback interface, which answers at
once and counts with a published encoding. ``balanced`` is the plugin as the first command of ``docs/hosts/hermes.md``
leaves it; ``economy`` and ``faithful`` set `contextPolicy`; ``compressor`` is Hermes' own engine at its defaults; a
folder is a checkout of hermes-lcm or lcm-x, installed as its README says, at its defaults. The talk is the same for all.
Each turn has a user's text and an answer four times as long. One of the two states a fact, and
in every fourth turn the user asks for the fact of an earlier one.

A summary is of the size that the request for it names, or a fifth of its source: whole sentences of the source, evenly
taken, the same for every engine. Reviews that Hermes runs in the background are left out, and the titles of sessions.
The bound on the plugin's summary calls in ten minutes is lifted, since the talk takes a minute instead of hours.

*compactions*: how often the list was replaced by a smaller one. *calls*, *read*, *written*: summary calls, the tokens of
their requests and answers; *extracted*: summaries that no model was called for. *new*: prompt tokens of the talk's own
requests that are not the longest common prefix with the request before, which no cache can hold. *largest*: the largest
of these requests; *left*: the mean of those that came after a compaction. *bill*: requests and summaries at the prices of
`lcm_plugin.evaluation.bill`, in prices of a thousand input tokens. *evidence*: facts stated so far that stand word for
word in a request, in per cent, mean of the turns' last requests; *raw*: those of them that stand in no summary and no
quote; *at the end*: *evidence* of the last turn alone. *asked*: turns with a question whose request holds the fact it is
about, word for word.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests/hosts/hermes/real"))

from fakes.answers import is_summary_request
from fakes.model_server import ModelRequest, ModelServer, Outcome, Reply, Rule
from fakes.speech import fact, turn
from fakes.validity import text_of
from world import World

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.evaluation.bill import INPUT, OUTPUT, READ, SUMMARISER, WRITE
from lcm_plugin.messages.tokens import TokenCounter

COMPRESSOR = "compressor"
ENGINES = (COMPRESSOR, "balanced", "economy", "faithful")
PEER = "hermes-lcm"
QUIET = {"memory": {"nudge_interval": 0}, "skills": {"creation_nudge_interval": 0}}
_NAMED_TARGET = re.compile(
    r"(?:about|around|roughly|target|under|most|than)[^.\n]{0,30}?~?([\d,]{3,6}) tokens", re.I
)
_SHARE = 0.2
_POINT = "- "
# The talk's words are shorter than the four characters a token that its maker reckons with.
_WORDS = 1.2
_ASKS_EVERY = 4
_LEAST, _MOST = 300, 4_000

_counter = TokenCounter()


@lru_cache(maxsize=4096)
def tokens_of(text: str) -> int:
    """Tokens of a text that many requests carry."""
    return _counter.text(text)


@dataclass(frozen=True)
class Talk:
    """What the user says and the assistant answers, turn by turn, which fact each states, and which the user asks for.

    A turn's fact is stated by the user in odd turns, by the assistant in even ones; a question is about an earlier turn.
    """

    said: tuple[str, ...]
    answers: tuple[str, ...]
    facts: tuple[str, ...]
    asked: tuple[str, ...]

    @classmethod
    def of(cls, turns: int, tokens: int) -> Talk:
        """A talk of so many turns of about so many tokens, a fifth of them the user's."""
        chance = Random(23)
        facts = tuple(fact(number) for number in range(1, turns + 1))
        asked = [0, *(chance.randrange(number) for number in range(1, turns))]
        said, answers = [], []
        for number in range(turns):
            words, stated = int(tokens * _WORDS), facts[number]
            own, others = (stated, "") if number % 2 else ("", stated)
            question = (
                f"By the way, what is the code of VAULT-{asked[number] + 1:03d}?"
                if number % _ASKS_EVERY == 1
                else ""
            )
            said.append(f"{turn(number + 1, words // 5)} {others} {question}".strip())
            answers.append(
                f"{turn(number, words // 2, seed=1)} {own} {turn(number, words * 3 // 10, seed=2)}"
            )
        return cls(tuple(said), tuple(answers), facts, tuple(facts[place] for place in asked))

    def turn_of(self, request: ModelRequest) -> int:
        """The number of the turn, from 0, that a request is of."""
        return next(n for n in reversed(range(len(self.said))) if self.said[n] in request.prompt)


@dataclass
class Figures:
    """One engine's row."""

    engine: str
    compactions: int = 0
    calls: int = 0
    read: int = 0
    written: int = 0
    extracted: int = 0
    new: int = 0
    largest: int = 0
    left: list[int] = field(default_factory=list)
    cached: int = 0
    answered: int = 0
    evidence: list[float] = field(default_factory=list)
    raw: list[float] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)
    invalid: int = 0

    @property
    def bill(self) -> float:
        """In prices of a thousand input tokens."""
        talk = self.new * WRITE + self.cached * READ + self.answered * OUTPUT
        return (talk + SUMMARISER * (self.read * INPUT + self.written * OUTPUT)) / 1000

    def row(self) -> dict[str, str]:
        """The columns of the table."""
        return {
            "engine": self.engine,
            "compactions": str(self.compactions),
            "calls": str(self.calls),
            "read": f"{self.read:,}",
            "written": f"{self.written:,}",
            "extracted": str(self.extracted),
            "new": f"{self.new:,}",
            "largest": f"{self.largest:,}",
            "left": f"{sum(self.left) // max(1, len(self.left)):,}",
            "bill": f"{self.bill:.0f}",
            "evidence": f"{_mean(self.evidence):.1f}",
            "raw": f"{_mean(self.raw):.1f}",
            "at the end": f"{100 * self.evidence[-1]:.1f}",
            "asked": f"{_mean(self.asked):.1f}",
        }


def _mean(shares: Sequence[float]) -> float:
    return 100 * sum(shares) / len(shares)


def summary(request: ModelRequest) -> str:
    """Whole sentences of what is to be summarised, evenly taken, up to the size that is asked for."""
    text = "\n".join(text_of(message.get("content")) for message in request.messages)
    named = _NAMED_TARGET.search(text)
    size = int(_SHARE * tokens_of(text))
    wanted = min(size, int(named.group(1).replace(",", ""))) if named else size
    sentences = [s.strip() for s in re.findall(r"(?:The|Note) [^.\n]{10,120}\.", text)]
    sentences = list(dict.fromkeys(sentences))
    wanted = max(_LEAST, min(wanted, _MOST))
    each = max(1, tokens_of(" ".join(sentences)) // max(1, len(sentences)))
    step = max(1.0, len(sentences) * each / wanted)
    kept = [sentences[int(place * step)] for place in range(int(len(sentences) / step))]
    return "They spoke of this.\n" + "\n".join(f"{_POINT}{one}" for one in kept)


def answers_of(talk: Talk) -> Rule:
    """What the server answers: a summary, or the talk's own answer."""

    def answer(request: ModelRequest) -> Outcome:
        if is_summary_request(request):
            text = summary(request)
        else:
            text = talk.answers[talk.turn_of(request)] if request.tools else "A talk about the harbour"
        prompt, completion = sum(map(tokens_of, _pieces(request))), tokens_of(text)
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }
        return Reply(text, usage=usage)

    return answer


def _pieces(request: ModelRequest) -> list[str]:
    """What a provider's cache compares, in its order: tools first, then the messages."""
    body = request.body
    tools = [json.dumps(body["tools"])] if body.get("tools") else []
    return [*tools, *(json.dumps(message, sort_keys=True) for message in request.messages)]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    shared = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        shared += 1
    return shared


def measure(figures: Figures, requests: Iterable[ModelRequest], talk: Talk) -> Figures:
    """Adds up what the server saw."""
    before: list[str] = []
    last: dict[int, ModelRequest] = {}
    for request in requests:
        pieces = _pieces(request)
        costs = [tokens_of(piece) for piece in pieces]
        if not request.tools:
            if is_summary_request(request):
                figures.calls += 1
                figures.read += sum(costs)
                figures.written += tokens_of(summary(request))
            continue
        shared = _common(before, pieces)
        before_that, before, number = before, pieces, talk.turn_of(request)
        figures.new += sum(costs[shared:])
        figures.cached += sum(costs[:shared])
        figures.answered += tokens_of(talk.answers[number])
        if shared < len(before_that) - 1:
            figures.left.append(sum(costs))
        figures.largest = max(figures.largest, sum(costs))
        last[number] = request
    for number in sorted(last):
        whole, said = _in_view(last[number])
        stated = talk.facts[: number + (1 if number % 2 == 0 else 0)]
        figures.evidence.append(_share(stated, whole))
        figures.raw.append(_share(stated, said))
        if number % _ASKS_EVERY == 1:
            figures.asked.append(float(talk.asked[number] in whole))
    return figures


def _in_view(request: ModelRequest) -> tuple[str, str]:
    """All the words of a request, and those that are no summary and no quote."""
    texts = [text_of(message.get("content")) for message in request.messages]
    without = (re.sub(r"(?s)<summary.*</summary>|<recalled>.*?</recalled>", "", text) for text in texts)
    said = "\n".join(line for text in without for line in text.split("\n") if not line.startswith(_POINT))
    return "\n".join(texts), said


def _share(facts: Sequence[str], text: str) -> float:
    return sum(one in text for one in facts) / len(facts)


def run(engine: str, talk: Talk, window: int, toolsets: Sequence[str] | None, home: Path) -> Figures:
    """Plays the talk under one engine."""
    peer = Path(engine).resolve() if "/" in engine else None
    ours = engine != COMPRESSOR and peer is None
    if peer is not None:
        engine = peer.name
        (home / "plugins").mkdir(parents=True)
        (home / "plugins" / PEER).symlink_to(peer)
    settings = {"summaryMaxCallsPerWindow": 1_000, **({"contextPolicy": engine} if ours else {})}
    with ModelServer(window=None) as server:
        server.add_rule(answers_of(talk))
        world = World(
            home,
            server,
            window,
            lcm=settings,
            host=QUIET,
            enabled=("lcm",) if ours else (PEER,) if peer else (),
            selected=COMPRESSOR if engine == COMPRESSOR else "lcm",
        )
        outcome = world.scenario(
            "loop",
            timeout=3600,
            turns=list(talk.said),
            enabled_toolsets=toolsets,
            settle=ours,
        )
        wanted = "LcmContextEngine" if ours else "LCMEngine" if peer else "ContextCompressor"
        assert outcome["engine"]["class"] == wanted, outcome["engine"]
        figures = measure(Figures(engine), server.requests, talk)
        figures.invalid = len(server.invalid)
    figures.compactions = sum(not call["noop"] for call in outcome["compress"])
    if ours:
        with Engine.open(LcmConfig(database=str(world.database))) as store:
            library = store.library
            made = [s for c in library.conversations() for s in library.summaries(c.conversation_id)]
            figures.extracted = sum(one.level == "extractive" for one in made)
    return figures


def table(rows: Sequence[Figures]) -> str:
    """The rows as Markdown."""
    found = [one.row() for one in rows]
    lines = ["| " + " | ".join(found[0]) + " |", "|" + "---|" * len(found[0])]
    return "\n".join([*lines, *("| " + " | ".join(row.values()) + " |" for row in found)])


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--turn-tokens", type=int, default=2_700)
    parser.add_argument("--windows", default="64000")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--toolsets", default="default", help="names by comma; default: Hermes' own")
    options = parser.parse_args(arguments)
    toolsets = None if options.toolsets == "default" else options.toolsets.split(",")
    talk = Talk.of(options.turns, options.turn_tokens)
    for window in map(int, options.windows.split(",")):
        rows = []
        for engine in options.engines.split(","):
            with tempfile.TemporaryDirectory() as home:
                rows.append(run(engine, talk, window, toolsets, Path(home) / "home"))
        print(f"{options.turns} turns, window {window:,}\n\n{table(rows)}\n", flush=True)


if __name__ == "__main__":
    main()
