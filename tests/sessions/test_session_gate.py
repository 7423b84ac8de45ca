"""Ignored and stateless sessions: for every hook and tool, with a key or a bare session id."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from messages import assistant, user

from lcm_plugin import Engine, LcmConfig, LcmPlugin, Reset, Session, Turn
from lcm_plugin.sessions.access import Access, SessionGate

pytestmark = pytest.mark.both_stores_under_ci

CRON = Session("agent:main:cron:daily:1", "run-1")
HELPER = Session("agent:main:helper:7", "run-7")
MAIN = Session("agent:main:main", "run-main")


@pytest.fixture
def gated(open_engine: Callable[..., Engine]) -> Engine:
    return open_engine(
        ignore_session_patterns=["agent:*:cron:**"], stateless_session_patterns=["agent:*:helper:*"]
    )


def counts(engine: Engine) -> tuple[int, int]:
    status = engine.library.status()
    return status.conversations, status.messages


def test_an_ignored_session_is_neither_written_nor_read(open_engine: Callable[..., Engine]) -> None:
    open_engine().ingest(CRON, [user("stored before it was ignored")])
    engine = open_engine(ignore_session_patterns=["agent:*:cron:**"])
    report = engine.ingest(CRON, [user("never stored")])
    assert (report.stored, report.skipped, report.reason) == (0, 1, "the session is ignored")
    assert counts(engine) == (1, 1)
    assert engine.messages(CRON) == []
    assert engine.context_items(CRON) == []
    context = engine.assemble(CRON, 8_000)
    assert context.messages == []
    assert "is ignored" in " ".join(context.notices)
    assert engine.new_session(CRON).dropped_messages == 0
    assert engine.reset_session(CRON) is None
    assert engine.end_session(CRON, "deleted") is None
    assert not engine.compact(CRON, force=True).compacted
    assert engine.call_tool(CRON, "lcm_grep", {"pattern": "stored"})["hits"] == []
    assert "error" in engine.call_tool(CRON, "lcm_describe", {"id": "msg_1"})
    assert engine.library.conversation("1").active


def test_what_is_ignored_now_is_not_readable_by_siblings(open_engine: Callable[..., Engine]) -> None:
    """With every form of access: all conversations, a number, an id; and a sub-agent by its parent's grant."""
    before = open_engine()
    before.ingest(MAIN, [user("the weather is fine")])
    before.ingest(CRON, [user("the vault code is 7315")])
    sibling, helper = Session("agent:main:two", "run-2"), Session("agent:main:sub", "run-3")
    engine = open_engine(ignore_session_patterns=["agent:*:cron:**"])
    engine.ingest(sibling, [user("hello")])
    engine.bootstrap_session(helper, CRON)
    for asking in (sibling, helper):
        for arguments in ({"all_conversations": True}, {"conversation_id": 2}, {}):
            answer = engine.call_tool(asking, "lcm_grep", {"pattern": "vault", **arguments})
            assert not answer.get("hits"), (asking, arguments)
        for name, asked in (
            ("lcm_describe", {"id": "msg_2", "all_conversations": True}),
            ("lcm_expand", {"query": "vault", "all_conversations": True}),
            ("lcm_expand_query", {"prompt": "the vault code?", "query": "vault", "all_conversations": True}),
        ):
            assert "7315" not in str(engine.call_tool(asking, name, asked))
    found = engine.call_tool(sibling, "lcm_grep", {"pattern": "weather", "all_conversations": True})
    assert len(found["hits"]) == 1


def test_a_stateless_session_reads_and_never_writes(open_engine: Callable[..., Engine]) -> None:
    open_engine().ingest(HELPER, [user("known from before")])
    engine = open_engine(stateless_session_patterns=["agent:*:helper:*"])
    assert engine.ingest(HELPER, [user("not kept")]).reason == "the session is stateless"
    assert engine.messages(HELPER) == [user("known from before")]
    assert len(engine.call_tool(HELPER, "lcm_grep", {"pattern": "known"})["hits"]) == 1
    assert engine.new_session(HELPER, 0).dropped_messages == 0
    assert engine.reset_session(HELPER) is None
    assert engine.end_session(HELPER, "deleted") is None
    assert len(engine.context_items(HELPER)) == 1
    assert engine.bootstrap_session(HELPER, MAIN) == 0


