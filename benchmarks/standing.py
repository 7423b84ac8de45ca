"""How many pins, instructions and running requests are missing from a context, in random histories.

A history is a session that talks, works in tool loops, changes its instructions, pins, unpins, compacts, begins anew
with ``/new``, is reset, ended and reopened, and moves to another database through an export. After each step the
context must hold every pin, every instruction in force and, within a tool loop, the request of the running turn, word
for word. ``--postgres`` takes an URL whose schema is emptied for each history.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.errors import InputError
from lcm_plugin.interchange.transfer.jsonl_read import load_jsonl
from lcm_plugin.interchange.transfer.jsonl_write import write_jsonl
from lcm_plugin.interchange.transfer.payloads import PayloadPlace
from lcm_plugin.services import payload_folder
from lcm_plugin.store.transfer import conversation_ids

BUDGET = 6_000
SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 4,
    "leaf_min_fanout": 2,
    "condensed_min_fanout": 2,
    "leaf_chunk_tokens": 400,
    "leaf_target_tokens": 80,
    "condensed_target_tokens": 100,
}
SESSION = Session("agent:main:standing", "run-1")
_WORDS = [
    "harbour",
    "lantern",
    "copper",
    "meadow",
    "signal",
    "ferry",
    "orchard",
    "gravel",
    "window",
    "compass",
    "ledger",
    "timber",
]
# More often than once are those that a session does more often.
STEPS = (
    *["talk"] * 4,
    *["work"] * 3,
    *["compact"] * 3,
    *["pin_text", "pin_message", "instruct", "answer"] * 2,
    *["unpin", "new", "undo", "reset", "end", "reopen", "move"],
)


class History:
    """One session's life. ``place`` names an empty database; each call another one."""

    def __init__(self, seed: int, place: Callable[[], str]) -> None:
        self._rng = Random(seed)
        self._place = place
        self._database = place()
        self.engine = self._open()
        self.pins: dict[str, str] = {}
        self.instructions: list[str] = []
        self.request = ""
        self.steps = 0
        self.refused = 0
        self._numbers = iter(range(10**6))

    def step(self) -> Counter[str]:
        """One more thing happens; returns how many texts of each kind the context must hold and does not."""
        name = self._rng.choice(STEPS)
        self.steps += 1
        getattr(self, f"_{name}")()
        return self.missing()

    def missing(self) -> Counter[str]:
        """What the context lacks, and whether `Context.notices` says that something was left out."""
        context = self.engine.assemble(SESSION, BUDGET)
        missing: Counter[str] = Counter()
        if not context.messages:
            return missing
        contents = [text if isinstance(text := one.get("content"), str) else "" for one in context.messages]
        for kind, wanted in (("pin", self.pins.values()), ("instruction", self.instructions)):
            missing[kind] += sum(all(text not in content for content in contents) for text in wanted)
        if self.request:
            missing["request"] += all(self.request != content for content in contents)
        return +missing

    def close(self) -> None:
        """Closes the database."""
        self.engine.close()

    def _open(self) -> Engine:
        return Engine.open(LcmConfig(database=self._database, **SETTINGS))

    def _text(self, words: int) -> str:
        return f"Note {next(self._numbers)}: " + " ".join(self._rng.choices(_WORDS, k=words))

    def _say(self, *messages: dict[str, Any]) -> None:
        self.engine.ingest(SESSION, messages)

    def _user(self) -> dict[str, Any]:
        self.request = self._text(self._rng.randint(5, 40))
        return {"role": "user", "content": self.request}

    def _talk(self) -> None:
        for _ in range(self._rng.randint(1, 6)):
            self._say(self._user())
            self._answer()

    def _work(self) -> None:
        self._say(self._user())
        for _ in range(self._rng.randint(1, 20)):
            number = f"call-{next(self._numbers)}"
            function = {"name": "look", "arguments": json.dumps({"for": self._text(4)})}
            calls = [{"id": number, "type": "function", "function": function}]
            self._say(
                {"role": "assistant", "content": None, "tool_calls": calls},
                {
                    "role": "tool",
                    "tool_call_id": number,
                    "content": self._text(self._rng.choice([5, 60, 400])),
                },
            )

    def _answer(self) -> None:
        if self.request:
            self._say({"role": "assistant", "content": self._text(self._rng.randint(5, 80))})
            self.request = ""

    def _instruct(self) -> None:
        self._answer()
        self.instructions = [self._text(self._rng.randint(5, 30)) for _ in range(self._rng.randint(1, 3))]
        systems = [{"role": "system", "content": text} for text in self.instructions]
        self._say(*systems, self._user())
        self._answer()

    def _pin_text(self) -> None:
        text = self._text(self._rng.randint(3, 30)) + self._rng.choice(["", "\n\n  - <b>second</b> line"])
        self._pin(text, text)

    def _pin_message(self) -> None:
        with self.engine.store.read() as reader:
            conversation = reader.find_conversation(SESSION)
            rows = reader.heads(conversation.conversation_id, limit=50) if conversation else []
            stored = reader.messages_by_id([row.message_id for row in rows])
        spoken = [row for row in rows if row.role == "user"]
        if spoken:
            row = self._rng.choice(spoken)
            self._pin(row.ref, "".join(part.text for part in stored[row.message_id].parts))

    def _pin(self, what: str, text: str) -> None:
        try:
            self.pins[self.engine.pin(SESSION, what).pin_id] = text
        except InputError:
            self.refused += 1

    def _unpin(self) -> None:
        if self.pins:
            self.engine.unpin(SESSION, name := self._rng.choice(list(self.pins)))
            del self.pins[name]

    def _compact(self) -> None:
        self.engine.compact(SESSION, force=True, budget=BUDGET)

    def _new(self) -> None:
        self._answer()
        self.engine.new_session(SESSION, self._rng.randint(-1, 3))

    def _undo(self) -> None:
        self._answer()
        if not self.engine.undo_new(SESSION):
            self.engine.undo_compaction(SESSION)

    def _reset(self) -> None:
        if self.engine.reset_session(SESSION):
            self.pins.clear()
            self.instructions, self.request = [], ""

    def _end(self) -> None:
        """The run ends by itself; the host hands its instructions over again with the next message."""
        self.engine.end_session(SESSION, "end")
        self.instructions, self.request = [], ""

    def _reopen(self) -> None:
        self.engine.close()
        self.engine = self._open()

    def _move(self) -> None:
        lines: list[bytes] = []
        with self.engine.store.read() as reader:
            ids = list(conversation_ids(reader))
            write_jsonl(reader, _payloads(self.engine), lines.append, conversations=ids, whole=True, now=1)
        self.engine.close()
        self._database = self._place()
        self.engine = self._open()
        load_jsonl(lines, self.engine.store, _payloads(self.engine))


