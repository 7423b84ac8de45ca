"""What the first turn of a fresh engine asks of a database: as much of a long history as of a short one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from messages import assistant, user
from small_talk import turns

from lcm_plugin import Engine, LcmPlugin, Session, Turn
from lcm_plugin.recall.catchup import index_all
from lcm_plugin.store.sqlite.connection import Connections

pytestmark = pytest.mark.sqlite_only

WINDOW = 8_000
STEPS = 20


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Of the main thread, statements and SQLite's own steps by the score, of which each row that is read takes some."""
    counts: Counter[str] = Counter()
    connect = Connections.connect_to_path

    def note(what: str) -> None:
        if threading.current_thread() is threading.main_thread():
            counts[what] += 1

    def traced(self: Any) -> Any:
        connection = connect(self)
        connection.set_trace_callback(lambda sql: None if sql.startswith("--") else note("statements"))
        connection.set_progress_handler(lambda: note("steps"), STEPS)
        return connection

    monkeypatch.setattr(Connections, "connect_to_path", traced)
    return counts


def test_the_first_turn_of_a_process_reads_as_much_of_a_long_history_as_of_a_short_one(
    open_engine: Callable[..., Engine], session: Session, spent: Counter[str]
) -> None:
    def first_turn(count: int) -> Counter[str]:
        settings: dict[str, Any] = {"leaf_chunk_tokens": 1_500, "leaf_target_tokens": 100}
        engine = open_engine(f"talk-{count}", **settings)
        engine.ingest(session, turns(count))
        assert engine.compact(session, force=True, budget=WINDOW).compacted
        assert engine.wait_idle(60)
        index_all(engine.store, engine.events)
        engine.close()
        spent.clear()
        plugin = LcmPlugin(engine=open_engine(f"talk-{count}", **settings))
        plugin.before_turn(
            turn=Turn(session, [user("What is next?")], mode="append", window=WINDOW, recall=False)
        )
        plugin.after_turn(
            turn=Turn(session, [assistant("A bridge.")], mode="append", window=WINDOW, recall=False)
        )
        return spent.copy()

    short, long = first_turn(200), first_turn(600)
    assert long["statements"] <= short["statements"] + 4
    assert long["steps"] <= 1.3 * short["steps"]
