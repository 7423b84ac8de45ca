"""Every turn of recorded and seeded sessions, assembled at 4k, 8k and 32k: is any context invalid or too large?

    python benchmarks/assembly_validity.py [recorded.jsonl …] [--turns 2000] [--budgets 4000,8000,32000]

A file has one JSON object a line with ``messages`` in OpenAI's shape. The seeded session is heavy in tool
calls, some of them parallel, late, doubled or without a result. Compaction runs as in a host, with the
embedded summariser. Also told: how often a turn's context extended the one before, and how many of its
tokens a provider's prompt cache could therefore have read again. The exit code is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from lcm_plugin import Context, Engine, LcmConfig, Session
from lcm_plugin.errors import LcmError
from lcm_plugin.evaluation.corpus import Corpus, Message
from lcm_plugin.events import Event
from lcm_plugin.messages.validate import validate


@dataclass(slots=True)
class Tally:
    """What was seen at one budget."""

    budget: int
    contexts: int = 0
    invalid: int = 0
    over: int = 0
    extended: int = 0
    steps: int = 0
    tokens: int = 0
    reusable: int = 0
    compactions: int = 0
    last: dict[str, Context] = field(default_factory=dict)

    def take(self, engine: Engine, session: Session) -> None:
        """Assembles and checks one context."""
        self.contexts += 1
        try:
            context = engine.assemble(session, self.budget)
        except LcmError as error:
            print(f"{session.key} at {self.budget}: {error}", file=sys.stderr)
            self.invalid += 1
            return
        counted = engine.count_tokens(context.messages)
        self.invalid += bool(validate(context.messages)) or counted != context.tokens
        self.over += counted > self.budget
        before = self.last.get(session.key)
        self.last[session.key] = context
        if before is not None:
            self._compare(engine, before, context)

    def _compare(self, engine: Engine, before: Context, context: Context) -> None:
        self.steps += 1
        same = before.prefix_epoch == context.prefix_epoch
        shared = _shared(before.messages, context.messages)
        if shared < len(before.messages) and same:
            self.invalid += 1
        self.extended += shared == len(before.messages)
        if same:
            self.tokens += context.tokens
            self.reusable += min(engine.count_tokens(context.messages[:shared]), context.tokens)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--turns", type=int, default=2_000)
    parser.add_argument("--budgets", default="4000,8000,32000")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.getLogger("lcm_plugin").addHandler(logging.NullHandler())
    budgets = [int(text) for text in options.budgets.split(",")]
    wrong = 0
    for file in options.files:
        wrong += report(file.name, run(recorded(file), budgets))
    wrong += report(f"seeded, {options.turns} turns", run([seeded(options.turns, options.seed)], budgets))
    return 1 if wrong else 0


def run(sessions: Iterable[tuple[str, Iterable[list[Message]]]], budgets: Sequence[int]) -> list[Tally]:
    """Plays sessions turn by turn, at each budget in an engine of its own."""
    played = [(name, list(turns)) for name, turns in sessions]
    tallies = []
    for budget in budgets:
        tally = Tally(budget)
        tallies.append(tally)
        with tempfile.TemporaryDirectory(prefix="lcm-valid-") as folder:
            config = LcmConfig(database=str(Path(folder) / "lcm.db"))
            with Engine.open(config) as engine:
                engine.subscribe(lambda event, tally=tally: _count_passes(event, tally))
                for name, turns in played:
                    for turn in turns:
                        play(engine, Session(f"agent:eval:{name}"), turn, tally)
    return tallies


def play(engine: Engine, session: Session, turn: list[Message], tally: Tally) -> None:
    """One turn as a host plays it: a context before each model call, compaction after the answer."""
    piece: list[Message] = []
    for message in turn:
        if message["role"] == "assistant" and piece:
            engine.ingest(session, piece)
            piece = []
            tally.take(engine, session)
        piece.append(message)
    engine.ingest(session, piece)
    engine.compact(session, budget=tally.budget)


def recorded(file: Path) -> Iterator[tuple[str, Iterator[list[Message]]]]:
    """The sessions of a file."""
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            yield str(number), turns_of(json.loads(line)["messages"])


def turns_of(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Messages from each user's message up to the next."""
    turn: list[Message] = []
    for message in messages:
        if message["role"] == "user" and turn:
            yield turn
            turn = []
        turn.append(message)
    if turn:
        yield turn


def seeded(count: int, seed: int) -> tuple[str, Iterator[list[Message]]]:
    """A tool-heavy session in which calls go wrong now and then."""
    return "seeded", _seeded(count, seed)


def _seeded(count: int, seed: int) -> Iterator[list[Message]]:
    rng, corpus = Random(seed), Corpus(seed).turns()
    late: list[Message] = []
    for _ in range(count):
        turn = late + next(corpus)
        late = []
        spoiled: list[Message] = []
        for message in sorted(turn, key=lambda one: one["role"] != "user" and one in late):
            chance = rng.random()
            if message["role"] == "tool" and chance < 0.03:
                continue
            if message["role"] == "tool" and chance < 0.06:
                late.append(message)
                continue
            spoiled.append(message)
            if message["role"] == "tool" and chance > 0.97:
                spoiled.append(dict(message))
            if message.get("tool_calls") and chance > 0.7:
                spoiled[-1] = _parallel(message, rng)
                spoiled += [
                    {"role": "tool", "tool_call_id": call["id"], "content": "also " * rng.randrange(1, 400)}
                    for call in spoiled[-1]["tool_calls"][1:]
                ]
        yield spoiled


def _parallel(message: Message, rng: Random) -> Message:
    first = message["tool_calls"][0]
    more = [{**first, "id": f"{first['id']}-{n}"} for n in range(rng.randrange(1, 4))]
    return {**message, "tool_calls": [first, *more]}


def report(name: str, tallies: Sequence[Tally]) -> int:
    """Prints a table and returns how much was wrong."""
    print(name)
    for one in tallies:
        reuse = f"{one.reusable / one.tokens:.1%}" if one.tokens else "-"
        print(
            f"  {one.budget:>6,} tokens: {one.contexts:>6,} contexts, {one.invalid} invalid, {one.over} over budget; "
            f"{one.compactions:,} passes; {one.extended:,} of {one.steps:,} extend the one before; "
            f"{reuse} of their tokens cached between changes"
        )
    return sum(one.invalid + one.over for one in tallies)


def _shared(one: Sequence[Any], other: Sequence[Any]) -> int:
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))


def _count_passes(event: Event, tally: Tally) -> None:
    tally.compactions += event.name == "compaction.pass"


if __name__ == "__main__":
    sys.exit(main())
