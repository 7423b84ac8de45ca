"""Cron lanes: each run by itself, kept and searchable, however runs overlap."""

from __future__ import annotations

import pytest
from messages import assistant, user

from lcm_plugin import Engine, Session
from lcm_plugin.store.session_keys import is_cron

pytestmark = pytest.mark.both_stores

KEY = "agent:main:cron:daily-report"
FIRST, SECOND, THIRD = (Session(KEY, f"run-{number}") for number in (1, 2, 3))
PROMPT = user("Write the daily report about the pump station and its sensors.")


def test_which_keys_are_isolated() -> None:
    assert is_cron("agent:main:cron:daily")
    assert is_cron("agent:main:cron:daily:run\n:1")
    for key in (
        "agent:main:cron",
        "agent:main:cron:",
        "agent:main:main:cron:x",
        "cron:daily",
        "agent::cron:x",
    ):
        assert not is_cron(key)


def test_a_run_never_sees_the_one_before(engine: Engine) -> None:
    engine.ingest(FIRST, [PROMPT, assistant("Report: valve 7 is broken.")], "sync")
    assert engine.assemble(SECOND, 8_000).messages == []
    assert engine.ingest(SECOND, [PROMPT], "sync").stored == 1
    assert engine.assemble(SECOND, 8_000).messages == [PROMPT]
    with engine.store.read() as reader:
        assert [row.archive_cause for row in reader.lane(KEY)] == ["cron-rotation", None]


def test_the_same_answer_of_another_run_is_stored(engine: Engine) -> None:
    turn = [PROMPT, assistant("Nothing to report about the pump station today.", id="1")]
    for run in (FIRST, SECOND, THIRD):
        assert engine.ingest(run, turn, "sync").stored == 2
        assert engine.ingest(run, turn, "sync").stored == 0


def test_what_an_earlier_run_still_says_goes_to_its_own_conversation(engine: Engine) -> None:
    engine.ingest(FIRST, [PROMPT])
    engine.ingest(SECOND, [PROMPT])
    engine.ingest(FIRST, [assistant("late answer of the first run")])
    engine.ingest(SECOND, [assistant("answer of the second run")])
    assert engine.messages(FIRST) == [PROMPT, assistant("late answer of the first run")]
    assert engine.messages(SECOND) == [PROMPT, assistant("answer of the second run")]
    with engine.store.read() as reader:
        assert len(reader.lane(KEY)) == 2


def test_a_runs_tools_see_their_run_and_the_others_only_when_asked(engine: Engine) -> None:
    engine.ingest(FIRST, [user("the first run mentions a heron")])
    engine.ingest(SECOND, [user("the second run mentions a heron")])
    for run, word in ((FIRST, "first"), (SECOND, "second")):
        own = engine.call_tool(run, "lcm_grep", {"pattern": "heron"})["hits"]
        assert [word in hit["snippet"] for hit in own] == [True]
        wide = engine.call_tool(run, "lcm_grep", {"pattern": "heron", "all_conversations": True})["hits"]
        assert len(wide) == 2
    main = Session("agent:main:main")
    assert (
        len(engine.call_tool(main, "lcm_grep", {"pattern": "heron", "all_conversations": True})["hits"]) == 2
    )


def test_a_cron_run_leaves_the_foreground_alone(engine: Engine, session: Session) -> None:
    """G10."""
    engine.ingest(session, [user("foreground")])
    engine.ingest(FIRST, [PROMPT])
    engine.end_session(FIRST, "end")
    assert engine.messages(session) == [user("foreground")]
    assert engine.command(session, "/lcm status").data["session"]["messages"] == 1


def test_reset_and_deletion_within_a_run(engine: Engine) -> None:
    engine.ingest(FIRST, [PROMPT])
    engine.reset_session(FIRST)
    assert engine.messages(FIRST) == []
    engine.ingest(FIRST, [user("after the reset")])
    engine.end_session(FIRST, "deleted")
    assert engine.messages(FIRST) == []
    engine.ingest(FIRST, [user("once more")])
    assert engine.messages(FIRST) == [user("once more")]


def test_a_bare_key_is_the_newest_run(engine: Engine) -> None:
    engine.ingest(FIRST, [user("one")])
    engine.ingest(SECOND, [user("two")])
    assert engine.messages(Session(KEY)) == [user("two")]
