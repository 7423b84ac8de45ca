"""Capture only: a host that compacts itself gets its own list back, and nothing of its talk is compacted here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, LcmPlugin, Memory, Session, Turn
from lcm_plugin.config import LcmConfig
from lcm_plugin.types import Message, Reason, Usage

pytestmark = pytest.mark.both_stores_under_ci

SMALL: dict[str, Any] = {
    "fresh_tail_count": 2,
    "leaf_chunk_tokens": 400,
    "leaf_trigger_tokens": 400,
    "leaf_target_tokens": 50,
    "leaf_min_fanout": 2,
    "verbatim_tokens": 0,
}
ASKED = user("What was the door code of house 7?")
WINDOW = 4_000


def talk(turns: int = 60) -> list[Message]:
    return [
        message
        for n in range(turns)
        for message in (
            user(f"Note {n}: the door code of house {n} is {n * 7919}, remember it please."),
            assistant(f"Noted the code of house {n}."),
        )
    ]


def compacted_by_host(messages: list[Message]) -> list[Message]:
    return [user("[Summary of the host: codes of houses were noted.]"), *messages[-4:]]


def test_the_host_gets_its_own_list_with_what_it_no_longer_shows_quoted_before_the_request(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(**SMALL, capture_only=True)
    plugin, said = LcmPlugin(engine=engine), talk()
    plugin.after_turn(Turn(session, said, window=WINDOW))
    own = [*compacted_by_host(said), ASKED]
    context = plugin.before_turn(Turn(session, own, window=WINDOW))
    assert context is not None
    assert [*context.messages[:-2], context.messages[-1]] == own
    assert "house 7 is 55433" in context.messages[-2]["content"]
    assert engine.messages(session)[: len(said)] == said
    assert not any("<recalled>" in str(message) for message in engine.messages(session))
    # Within the turn the list only grows.
    working = [*own, call("c1"), result("c1", "nothing new")]
    later = plugin.before_turn(Turn(session, working, window=WINDOW))
    assert later is not None
    assert later.messages[: len(context.messages)] == context.messages
    assert later.messages[len(context.messages) :] == working[-2:]


def test_a_list_that_shows_everything_comes_back_as_it_is(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(capture_only=True)
    own = [*talk(6), user("What was the door code of house 3?")]
    context = LcmPlugin(engine=engine).before_turn(Turn(session, own, window=WINDOW))
    assert context is not None
    assert (context.messages, context.recalled) == (own, ())


@pytest.mark.parametrize(
    "settings", [{"capture_only": True}, {"capture_only_session_patterns": ["agent:*:main"]}]
)
def test_nothing_compacts_it_whoever_asks(
    open_engine: Callable[..., Engine], session: Session, settings: dict[str, Any]
) -> None:
    engine = open_engine(**SMALL, **settings)
    engine.ingest(session, talk())
    items = engine.context_items(session)
    assert engine.captures_only(session)
    assert engine.evaluate(session, 1_000).reason is Reason.CAPTURE_ONLY
    assert engine.compact(session, force=True, budget=1_000).reason is Reason.CAPTURE_ONLY
    assert not engine.schedule_compaction(session, 1_000).due
    assert engine.recover_overflow(session, 1_000).reason is Reason.CAPTURE_ONLY
    stop = threading.Event()
    assert engine.work(stop, until_idle=True).passes == 0
    answer = engine.command(session, "/lcm compact")
    assert "by the host (`captureOnly`)" in answer.text
    assert engine.context_items(session) == items
    assert engine.call_tool(session, "lcm_grep", {"pattern": "house 7 is"})["hits"]


def test_sessions_that_no_pattern_names_are_compacted(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(**SMALL, capture_only_session_patterns=["agent:other:*"])
    engine.ingest(session, talk())
    assert not engine.captures_only(session)
    assert engine.compact(session, force=True, budget=2_000).compacted


def test_a_debt_from_before_the_setting_is_closed_by_the_next_worker(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    before = open_engine(**SMALL)
    before.ingest(session, talk())
    [conversation] = before.library.conversations()
    with before.store.write() as writer:
        writer.request_compaction(conversation.conversation_id, "over_threshold", 1_000, before.clock())
    before.close()
    engine = open_engine(**SMALL, capture_only=True)
    assert engine.work(threading.Event(), until_idle=True).passes == 0
    with engine.store.read() as reader:
        assert reader.due_debts(engine.clock()) == []
    engine.close()
    # Without the setting it is compacted again: the verdict was the setting's.
    assert open_engine(**SMALL).compact(session, budget=2_000).compacted


def test_a_host_leaves_one_conversation_to_itself_and_takes_that_back(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine, other = open_engine(**SMALL), Session("agent:main:other")
    assert not engine.leave_to_host(session)
    for each in (session, other):
        engine.ingest(each, talk())
    assert engine.leave_to_host(session)
    assert (engine.captures_only(session), engine.captures_only(other)) == (True, False)
    assert engine.compact(session, force=True, budget=1_000).reason is Reason.HOST_COMPACTS
    assert engine.work(threading.Event(), until_idle=True).passes > 0
    kinds = [{item.kind for item in engine.context_items(each)} for each in (session, other)]
    assert kinds == [{"message"}, {"message", "summary"}]
    assert "by the host, which said so" in engine.command(session, "/lcm status").text
    engine.close()
    again = open_engine(**SMALL)
    assert again.captures_only(session)
    assert again.leave_to_host(session, False)
    assert not again.captures_only(session)
    assert again.compact(session, force=True, budget=2_000).compacted


def test_what_a_provider_counts_of_the_hosts_list_teaches_nothing(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(capture_only=True)
    plugin = LcmPlugin(engine=engine)
    for turn in range(8):
        own = talk(turn + 2)
        plugin.before_turn(Turn(session, own[:-1], window=WINDOW, model="m"))
        plugin.after_turn(Turn(session, own, window=WINDOW, model="m", usage=Usage(prompt_tokens=3_000)))
    assert engine.calibration.factor("m") == 1.0


@pytest.mark.parametrize("capture_only", [True, False])
def test_a_memory_gives_the_talk_as_it_was_said(tmp_path: Any, capture_only: bool) -> None:
    config = LcmConfig(**SMALL, capture_only=capture_only, active_recall="off")
    with Memory(tmp_path / "lcm.db", window=64_000, config=config) as memory:
        said = talk(100)
        memory.add(*said, ASKED)
        memory.end_turn()
        assert memory.engine.wait_idle(30)
        shown = [one for one in memory.context() if one["role"] != "system"]
        assert (shown == [*said, ASKED]) is capture_only


def test_status_and_doctor_say_who_compacts(open_engine: Callable[..., Engine], session: Session) -> None:
    engine = open_engine(**SMALL, capture_only=True)
    engine.ingest(session, talk())
    status = engine.command(session, "/lcm status")
    assert "compaction: by the host (`captureOnly`)" in status.text
    assert status.data["session"]["compaction"]["verdict"] == "capture_only"
    assert "the host does that" in engine.command(session, "/lcm doctor").text
