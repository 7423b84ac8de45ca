"""Faults that others had with sessions (the catalogue's sections G and L), as far as no other file tests them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes.processes import Running
from fakes.validity import problems_of
from messages import assistant, call, result, user

from lcm_plugin import Engine, LcmConfig, LcmPlugin, Reset, Session, Turn

pytestmark = pytest.mark.both_stores_under_ci

SMALL = {
    "fresh_tail_count": 2,
    "leaf_chunk_tokens": 150,
    "leaf_target_tokens": 40,
    "leaf_min_fanout": 2,
    "condensed_min_fanout": 2,
}


def pump_talk(engine: Engine, session: Session, turns: int, start: int = 0) -> None:
    for n in range(start, start + turns):
        question = f"Question {n}: how does part {n} of the pump station {n} work, and why?"
        answer = f"Part {n} opens valve {n} when the pressure at sensor {n} falls."
        engine.ingest(session, [user(question), assistant(answer)])


def test_g3_what_new_kept_is_there_for_the_next_run(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(**SMALL)
    pump_talk(engine, session, 20)
    engine.compact(session, force=True, budget=900)
    engine.new_session(session, 0)
    kept = engine.context_items(session)
    assert kept
    after = Session(session.key, "another run")
    engine.ingest(after, [user("go on")])
    assert engine.context_items(after)[: len(kept)] == kept
    assert engine.assemble(after, 8_000).summaries == tuple(item.id for item in kept)


def test_g5_a_repair_does_not_bring_back_what_a_user_wiped(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("mango"), assistant("noted")])
    engine.reset_session(session)
    engine.ingest(session, [user("hello")])
    assert engine.check(session).ok
    assert engine.plan_repairs(engine.check(session)).steps == ()
    engine.command(session, "/lcm doctor")
    assert [m["content"] for m in engine.assemble(session, 8_000).messages] == ["hello"]
    with engine.store.read() as reader:
        assert [row.archive_cause for row in reader.lane(session.key)] == ["manual-reset", None]


def test_g9_the_engine_does_not_claim_an_ignored_session(tmp_path: Path) -> None:
    config = LcmConfig(database=str(tmp_path / "a.db"), ignore_session_patterns=["agent:*:cron:**"])
    plugin = LcmPlugin(config)
    cron = Session("agent:main:cron:x", "run-1")
    long = [user("word " * 4_000), assistant("yes")]
    context = plugin.before_turn(Turn(cron, long, window=2_000))
    assert context is not None
    assert context.messages == long
    assert not plugin.engine.evaluate(cron, 2_000).due
    refused = plugin.before_reset(Reset(cron, "new"))
    assert refused is not None
    assert refused.data["outcome"] == "noop"
    plugin.close()


def test_g14_the_newest_request_stays_word_for_word_and_the_first_is_not_pinned(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(session, [user("The very first request, about geese.")])
    pump_talk(engine, session, 10)
    newest = user("Now please go through all forty files and tell me which valves are broken.")
    engine.ingest(session, [newest])
    for half in range(2):
        for n in range(20):
            number = half * 20 + n
            engine.ingest(session, [call(f"c{number}"), result(f"c{number}", f"valve {number} is fine " * 8)])
        engine.compact(session, force=True, budget=1_500)
        context = engine.assemble(session, 1_500)
        assert newest in context.messages
        assert user("The very first request, about geese.") not in context.messages
        assert problems_of(context.messages) == []


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("lcm_grep", {"pattern": "heliotrope"}),
        ("lcm_grep", {"pattern": "heliotrope", "all_conversations": True}),
        ("lcm_grep", {"pattern": "heliotrope", "conversation_id": 1}),
        ("lcm_describe", {"id": "msg_1", "all_conversations": True}),
        ("lcm_expand", {"query": "heliotrope", "all_conversations": True}),
    ],
)
def test_g15_an_unbound_session_is_told_so_and_searches_nothing(
    open_engine: Callable[..., Engine], session: Session, tool: str, arguments: dict[str, Any]
) -> None:
    engine = open_engine(recall_scope="all")
    engine.ingest(session, [user("the word is heliotrope")])
    answer = engine.call_tool(Session(""), tool, arguments)
    assert "the word" not in json.dumps(answer)
    assert "not bound" in engine.command(Session(""), "/lcm status").text


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("lcm_grep", {"pattern": "heliotrope", "all_conversations": True}),
        ("lcm_describe", {"id": "msg_1", "all_conversations": True}),
        ("lcm_expand", {"query": "heliotrope", "all_conversations": True}),
    ],
)
def test_l3_another_agents_lane_is_out_of_reach(
    engine: Engine, session: Session, tool: str, arguments: dict[str, Any]
) -> None:
    engine.ingest(session, [user("the word is heliotrope")])
    stranger = Session("agent:ops:subagent:1", "s")
    engine.ingest(stranger, [user("hello")])
    assert "the word" not in json.dumps(engine.call_tool(stranger, tool, arguments))


def test_a_conversation_number_of_another_lane_reads_like_one_that_does_not_exist(
    engine: Engine, session: Session
) -> None:
    engine.ingest(session, [user("the word is heliotrope")])
    stranger = Session("agent:ops:main", "s")
    engine.ingest(stranger, [user("hello")])
    texts = [
        engine.call_tool(stranger, "lcm_grep", {"pattern": "x", "conversation_id": number})["error"]
        for number in (1, 77)
    ]
    assert texts[0].replace("conversation 1", "conversation 77") == texts[1]


def test_a_worker_lets_ignored_and_archived_conversations_be(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    writer = open_engine(**SMALL)
    ignored, wiped = Session("agent:main:secret", "a"), Session("agent:main:wiped", "b")
    for lane in (ignored, wiped, session):
        pump_talk(writer, lane, 30)
    with writer.store.write() as change:
        for number in (1, 2, 3):
            change.request_compaction(number, "over_threshold", 1_000, 0)
    writer.reset_session(wiped)
    worker = open_engine(ignore_session_patterns=["agent:main:secret"], **SMALL)
    worker.work(threading.Event(), until_idle=True)
    made = [sum(worker.library.summary_counts(number).values()) for number in (1, 2, 3)]
    assert made[:2] == [0, 0]
    assert made[2] > 0
    with worker.store.read() as reader:
        assert reader.due_debts(worker.clock()) == []


def test_a_window_of_no_size_is_replaced_with_a_warning(tmp_path: Path) -> None:
    """M10."""
    plugin = LcmPlugin(LcmConfig(database=str(tmp_path / "a.db")))
    seen: list[Any] = []
    plugin.engine.subscribe(seen.append)
    context = plugin.before_turn(Turn(Session("k"), [user("hello")], window=0))
    assert context is not None
    assert context.messages == [user("hello")]
    [event] = [event for event in seen if event.name == "turn.no_window"]
    assert event.fields == {"window": 0, "used": 128_000}
    plugin.close()


CHILD = """
import sys
from lcm_plugin import Engine, LcmConfig, Session
path, name = sys.argv[1:]
session = Session(f"agent:{name}:main", name)
with Engine.open(LcmConfig(database=path)) as engine:
    for number in range(40):
        engine.ingest(session, [{"role": "user", "content": f"{name} says {number}"}])
        if number % 10 == 9:
            engine.new_session(session, 0)
        if number == 29:
            engine.reset_session(session)
    assert all(message["content"].startswith(name) for message in engine.messages(session))
    print(len(engine.messages(session)))
"""


def test_processes_on_one_database_never_touch_each_others_lanes(
    database_named: Callable[[str], str], tmp_path: Path
) -> None:
    path, names = database_named("shared"), ("one", "two", "three")
    running = [Running("-c", CHILD, path, name, stdout=tmp_path / name) for name in names]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert [(tmp_path / name).read_text() for name in names] == ["10\n", "10\n", "10\n"]
    with Engine.open(LcmConfig(database=path)) as engine:
        assert engine.library.status().messages == 120
        assert engine.check().ok


def test_threads_on_their_own_lanes_do_not_mix(engine: Engine) -> None:
    failures: list[BaseException] = []

    def live(name: str) -> None:
        session = Session(f"agent:{name}:main", name)
        try:
            for number in range(25):
                engine.ingest(session, [user(f"{name} {number}")])
                if number % 7 == 6:
                    engine.new_session(session, 0)
                    engine.undo_new(session)
            assert engine.messages(session) == [user(f"{name} {number}") for number in range(25)]
            assert len(engine.context_items(session)) == 25
        except BaseException as error:  # noqa: BLE001 - told to the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=live, args=(f"t{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
