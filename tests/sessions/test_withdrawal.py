"""What a host takes back leaves the context and every summary, and comes back whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from invariants import assert_sound
from messages import assistant, user

from lcm_plugin import Engine, Session
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores

Open = Callable[..., Engine]


def talk(turns: int) -> list[Message]:
    return [
        message
        for number in range(turns)
        for message in (
            user(f"Question {number} about the harbour of town {number}. " + "More words. " * 12),
            assistant(f"Answer {number} on quay {number} and its cranes. " + "More words. " * 12),
        )
    ]


def shown(engine: Engine, session: Session) -> str:
    return "\n".join(str(message["content"]) for message in engine.assemble(session, 100_000).messages)


def ids_of(engine: Engine, session: Session, word: str) -> list[int]:
    return [
        row.head.message_id
        for row in engine.record.newest(session, 1_000)
        if any(word in part.text for part in row.parts)
    ]


def compacted(open_engine: Open, session: Session, turns: int, budget: int = 1_500) -> Engine:
    engine = open_engine(
        fresh_tail_count=4,
        leaf_chunk_tokens=400,
        leaf_target_tokens=80,
        condensed_target_tokens=120,
        condensed_min_fanout=2,
        leaf_min_fanout=2,
        incremental_max_depth=-1,
    )
    engine.ingest(session, talk(turns), "sync")
    engine.compact(session, force=True, budget=budget)
    return engine


def depths(engine: Engine, session: Session) -> Sequence[int]:
    return [item.depth for item in engine.context_items(session)]


def test_a_summary_over_withdrawn_words_is_taken_apart_with_all_that_was_made_from_it(
    open_engine: Open, session: Session
) -> None:
    engine = compacted(open_engine, session, 40)
    assert max(depths(engine, session)) >= 2
    before = sum(item.kind == "summary" for item in engine.context_items(session))

    engine.record.withdraw(session, ids_of(engine, session, "town 3."))

    assert_sound(engine.config.database)
    assert engine.check(session).findings == ()
    assert len(engine.messages(session)) == 80
    assert "town 3." not in shown(engine, session)
    assert "quay 3 " in shown(engine, session)
    assert sum(item.kind == "summary" for item in engine.context_items(session)) >= before

    engine.compact(session, force=True, budget=1_500)
    assert "town 3." not in shown(engine, session)
    assert_sound(engine.config.database)
    assert max(depths(engine, session)) >= 2


def test_what_comes_back_is_summarised_again(open_engine: Open, session: Session) -> None:
    engine = compacted(open_engine, session, 12)
    ids = ids_of(engine, session, "town 3.")
    engine.record.withdraw(session, ids)
    engine.compact(session, force=True, budget=1_500)
    engine.record.restore(session, ids)
    assert "town 3." in shown(engine, session)
    assert_sound(engine.config.database)
    assert engine.check(session).findings == ()


def test_withdrawing_twice_and_bringing_back_twice_changes_nothing_more(
    open_engine: Open, session: Session
) -> None:
    engine = compacted(open_engine, session, 12)
    ids = ids_of(engine, session, "town 3.")
    before = engine.context_items(session)
    for change in (engine.record.withdraw, engine.record.restore):
        change(session, ids)
        once = engine.context_items(session)
        change(session, ids)
        assert engine.context_items(session) == once
    assert before != once


def test_what_new_pruned_can_be_undone_after_something_is_taken_back(
    open_engine: Open, session: Session
) -> None:
    engine = compacted(open_engine, session, 12)
    items = len(engine.context_items(session))
    engine.new_session(session, retain_depth=0)
    engine.ingest(session, [user("After the cut."), assistant("Yes, after it.")])
    engine.record.withdraw(session, ids_of(engine, session, "after it."))
    assert engine.undo_new(session) > 0
    assert len(engine.context_items(session)) == items + 2
    assert_sound(engine.config.database)


def test_what_new_pruned_is_not_brought_back_by_taking_it_back(open_engine: Open, session: Session) -> None:
    engine = compacted(open_engine, session, 12)
    engine.new_session(session, retain_depth=9)
    engine.record.withdraw(session, ids_of(engine, session, "town 3."))
    assert engine.context_items(session) == []
