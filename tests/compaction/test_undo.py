"""Taking the last compaction back: the context is as it was, and is not compacted again without need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from databases import FreshDatabase
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messages import assistant, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.types import Reason

pytestmark = pytest.mark.both_stores_under_ci
Open = Callable[..., Engine]
SMALL: dict[str, Any] = {
    "fresh_tail_count": 2,
    "leaf_chunk_tokens": 300,
    "leaf_target_tokens": 60,
    "leaf_min_fanout": 2,
    "condensed_min_fanout": 2,
}


def say(engine: Engine, session: Session, turns: int, start: int = 0) -> None:
    for n in range(start, start + turns):
        question = f"Question {n}: how does part {n} of the pump work, and which valve does it open?"
        engine.ingest(
            session, [user(question), assistant(f"Part {n} opens valve {n} when sensor {n} falls.")]
        )


def test_the_context_is_as_it_was(open_engine: Open, session: Session) -> None:
    engine = open_engine(**SMALL)
    say(engine, session, 20)
    before, context = engine.context_items(session), engine.assemble(session, 100_000).messages
    assert engine.compact(session, force=True, budget=100_000).compacted
    undone = engine.undo_compaction(session)
    assert (undone.refusal, undone.tokens_after) == ("", sum(item.tokens for item in before))
    assert undone.summaries > 1
    assert engine.context_items(session) == before
    assert engine.assemble(session, 100_000).messages == context
    assert engine.check().findings == ()
    assert "no compaction" in engine.undo_compaction(session).refusal


def test_only_the_last_compaction_is_taken_back(open_engine: Open, session: Session) -> None:
    engine = open_engine(**SMALL)
    say(engine, session, 20)
    engine.compact(session, force=True, budget=100_000)
    first = engine.context_items(session)
    say(engine, session, 20, start=20)
    grown = engine.context_items(session)
    engine.compact(session, force=True, budget=100_000)
    assert engine.undo_compaction(session).refusal == ""
    assert engine.context_items(session) == grown
    assert grown[: len(first) - 2] == first[: len(first) - 2]
    assert engine.check().findings == ()


def test_messages_since_then_stay_and_hinder_nothing(open_engine: Open, session: Session) -> None:
    engine = open_engine(**SMALL)
    say(engine, session, 20)
    before = engine.context_items(session)
    engine.compact(session, force=True, budget=100_000)
    say(engine, session, 1, start=20)
    assert engine.undo_compaction(session).refusal == ""
    assert engine.context_items(session)[: len(before)] == before
    assert len(engine.context_items(session)) == len(before) + 2


def test_what_came_back_is_not_compacted_again_for_the_bill(open_engine: Open, session: Session) -> None:
    engine = open_engine(**SMALL, context_policy="economy")
    say(engine, session, 30)
    assert engine.evaluate(session, 100_000).reason is Reason.LEAF_CHUNK_READY
    engine.compact(session, budget=100_000)
    engine.undo_compaction(session)
    assert engine.evaluate(session, 100_000).reason is Reason.UNDONE
    say(engine, session, 30, start=30)
    decision = engine.evaluate(session, 100_000)
    assert (decision.due, decision.reason) == (False, Reason.UNDONE)


def test_a_limit_takes_it_away_again_but_not_in_the_same_turn(open_engine: Open, session: Session) -> None:
    engine = open_engine(**SMALL)
    say(engine, session, 30)
    tokens = engine.evaluate(session, 100_000).tokens
    budget = int(tokens / 0.8)
    engine.compact(session, budget=budget)
    assert engine.undo_compaction(session).refusal == ""
    assert not engine.evaluate(session, budget).due
    assert engine.evaluate(session, tokens).reason is Reason.OVER_HARD_LIMIT
    say(engine, session, 1, start=30)
    assert engine.evaluate(session, budget).reason is Reason.OVER_THRESHOLD
    assert engine.compact(session, budget=budget).compacted


@pytest.mark.parametrize("change", ["new", "reset", "nothing"])
def test_it_refuses_when_it_is_too_late(open_engine: Open, session: Session, change: str) -> None:
    engine = open_engine(**SMALL)
    say(engine, session, 20)
    engine.compact(session, force=True, budget=100_000)
    if change == "new":
        engine.new_session(session, 1)
    elif change == "reset":
        engine.reset_session(session)
    else:
        engine.undo_compaction(session)
    before = engine.context_items(session)
    assert engine.undo_compaction(session).refusal
    assert engine.context_items(session) == before


def test_the_commands(open_engine: Open, session: Session) -> None:
    engine = open_engine(**SMALL)
    say(engine, session, 20)
    before = engine.context_items(session)
    for words in ("/lcm compact undo", "/lcm undo"):
        assert engine.command(session, "/lcm compact 8000").data["outcome"] == "done"
        assert engine.command(session, "/lcm status").data["session"]["undoable_compaction"]
        assert engine.command(session, words).data["outcome"] == "done"
        assert engine.context_items(session) == before
    assert "Nothing was undone" in engine.command(session, "/lcm compact undo").text


def test_a_new_is_undone_before_the_compaction_ahead_of_it(open_engine: Open, session: Session) -> None:
    engine = open_engine(**SMALL)
    say(engine, session, 20)
    engine.compact(session, force=True, budget=100_000)
    compacted = engine.context_items(session)
    engine.new_session(session, 1)
    assert engine.command(session, "/lcm undo").data["outcome"] == "done"
    assert engine.context_items(session) == compacted


@pytest.mark.parametrize("word", ["500", "999", "0", "-3"])
def test_a_budget_below_the_least_is_refused(open_engine: Open, session: Session, word: str) -> None:
    engine = open_engine(**SMALL)
    say(engine, session, 20)
    before = engine.context_items(session)
    answer = engine.command(session, f"/lcm compact {word}")
    assert not answer.ok
    assert "/lcm compact" in answer.text
    assert "1,000" in answer.text
    assert engine.context_items(session) == before


@settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from(["say", "compact", "undo"]), st.integers(1, 12)), max_size=8),
    st.sampled_from(["economy", "balanced", "faithful"]),
)
def test_any_history_of_compactions_and_undoing_keeps_every_message_once(
    fresh_database: FreshDatabase, steps: list[tuple[str, int]], policy: Any
) -> None:
    session, said = Session("agent:undo:main"), 0
    with (
        fresh_database() as database,
        Engine.open(LcmConfig(database=database, context_policy=policy, **SMALL)) as engine,
    ):
        for step, amount in [("say", 12), *steps]:
            if step == "say":
                say(engine, session, amount, start=said)
                said += amount
            elif step == "compact":
                before = engine.context_items(session)
                compacted = engine.compact(session, force=amount % 2 == 0, budget=1_000 * amount).summaries
                if compacted and amount % 3 == 0:
                    assert engine.undo_compaction(session).refusal == ""
                    assert engine.context_items(session) == before
            else:
                engine.undo_compaction(session)
        assert len(engine.messages(session)) == 2 * said
        assert engine.check().findings == ()
