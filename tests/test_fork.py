"""A process that forks, as gunicorn and multiprocessing do: both go on, and nothing is lost, doubled or damaged."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from messages import assistant, user
from small_talk import turns

from lcm_plugin import Engine, LcmConfig, LcmPlugin, Session, Turn
from lcm_plugin.errors import StoreUnavailable
from lcm_plugin.store.side_file import side_path
from lcm_plugin.store.waiting import WaitingFile

pytestmark = [
    pytest.mark.both_stores,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:This process.*is multi-threaded, use of fork:DeprecationWarning"),
]
SMALL: dict[str, Any] = {"fresh_tail_count": 4, "leaf_chunk_tokens": 600, "leaf_target_tokens": 150}


def in_child(work: Callable[[], object]) -> int:
    """Runs work in a forked process and returns its number; the process ends with 0 when it went well."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:  # noqa: BLE001 - shown, and told by the exit code
        traceback.print_exc(file=sys.stderr)
        os._exit(1)
    os._exit(0)


def assert_ended_well(child: int) -> None:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def lane(number: int) -> Session:
    return Session(f"agent:main:lane-{number}")


def said(who: str, count: int = 8) -> list[Any]:
    return [user(f"{who} says {number}") for number in range(count)]


def test_parent_and_children_store_into_one_database(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(lane(0), said("parent before"))

    def work(number: int) -> None:
        assert engine.messages(lane(0))[:1] == [user("parent before says 0")]
        for message in said(f"child {number}"):
            engine.ingest(lane(number), [message])
            engine.ingest(lane(9), [message])
        engine.ingest(lane(number), turns(20))
        engine.schedule_compaction(lane(number), 3_000)
        assert engine.wait_idle(60)
        assert any(item.kind == "summary" for item in engine.context_items(lane(number)))
        assert "hits" in engine.call_tool(lane(number), "lcm_grep", {"pattern": "says"})

    children = [in_child(lambda number=number: work(number)) for number in (1, 2)]  # type: ignore[misc]
    for message in said("parent"):
        engine.ingest(lane(0), [message])
        engine.ingest(lane(9), [message])
    for child in children:
        assert_ended_well(child)
    assert engine.messages(lane(0)) == [*said("parent before"), *said("parent")]
    assert engine.messages(lane(1))[:8] == said("child 1")
    assert engine.messages(lane(2))[:8] == said("child 2")
    together = [message["content"] for message in engine.messages(lane(9))]
    assert sorted(together) == sorted(
        m["content"] for m in said("parent") + said("child 1") + said("child 2")
    )
    assert engine.check().ok


@pytest.mark.long
def test_a_fork_while_other_threads_store_stops_and_loses_nothing(open_engine: Callable[..., Engine]) -> None:
    engine, stop = open_engine(), threading.Event()
    stored: dict[int, list[Any]] = {1: [], 2: []}

    def talk(number: int) -> None:
        while not stop.is_set():
            message = user(f"{number} says {len(stored[number])}")
            engine.ingest(lane(number), [message])
            stored[number].append(message)

    threads = [threading.Thread(target=talk, args=(number,)) for number in stored]
    for thread in threads:
        thread.start()
    for round_ in range(5):
        child = in_child(lambda round_=round_: engine.ingest(lane(10 + round_), said("child")))  # type: ignore[misc]
        assert_ended_well(child)
    stop.set()
    for thread in threads:
        thread.join(60)
    for number, messages in stored.items():
        assert engine.messages(lane(number)) == messages
    for round_ in range(5):
        assert engine.messages(lane(10 + round_)) == said("child")
    assert engine.check().ok


def test_locks_that_other_threads_hold_are_free_in_the_child(engine: Engine) -> None:
    plugin, held, done = LcmPlugin(engine=engine), threading.Event(), threading.Event()
    plugin.before_turn(Turn(lane(1), [user("one")], mode="append"))

    def hold() -> None:
        recorder = plugin._recorder
        locks = (
            recorder._lane(lane(1)).lock,
            recorder._lock,
            plugin._opening,
            engine.recent_warnings._newest._lock,
        )
        with locks[0], locks[1], locks[2], locks[3], engine.background._lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)

    def work() -> None:
        context = plugin.before_turn(Turn(lane(1), [user("two")], mode="append", window=8_000))
        assert context is not None
        assert [m["content"] for m in context.messages] == ["one", "two"]

    child = in_child(work)
    try:
        assert_ended_well(child)
    finally:
        done.set()
        thread.join(60)


def test_what_waits_in_the_parent_is_the_parents_to_store(
    open_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine()
    plugin, ingest = LcmPlugin(engine=engine), Engine.ingest

    def failing(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "ingest", failing)
        patch.setattr(WaitingFile, "add", failing)
        plugin.before_turn(Turn(lane(1), [user("one")], mode="append"))
    assert Engine.ingest is ingest
    child = in_child(lambda: plugin.before_turn(Turn(lane(1), [user("from the child")], mode="append")))
    assert_ended_well(child)
    plugin.before_turn(Turn(lane(1), [assistant("two")], mode="append"))
    assert [m["content"] for m in engine.messages(lane(1))] == ["from the child", "one", "two"]


@pytest.mark.sqlite_only
def test_a_database_that_is_in_use_at_the_fork_is_refused_in_the_child_and_its_messages_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcm_plugin.store.sqlite.connection._FORK_WAIT_S", 0.05)
    config = LcmConfig(database=str(tmp_path / "lcm.db"))
    plugin = LcmPlugin(config)
    plugin.before_turn(Turn(lane(1), [user("one")], mode="append"))
    with plugin.engine.store.read() as reader:
        child = in_child(lambda: plugin.before_turn(Turn(lane(1), [user("two")], mode="append")))
        assert_ended_well(child)
        assert reader.conversations()
    assert WaitingFile(side_path(config)).count(lane(1).key) == 1
    plugin.close()
    later = LcmPlugin(config)
    later.before_turn(Turn(lane(1), [user("three")], mode="append"))
    assert [m["content"] for m in later.engine.messages(lane(1))] == ["one", "two", "three"]
    later.close()
