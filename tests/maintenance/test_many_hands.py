"""Turns, compactions, resets, redactions, checks and repairs at once: nothing is lost, doubled or miscounted."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from effort import FULL
from invariants import assert_sound
from messages import assistant, user

from lcm_plugin import Engine, Session
from lcm_plugin.maintenance.redaction.targets import MatchingTexts

pytestmark = pytest.mark.both_stores_under_ci

SECONDS = float(os.environ.get("TEST_CONCURRENCY_SECONDS", "1" if FULL else "0.3"))
HANDS, LANES = 4, 2
LEAST_TURNS = 6
SETTINGS = {
    "fresh_tail_count": 2,
    "leaf_chunk_tokens": 200,
    "leaf_target_tokens": 50,
    "leaf_min_fanout": 2,
    "condensed_target_tokens": 60,
    "condensed_min_fanout": 2,
    "busy_timeout_ms": 30_000,
}


class Hand:
    """One process's worth of work on lanes that everybody shares; what it stored, and what went wrong."""

    def __init__(self, engine: Engine, number: int) -> None:
        self.engine, self.number, self.random = engine, number, Random(number)
        self.stored: list[str] = []
        self.failures: list[str] = []

    def work(self) -> None:
        end, turn = time.monotonic() + SECONDS, 0
        acts = [self.compact, self.forget, self.undo, self.reset, self.redact, self.mend, self.read]
        while time.monotonic() < end or turn < LEAST_TURNS:
            turn += 1
            lane = Session(f"agent:main:lane{self.random.randrange(LANES)}", f"run-{self.number}")
            try:
                self.talk(lane, turn)
                self.random.choice(acts)(lane)
            except Exception as error:  # noqa: BLE001 - whatever a host would see is a finding
                self.failures.append(f"{type(error).__name__}: {error}")

    def talk(self, lane: Session, turn: int) -> None:
        said = [f"{self.number}.{turn}.{part}" for part in range(self.random.randrange(1, 4))]
        long = "the pump is slow " * self.random.randrange(2, 20)
        given = [
            (assistant if n % 2 else user)(f"{name} secret-{self.number} {long}")
            for n, name in enumerate(said)
        ]
        assert self.engine.ingest(lane, given).stored == len(given)
        self.stored += said

    def compact(self, lane: Session) -> None:
        self.engine.compact(lane, force=True, budget=2_000)

    def forget(self, lane: Session) -> None:
        self.engine.new_session(lane, self.random.choice([-1, 0, 1]))

    def undo(self, lane: Session) -> None:
        self.engine.undo_new(lane)

    def reset(self, lane: Session) -> None:
        if self.random.random() < 0.3:
            self.engine.reset_session(lane)

    def redact(self, lane: Session) -> None:
        self.engine.redaction(self.engine.store).apply(
            MatchingTexts.of_text(f"secret-{self.number}"), "a person"
        )

    def mend(self, lane: Session) -> None:
        report = self.engine.check()
        assert [finding.message for finding in report.findings if finding.severity == "error"] == []
        self.engine.repair(self.engine.plan_repairs(report), backup=False)

    def read(self, lane: Session) -> None:
        assert self.engine.assemble(lane, 1_500).tokens <= 1_500
        self.engine.call_tool(lane, "lcm_grep", {"pattern": "pump"})


def test_all_at_once_lose_nothing_and_double_nothing(
    open_engine: Callable[..., Engine], database_named: Callable[[str], str]
) -> None:
    hands = [Hand(open_engine(**SETTINGS), number) for number in range(HANDS)]
    threads = [threading.Thread(target=hand.work) for hand in hands]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 120)
    assert [failure for hand in hands for failure in hand.failures] == []
    engine = hands[0].engine
    found: Counter[str] = Counter()
    with engine.store.read() as reader:
        for conversation in reader.conversations():
            for row in reader.messages(conversation.conversation_id, limit=100_000):
                found[str(engine.library.whole(row)["content"]).partition(" ")[0]] += 1
    assert found == Counter(name for hand in hands for name in hand.stored)
    assert_sound(database_named("lcm"))
    assert [f.message for f in engine.check().findings if f.severity == "error"] == []
