"""The index is brought up to date behind turns, and never in their way."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from messages import user

from lcm_plugin import Engine, Session
from lcm_plugin.recall.catchup import BACKGROUND_LAG, index_all, index_in_background

pytestmark = pytest.mark.both_stores


def lag(engine: Engine) -> int:
    with engine.store.read() as reader:
        return reader.index_state().message_lag


@pytest.mark.sqlite_only
def test_turns_index_once_enough_has_gathered(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user(f"row {n}") for n in range(BACKGROUND_LAG - 1)])
    engine.schedule_compaction(session)
    assert engine.wait_idle(60)
    assert lag(engine) == BACKGROUND_LAG - 1
    engine.ingest(session, [user("one more")])
    engine.schedule_compaction(session)
    assert engine.wait_idle(60)
    assert lag(engine) == 0


@pytest.mark.sqlite_only
def test_indexing_stops_when_told(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user(f"row {n}") for n in range(BACKGROUND_LAG)])
    assert index_in_background(engine.store, engine.events, lambda: True) == 0
    assert lag(engine) == BACKGROUND_LAG


@pytest.mark.sqlite_only
def test_another_writer_is_waited_for_only_briefly_and_nothing_is_missed(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine("busy", busy_timeout_ms=50)
    other = open_engine("busy")
    engine.ingest(session, [user("a lamp")])
    with other.store.write() as writer:
        writer.save_guard("x", {})
        answer = engine.call_tool(session, "lcm_grep", {"pattern": "lamp"})
        assert len(answer["hits"]) == 1
    assert lag(engine) == 1
    assert index_all(engine.store, engine.events) == 1


def test_searches_and_writers_run_side_by_side(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("row 0 lamp")])
    counts: list[int] = []

    def write() -> None:
        for n in range(1, 60):
            engine.ingest(session, [user(f"row {n} lamp")])

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        counts.append(len(engine.call_tool(session, "lcm_grep", {"pattern": "lamp", "limit": 200})["hits"]))
    writer.join()
    assert counts == sorted(counts)
    assert len(engine.call_tool(session, "lcm_grep", {"pattern": "lamp", "limit": 200})["hits"]) == 60