def _payloads(engine: Engine) -> PayloadPlace:
    return PayloadPlace(payload_folder(engine.config, engine.store))


def run(histories: int, steps: int, seed: int, place: Callable[[], str]) -> dict[str, Any]:
    """Plays histories and counts what is missing after each step."""
    missing: Counter[str] = Counter()
    contexts = pins = refused = 0
    failing: list[int] = []
    started = time.perf_counter()
    for number in range(seed, seed + histories):
        history = History(number, place)
        try:
            for _ in range(steps):
                found = history.step()
                missing += found
                contexts += 1
                pins += len(history.pins)
                if found and number not in failing:
                    failing.append(number)
        finally:
            history.close()
        refused += history.refused
    return {
        "histories": histories,
        "contexts": contexts,
        "pins_looked_for": pins,
        "pins_refused_for_lack_of_room": refused,
        "missing": dict(missing),
        "failing_seeds": failing[:10],
        "seconds": round(time.perf_counter() - started, 1),
    }


def main() -> None:
    """Prints the counts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--postgres", help="the URL of a database in which schemas may be made and dropped")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        places = iter(range(10**9))

        def file() -> str:
            return str(Path(folder) / f"{next(places)}.db")

        def schema() -> str:
            import psycopg

            name = f"standing_{next(places) % 4}"
            with psycopg.connect(arguments.postgres, autocommit=True) as connection:
                connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE'.encode())
            return f"{arguments.postgres}?schema={name}"

        done = run(
            arguments.histories, arguments.steps, arguments.seed, schema if arguments.postgres else file
        )
    print(json.dumps(done, indent=2))


if __name__ == "__main__":
    main()
