"""A session with a history, for commands to answer about."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from clock import Clock
from messages import assistant, user

from lcm_plugin import Engine, LcmConfig, Session

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


@pytest.fixture(scope="session")
def busy_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a session that was compacted, and a second session beside it."""
    path = tmp_path_factory.mktemp("busy") / "lcm.db"
    with Engine.open(LcmConfig(database=str(path), **SETTINGS), clock=Clock()) as engine:
        _keep_busy(engine)
    return path


@pytest.fixture
def busy(
    open_engine: Callable[..., Engine],
    database_named: Callable[[str], str],
    store_kind: str,
    request: pytest.FixtureRequest,
) -> Engine:
    """An engine on such a database of the test's own."""
    if store_kind == "sqlite":
        shutil.copy(request.getfixturevalue("busy_sqlite"), database_named("lcm"))
        return open_engine(**SETTINGS)
    engine = open_engine(**SETTINGS)
    _keep_busy(engine)
    return engine


def _keep_busy(engine: Engine) -> None:
    session = Session("agent:main:main", "run-1")
    talk_in(engine, session, 24)
    engine.compact(session, force=True, budget=1_000)
    talk_in(engine, Session("agent:main:other", "run-x"), 3, word="orchid")
