"""``/lcm prune`` and ``/lcm doctor clean`` as a person in a chat types them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from messages import assistant, user

from lcm_plugin import Engine, Session

pytestmark = pytest.mark.both_stores_under_ci

DAY = 86_400_000
LANE = Session("agent:main:main", "run-1")
OTHERS = Session("agent:other:main", "run-9")


def archived(engine: Engine, session: Session, count: int = 3) -> None:
    for number in range(count):
        engine.ingest(session, [user(f"{session.key} says {number}"), assistant("yes")])
    engine.reset_session(session)


def stored(engine: Engine, session: Session) -> int:
    with engine.store.read() as reader:
        return sum(row.message_count for row in reader.lane(session.key))


def test_without_confirmation_only_the_counts_are_told(engine: Engine, clock: Any) -> None:
    archived(engine, LANE)
    clock.forward(100 * DAY)
    answer = engine.command(LANE, "/lcm prune --older-than 90d")
    assert answer.ok
    assert "6 messages in 1 conversation" in answer.text
    assert "Nothing was removed" in answer.text
    assert answer.data["messages"] == 6
    half = engine.command(LANE, "/lcm prune --older-than 90d --apply")
    assert not half.ok
    assert "--confirm delete" in half.text
    wrong = engine.command(LANE, "/lcm prune --older-than 90d --apply --confirm yes")
    assert not wrong.ok
    assert stored(engine, LANE) == 6


@pytest.mark.sqlite_only
def test_with_both_words_it_goes_after_a_checked_copy(engine: Engine, clock: Any, tmp_path: Path) -> None:
    archived(engine, LANE)
    clock.forward(100 * DAY)
    answer = engine.command(LANE, "/lcm prune --older-than 90d --apply --confirm delete")
    assert answer.ok, answer.text
    assert answer.data["messages"] == 6
    assert stored(engine, LANE) == 0
    with sqlite3.connect(answer.data["backup"]) as connection:
        assert connection.execute("SELECT count(*) FROM messages").fetchone() == (6,)
    connection.close()
    assert answer.data["backup"] in answer.text


def test_no_backup_is_made_when_it_is_refused(engine: Engine, tmp_path: Path) -> None:
    archived(engine, LANE)
    answer = engine.command(LANE, "/lcm prune --older-than 0m --no-backup --apply --confirm=delete")
    assert answer.data["backup"] == ""
    assert list(tmp_path.glob("*.bak")) == []


@pytest.mark.parametrize(("reach", "gone"), [("session", False), ("agent", False), ("all", True)])
def test_a_chat_reaches_no_further_than_its_tools(
    open_engine: Callable[..., Engine], reach: str, gone: bool
) -> None:
    engine = open_engine(recall_scope=reach)
    archived(engine, OTHERS)
    archived(engine, LANE)
    engine.command(LANE, "/lcm prune --older-than 0m --sessions ** --apply --confirm delete --no-backup")
    assert stored(engine, LANE) == 0
    assert (stored(engine, OTHERS) == 0) is gone


def test_another_lane_of_the_same_agent_is_in_reach_of_agent(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(recall_scope="agent")
    sibling = Session("agent:main:second")
    archived(engine, sibling)
    engine.command(LANE, "/lcm prune --sessions agent:main:* --apply --confirm delete --no-backup")
    assert stored(engine, sibling) == 0


def test_keeping_summaries_is_said(engine: Engine) -> None:
    archived(engine, LANE)
    text = engine.command(LANE, "/lcm prune --older-than 0m --keep-summaries").text
    assert "the texts of 6 messages" in text
    assert "6 messages of these are in no summary" in text


@pytest.mark.sqlite_only
def test_a_size_is_reached(engine: Engine) -> None:
    for number in range(6):
        session = Session(f"agent:main:lane{number}")
        engine.ingest(session, [user("a long story about many things " * 4_000)])
        engine.reset_session(session)
    with engine.store.read() as reader:
        size = reader.status().size_bytes
    wanted = f"{size // 2 // 1024}KB"
    answer = engine.command(LANE, f"/lcm prune --max-size {wanted} --apply --confirm delete --no-backup")
    assert answer.ok, answer.text
    assert answer.data["size_after"] <= size // 2
    assert 0 < answer.data["conversations"] < 6


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "say what is to go"),
        ("--older-than", "needs a value"),
        ("--older-than soon", "'soon' is no age"),
        ("--max-size 2XB", "'2XB' is no size"),
        ("--older 90d", "no option '--older'"),
        ("all", "'all' is no option"),
    ],
)
def test_what_is_written_wrong_is_told(engine: Engine, words: str, told: str) -> None:
    archived(engine, LANE)
    answer = engine.command(LANE, f"/lcm prune {words}")
    assert not answer.ok
    assert told in answer.text
    assert stored(engine, LANE) == 6


def test_doctor_clean_takes_all_classes_or_those_that_are_named(engine: Engine, clock: Any) -> None:
    archived(engine, LANE)
    for key in ("agent:main:cron:nightly", "agent:main:subagent:1", "agent:main:second"):
        engine.ingest(Session(key, "r"), [user("hello"), assistant("yes")])
    with engine.store.write() as writer:
        writer.open_conversation(Session("agent:main:empty"), clock())
    clock.forward(8 * DAY)
    engine.ingest(LANE, [user("present"), assistant("yes")])
    text = engine.command(LANE, "/lcm doctor clean").text
    assert "1 archived, 1 cron, 1 orphan, 1 subagent" in text
    assert "1 old" not in text
    clock.forward(90 * DAY)
    assert "old" in engine.command(LANE, "/lcm doctor clean").text
    only = engine.command(LANE, "/lcm doctor clean cron subagents")
    assert only.data["messages"] == 4
    done = engine.command(LANE, "/lcm doctor clean cron orphans --apply --confirm delete --no-backup")
    assert done.ok, done.text
    assert done.data["conversations"] == 2
    assert "no class 'lanes'" in engine.command(LANE, "/lcm doctor clean lanes").text


def test_a_lane_in_use_is_never_cleaned(engine: Engine) -> None:
    engine.ingest(LANE, [user("present"), assistant("yes")])
    assert engine.command(LANE, "/lcm doctor clean").data["conversations"] == []
