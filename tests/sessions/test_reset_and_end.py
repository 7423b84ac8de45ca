"""``/reset`` and ``session_end``: what is archived why, and that what was wiped stays out of the context."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from messages import assistant, user

from lcm_plugin import Engine, Session
from lcm_plugin.store.records import Conversation
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores

FACTS = [
    user("My favourite fruit is mango, I live in Lisbon and I am reading Dune."),
    assistant("Noted: mango, Lisbon, Dune."),
    user("What did I say?"),
    assistant("You like mango, you live in Lisbon, and you read Dune at the moment."),
]


def lane(engine: Engine, session: Session) -> list[Conversation]:
    with engine.store.read() as reader:
        return reader.lane(session.key)


def words(messages: list[Message]) -> str:
    return " ".join(str(message["content"]) for message in messages)


def test_a_new_run_of_the_same_key_is_the_same_conversation(engine: Engine) -> None:
    for number in range(12):
        engine.ingest(Session("agent:main:main", f"run-{number}"), [user(f"message {number}")])
    assert len(lane(engine, Session("agent:main:main"))) == 1
    assert len(engine.messages(Session("agent:main:main", "run-99"))) == 12


def test_reset_archives_with_its_cause_and_starts_afresh(engine: Engine, session: Session) -> None:
    engine.ingest(session, FACTS)
    archived = engine.reset_session(session)
    assert archived is not None
    assert archived.message_count == 4
    assert [(row.active, row.archive_cause) for row in lane(engine, session)] == [
        (False, "manual-reset"),
        (True, None),
    ]
    engine.ingest(session, [user("What is my favourite fruit?")])
    context = engine.assemble(session, 8_000)
    assert "mango" not in words(context.messages)
    assert engine.messages(session) == [user("What is my favourite fruit?")]


def test_wiped_text_is_found_by_wider_recall_only(engine: Engine, session: Session) -> None:
    engine.ingest(session, FACTS)
    engine.reset_session(session)
    engine.ingest(session, [user("hello again")])
    narrow = engine.call_tool(session, "lcm_grep", {"pattern": "mango"})
    wide = engine.call_tool(session, "lcm_grep", {"pattern": "mango", "all_conversations": True})
    assert narrow["hits"] == []
    assert len(wide["hits"]) == 3


def test_repeated_resets_archive_only_what_holds_something(engine: Engine, session: Session) -> None:
    assert engine.reset_session(session) is None
    engine.ingest(session, FACTS[:2])
    assert engine.reset_session(session) is not None
    for _ in range(5):
        assert engine.reset_session(session) is None
    assert len(lane(engine, session)) == 2


@pytest.mark.parametrize("mode", ["append", "sync"])
def test_a_replay_from_before_a_reset_stays_out(engine: Engine, session: Session, mode: str) -> None:
    engine.ingest(session, FACTS, mode)
    engine.reset_session(session)
    assert engine.ingest(session, FACTS, mode).stored == 0
    assert engine.ingest(session, FACTS[2:], mode).stored == 0
    assert engine.context_items(session) == []


def test_a_replayed_list_with_something_new_gives_only_that(engine: Engine, session: Session) -> None:
    engine.ingest(session, FACTS, "sync")
    engine.reset_session(session)
    for count in (1, 2, 3):
        fresh = [user(f"new question {n} about the garden and the wall") for n in range(count)]
        engine.ingest(session, [*FACTS, *fresh], "sync")
        assert engine.messages(session) == fresh


def test_a_replay_of_our_own_context_stays_out(open_engine: Callable[..., Engine], session: Session) -> None:
    engine = open_engine(fresh_tail_count=2, leaf_min_fanout=2, leaf_chunk_tokens=150, leaf_target_tokens=40)
    for n in range(20):
        question = f"Question {n}: how does part {n} of the pump station {n} work, and why?"
        answer = f"Part {n} opens valve {n} when the pressure at sensor {n} falls."
        engine.ingest(session, [user(question), assistant(answer)])
    engine.compact(session, force=True, budget=900)
    shown = engine.assemble(session, 4_000)
    assert shown.summaries
    engine.reset_session(session)
    assert engine.ingest(session, shown.messages, "sync").stored == 0
    assert engine.ingest(session, [*shown.messages, user("and now?")], "sync").stored == 1


def test_small_talk_said_again_after_a_reset_is_stored(engine: Engine, session: Session) -> None:
    chat = [user("hi"), assistant("hello")]
    engine.ingest(session, chat, "sync")
    engine.reset_session(session)
    assert engine.ingest(session, chat[:1], "sync").stored == 1
    assert engine.ingest(session, chat, "sync").stored == 1
    assert engine.messages(session) == chat


@pytest.mark.parametrize(
    "reason", ["restart", "shutdown", "idle", "rollover", "new", "reset", "", "unknown", "RESTART"]
)
def test_the_end_of_a_run_changes_nothing(engine: Engine, session: Session, reason: str) -> None:
    engine.ingest(session, FACTS)
    before = lane(engine, session)
    assert engine.end_session(session, reason) is None
    assert lane(engine, session) == before


@pytest.mark.parametrize(
    ("reason", "cause"),
    [("deleted", "session-deleted"), ("Deletion ", "session-deleted"), ("end", "session-end")],
)
def test_deletion_and_end_archive_with_their_cause(
    engine: Engine, session: Session, reason: str, cause: str
) -> None:
    engine.ingest(session, FACTS)
    engine.end_session(session, reason)
    assert [(row.active, row.archive_cause) for row in lane(engine, session)] == [(False, cause)]
    assert engine.messages(session) == []
    assert engine.assemble(session, 8_000).messages == []
    engine.ingest(session, [user("a new life")])
    assert engine.messages(session) == [user("a new life")]


def test_a_bare_session_id_ends_the_lane_it_was_seen_with(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    open_engine().ingest(session, FACTS)
    other = open_engine()
    other.end_session(Session("", session.id), "deleted")
    assert [row.active for row in lane(other, session)] == [False]


def test_nothing_is_ever_deleted(engine: Engine, session: Session) -> None:
    for _ in range(3):
        engine.ingest(session, [user("a fact worth keeping for a long time to come")])
        engine.new_session(session, 2)
        engine.reset_session(session)
        engine.end_session(session, "deleted")
    assert engine.library.status().messages == 3


def test_archiving_ends_the_first_cause_only(engine: Engine, session: Session) -> None:
    engine.ingest(session, FACTS)
    engine.reset_session(session)
    engine.end_session(session, "deleted")
    assert [row.archive_cause for row in lane(engine, session)] == ["manual-reset", "session-deleted"]


def test_a_reset_while_a_compaction_runs_publishes_nothing_into_the_fresh_row(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine: Engine

    def summarise(request: object) -> str:
        engine.reset_session(session)
        return "The user likes mango and lives in Lisbon.\nExpand for details about: mango, Lisbon"

    engine = open_engine(completer=summarise, fresh_tail_count=1, leaf_min_fanout=2, leaf_chunk_tokens=2_000)
    for number in range(20):
        engine.ingest(
            session, [user(f"{FACTS[0]['content']} {number}"), assistant(f"noted, number {number}")]
        )
    engine.compact(session, force=True)
    assert engine.context_items(session) == []
    assert engine.library.summary_counts(lane(engine, session)[0].conversation_id) == {}