def test_stateless_patterns_can_be_switched_off(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(stateless_session_patterns=["**"], skip_stateless_sessions=False)
    assert engine.ingest(HELPER, [user("kept")]).stored == 1


def test_a_bare_id_follows_the_key_it_was_seen_with_in_this_process(gated: Engine) -> None:
    gated.ingest(CRON, [user("first hook, with the key")])
    gated.ingest(Session("", CRON.id), [user("second hook, with the id only")])
    assert counts(gated) == (0, 0)
    assert gated.access(Session("", CRON.id)) is Access.NONE


def test_a_bare_id_follows_the_key_it_was_stored_with_by_another_process(
    open_engine: Callable[..., Engine],
) -> None:
    open_engine().ingest(CRON, [user("stored")])
    later = open_engine(ignore_session_patterns=["agent:*:cron:**"])
    assert later.ingest(Session("", CRON.id), [user("not stored")]).stored == 0
    assert counts(later) == (1, 1)


def test_a_bare_id_follows_its_lane_after_a_rollover(gated: Engine) -> None:
    rolled = Session(CRON.key, "run-2")
    gated.end_session(CRON, "rollover")
    gated.ingest(rolled, [user("the new run, with its key")])
    gated.ingest(Session("", "run-2"), [user("the new run, by its id")])
    assert counts(gated) == (0, 0)


def test_a_bare_id_without_any_key_is_matched_itself(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(ignore_session_patterns=["probe-*"])
    assert engine.ingest(Session("", "probe-17"), [user("x")]).stored == 0
    assert engine.ingest(Session("", "5f3a"), [user("x")]).stored == 1


def test_a_bare_id_reaches_the_conversation_of_its_key(engine: Engine) -> None:
    engine.ingest(MAIN, [user("one")])
    engine.ingest(Session("", MAIN.id), [assistant("two")])
    assert [m["content"] for m in engine.messages(MAIN)] == ["one", "two"]
    assert engine.library.status().conversations == 1


def test_the_plugin_hands_an_ignored_hosts_list_back_untouched(tmp_path: Path) -> None:
    plugin = LcmPlugin(
        LcmConfig(database=str(tmp_path / "lcm.db"), ignore_session_patterns=["agent:*:cron:**"])
    )
    own = [user("hello"), assistant("")]
    context = plugin.before_turn(Turn(CRON, own))
    assert context is not None
    assert context.messages == own
    plugin.after_turn(Turn(CRON, [*own, user("more")]))
    plugin.before_reset(Reset(CRON, "reset"))
    plugin.session_end(CRON, "deleted")
    assert counts(plugin.engine) == (0, 0)
    assert not plugin.engine.evaluate(CRON, 10).due
    plugin.close()


def test_an_ignored_session_is_only_told_of_as_skipped(gated: Engine) -> None:
    seen: list[str] = []
    gated.subscribe(lambda event: seen.append(event.name))
    gated.ingest(CRON, [user("x" * 4_000)] * 50)
    gated.schedule_compaction(CRON, 100)
    assert gated.wait_idle(60)
    assert set(seen) == {"ingest.skipped"}


def test_the_gate_forgets_the_oldest_ids_and_stays_small() -> None:
    gate = SessionGate(LcmConfig(ignore_session_patterns=["agent:*:cron:**"]))
    for number in range(10_000):
        gate.access(Session("agent:main:cron:x", f"run-{number}"))
    assert gate.access(Session("", "run-9999")) is Access.NONE
    assert gate.key_of(Session("", "run-0")) == "run-0"
