"""The depth-aware rules: depth assignment, same-depth selection, fan-out, balance, what the tail protects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from invariants import assert_sound
from small_talk import Model, turns

from lcm_plugin import Engine, Session
from lcm_plugin.types import Reason

pytestmark = pytest.mark.both_stores_under_ci

SMALL = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 600,
    "leaf_target_tokens": 150,
    "condensed_target_tokens": 200,
}


def depths(engine: Engine, session: Session) -> list[int]:
    return [item.depth for item in engine.context_items(session) if item.kind == "summary"]


def play(engine: Engine, session: Session, count: int, *, budget: int = 128_000, start: int = 0) -> None:
    """Turns, each followed by what compaction is due."""
    for number in range(start, start + count):
        engine.ingest(session, turns(1, start=number))
        engine.compact(session, budget=budget)


@pytest.mark.long
def test_leaves_have_depth_zero_and_a_condensed_node_one_more_than_its_sources(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(Model(), **SMALL, incremental_max_depth=-1)
    play(engine, session, 110)
    with engine.store.read() as reader:
        conversation = reader.find_conversation(session)
        assert conversation is not None
        nodes = {
            node.summary_id: node for node in reader.list_summaries(conversation.conversation_id, limit=500)
        }
        assert {node.depth for node in nodes.values()} >= {0, 1, 2}
        for node in nodes.values():
            below = [nodes[source].depth for source in reader.source_summaries(node.summary_id)]
            assert set(below) == ({node.depth - 1} if node.depth else set())
            assert node.descendant_count >= node.message_count > 0


@pytest.mark.parametrize(("depth", "deepest"), [(0, 0), (1, 1), (2, 2), (-1, 3)])
def test_the_incremental_depth_bounds_how_deep_turns_condense(
    open_engine: Callable[..., Engine], session: Session, depth: int, deepest: int
) -> None:
    engine = open_engine(
        Model(), **{**SMALL, "leaf_chunk_tokens": 300}, incremental_max_depth=depth, condensed_min_fanout=2
    )
    play(engine, session, 50, budget=1_000_000)
    with engine.store.read() as reader:
        conversation = reader.find_conversation(session)
        assert conversation is not None
        made = reader.summary_counts(conversation.conversation_id)
    assert max(made) == deepest if depth >= 0 else max(made) >= deepest


def test_a_node_is_condensed_only_once_the_fanout_is_there(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(Model(), **SMALL, incremental_max_depth=1, condensed_min_fanout=4)
    number = 0
    while len(depths(engine, session)) < 3:
        play(engine, session, 1, start=number)
        number += 1
    assert depths(engine, session) == [0, 0, 0]
    while 1 not in depths(engine, session):
        play(engine, session, 1, start=number)
        number += 1
    assert depths(engine, session) == [1]


def test_only_neighbours_of_one_depth_are_condensed_and_the_shallowest_first(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(Model(), **SMALL, incremental_max_depth=-1, condensed_min_fanout=3)
    seen: list[list[int]] = []
    for number in range(70):
        play(engine, session, 1, start=number)
        seen.append(depths(engine, session))
    for row in seen:
        assert row == sorted(row, reverse=True), f"deep nodes stand before shallow ones: {row}"
        assert all(count < 3 for count in Counter(row).values()), f"an eligible run was left: {row}"


@pytest.mark.long
def test_the_tree_stays_balanced_over_many_rounds(
    open_engine: Callable[..., Engine], session: Session, database: Path
) -> None:
    engine = open_engine(Model(), **SMALL, incremental_max_depth=-1, condensed_min_fanout=4)
    play(engine, session, 150)
    row = depths(engine, session)
    leaves = 0
    with engine.store.read() as reader:
        conversation = reader.find_conversation(session)
        assert conversation is not None
        leaves = reader.summary_counts(conversation.conversation_id)[0]
    assert leaves >= 25
    assert max(row) <= 3
    assert len(row) <= 3 * 4
    assert_sound(database)


def test_below_the_trigger_nothing_is_due_and_above_it_a_leaf_is(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(Model(), fresh_tail_count=4, leaf_chunk_tokens=1_000)
    engine.ingest(session, turns(6))
    below = engine.evaluate(session)
    assert (below.due, below.reason) == (False, Reason.BELOW_THRESHOLD)
    engine.ingest(session, turns(8, start=10))
    above = engine.evaluate(session)
    assert (above.due, above.reason) == (True, Reason.LEAF_CHUNK_READY)


def test_the_soft_threshold_makes_a_sweep_due_whatever_the_trigger(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(Model(), fresh_tail_count=4, leaf_chunk_tokens=100_000, context_threshold=0.5)
    engine.ingest(session, turns(10))
    tokens = engine.evaluate(session).tokens
    assert not engine.evaluate(session, 2 * tokens + 10).due
    decision = engine.evaluate(session, 2 * tokens - 10)
    assert (decision.due, decision.reason, decision.tokens) == (True, Reason.OVER_THRESHOLD, tokens)
    assert decision.threshold < tokens


def test_a_sweep_cuts_tokens_and_leaves_the_tail_alone(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(Model(), **SMALL)
    engine.ingest(session, turns(40))
    before = [item.id for item in engine.context_items(session)]
    outcome = engine.compact(session, force=True)
    items = engine.context_items(session)
    assert outcome.compacted
    assert outcome.reason is Reason.DONE
    assert outcome.tokens_after < 0.7 * outcome.tokens_before
    assert [item.id for item in items if item.kind == "message"][-4:] == before[-4:]
    assert sum(item.tokens for item in items) == outcome.tokens_after == engine.evaluate(session).tokens


def test_manual_compaction_uses_the_normal_fanout_and_only_an_emergency_the_hard_one(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(
        Model(), **SMALL, condensed_min_fanout=4, condensed_min_fanout_hard=2, leaf_min_fanout=2
    )
    engine.ingest(session, turns(17))
    engine.compact(session, force=True)
    assert depths(engine, session) == [0, 0, 0]
    tokens = engine.evaluate(session).tokens
    engine.compact(session, budget=tokens)
    assert max(depths(engine, session)) >= 1


def test_expanding_a_deep_node_reaches_every_message_word_for_word(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(Model(), **SMALL, incremental_max_depth=-1)
    talk = turns(80)
    for number in range(0, len(talk), 2):
        engine.ingest(session, talk[number : number + 2])
        engine.compact(session)
    conversation = engine.library.conversation(session.key)
    reached = [row.ref for row in engine.library.walk(conversation.conversation_id)]
    assert len(reached) == len(set(reached)) == len(talk)
    assert engine.messages(session) == talk


def test_a_mixed_workload_of_turns_sweeps_and_resets_keeps_every_invariant(
    open_engine: Callable[..., Engine], session: Session, database: Path
) -> None:
    engine = open_engine(Model(), **SMALL, incremental_max_depth=1)
    play(engine, session, 20)
    engine.compact(session, force=True)
    engine.new_session(session, retain_depth=1)
    play(engine, session, 15, start=100)
    engine.compact(session, budget=900)
    engine.reset_session(session)
    play(engine, session, 15, start=200)
    assert_sound(database)
    assert len(engine.messages(session)) == 30
