"""The index is brought up to date behind turns, and never in their way."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from messages import user

from lcm_plugin import Engine, Session
from lcm_plugin.events import EventBus
from lcm_plugin.recall import service, textsearch
from lcm_plugin.recall.catchup import BACKGROUND_BATCH, BACKGROUND_LAG, BULK, index_all, index_in_background
from lcm_plugin.store.protocol import Store

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
def test_a_bulk_is_indexed_behind_its_ingest_without_a_turn(engine: Engine, session: Session) -> None:
    rows = [user(f"row {n}") for n in range(BULK)]
    engine.ingest(session, rows[:-1])
    assert engine.wait_idle(60)
    assert lag(engine) == BULK - 1
    engine.ingest(session, rows[-1:])
    assert engine.wait_idle(60)
    assert lag(engine) == 0


@pytest.mark.sqlite_only
def test_a_search_reads_the_newest_of_what_is_not_indexed_yet_and_says_what_is_left(
    engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.ingest(session, [user("the first lamp")])
    assert engine.call_tool(session, "lcm_grep", {"pattern": "lamp"})["hits"]
    engine.ingest(session, [user(f"row {n} lamp") for n in range(200)])
    monkeypatch.setattr(textsearch, "UNINDEXED_SECONDS", 0.0)
    monkeypatch.setattr(service, "SECONDS", 0.0)
    answer = engine.call_tool(session, "lcm_grep", {"pattern": "lamp", "limit": 200})
    found = {hit["id"] for hit in answer["hits"]}
    assert {"msg_1", "msg_190", "msg_201"} <= found
    assert len(found) < 100
    assert any(note.startswith("200 messages are not indexed yet") for note in answer["notices"])
    assert "at least" in str(answer["total"])
    monkeypatch.undo()
    assert engine.call_tool(session, "lcm_grep", {"pattern": "lamp"})["total"] == 201


@pytest.mark.sqlite_only
def test_what_a_search_had_no_time_to_index_is_indexed_in_the_background(
    engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_batch(store: Store, events: EventBus, seconds: float, *, batch: int) -> int:
        stops = iter([False])
        return index_all(store, events, seconds=60, batch=batch // 10, stop=lambda: next(stops, True))

    engine.ingest(session, [user(f"row {n} lamp") for n in range(BACKGROUND_LAG + 10)])
    monkeypatch.setattr(service, "index_all", one_batch)
    assert engine.call_tool(session, "lcm_grep", {"pattern": "lamp"})["hits"]
    assert engine.wait_idle(60)
    assert lag(engine) == 0


@pytest.mark.sqlite_only
def test_what_another_process_left_is_indexed_once_the_database_is_opened(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    for _ in range(2):
        with open_engine("left") as engine:
            engine.ingest(session, [user(f"row {n}") for n in range(BULK // 2)], mode="all")
            assert engine.wait_idle(60)
    with open_engine("left") as engine:
        assert engine.wait_idle(60)
        assert lag(engine) == 0


@pytest.mark.sqlite_only
def test_a_search_leaves_a_bulk_to_the_background(
    engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[bool] = []
    monkeypatch.setattr(engine.background, "submit", lambda key, job: started.append(True))
    engine.ingest(session, [user(f"row {n} lamp") for n in range(BULK + BACKGROUND_BATCH)])
    assert started.pop()
    assert engine.call_tool(session, "lcm_grep", {"pattern": "lamp"})["hits"]
    # One batch shows that this process may write.
    assert lag(engine) == BULK
    assert started.pop()
    monkeypatch.setattr(engine.background, "is_busy", lambda key: True)
    assert engine.call_tool(session, "lcm_grep", {"pattern": "lamp"})["hits"]
    assert lag(engine) == BULK
    assert not started


@pytest.mark.sqlite_only
def test_a_database_that_cannot_be_written_is_searched_and_starts_no_work(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    with open_engine("kept") as engine:
        engine.ingest(session, [user(f"row {n} lamp") for n in range(BULK - 1)])
        threads = threading.active_count()
        with Engine.open(engine.config, read_only=True) as reader:
            assert reader.call_tool(session, "lcm_grep", {"pattern": "lamp"})["hits"]
            assert threading.active_count() == threads
        assert lag(engine) == BULK - 1


@pytest.mark.sqlite_only
def test_a_search_that_found_enough_of_the_newest_says_that_it_did_not_read_the_others(
    engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(textsearch, "MAX_POOL", 20)
    monkeypatch.setattr(service, "index_all", lambda *a, **k: 0)
    engine.ingest(session, [user(f"row {n} lamp") for n in range(40)])
    answer = engine.call_tool(session, "lcm_grep", {"pattern": "lamp"})
    assert any(note.startswith("40 messages are not indexed yet") for note in answer["notices"])
    monkeypatch.setattr(textsearch, "MAX_POOL", 40)
    answer = engine.call_tool(session, "lcm_grep", {"pattern": "lamp"})
    assert not any("not indexed yet" in note for note in answer["notices"])


def test_all_attempts_of_a_search_share_the_time_for_what_is_not_indexed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(textsearch, "UNINDEXED_SECONDS", 0.8)
    monkeypatch.setattr(textsearch.time, "monotonic", lambda: now)
    patience = textsearch.Patience()
    for most in (0.4, 0.2, 0.1):
        assert patience.deadline() - now == pytest.approx(most)
        now = patience.deadline()
    now += 10
    assert patience.deadline() == now


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
