"""A session with a history, for commands to answer about."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from messages import assistant, user

from lcm_plugin import Engine, Session

SETTINGS = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 200,
    "leaf_target_tokens": 50,
    "leaf_min_fanout": 2,
    "condensed_min_fanout": 3,
}


def talk_in(engine: Engine, session: Session, turns: int, word: str = "pump") -> None:
    for number in range(turns):
        question = f"How does {word} number {number} work, and who repairs {word} {number} when it fails?"
        reply = f"The {word} number {number} lifts water; team {number % 3} repairs it within two days."
        engine.ingest(session, [user(question), assistant(reply)])


@pytest.fixture
def busy(open_engine: Callable[..., Engine], session: Session) -> Engine:
    """An engine whose session was compacted, with a second session beside it."""
    engine = open_engine(**SETTINGS)
    talk_in(engine, session, 24)
    engine.compact(session, force=True, budget=1_000)
    talk_in(engine, Session("agent:main:other", "run-x"), 3, word="orchid")
    return engine
