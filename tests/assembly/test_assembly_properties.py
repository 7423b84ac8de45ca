"""Over random histories, budgets and compactions: valid, within budget, stable, the newest text verbatim."""

import itertools
import json

import pytest
from assembly.histories import Cut, check_context, compact, cuts, histories, is_prefix, said_by, users
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcm_plugin import Engine, Session

pytestmark = pytest.mark.both_stores

budgets = st.one_of(st.integers(1, 400), st.integers(400, 6_000), st.just(1_000_000))
EXAMPLES = {"sqlite": examples(40, 10), "postgres": examples(8, 3)}


@pytest.fixture
def modest(store_kind):
    return settings(max_examples=EXAMPLES[store_kind], deadline=None, suppress_health_check=list(HealthCheck))


lanes = itertools.count()


def lane() -> Session:
    return Session(f"agent:main:test{next(lanes)}")


def fill(engine, session, history):
    for message in history:
        engine.ingest(session, [message])


def test_any_history_at_any_budget_makes_a_context_that_holds_to_the_rules(engine, modest):
    @modest
    @given(histories(), st.lists(cuts, max_size=3), st.lists(budgets, min_size=1, max_size=4))
    def holds(history, compactions, sizes):
        session = lane()
        fill(engine, session, history)
        for cut in compactions:
            compact(engine, session, cut)
        for budget in sizes:
            check_context(engine, session, engine.assemble(session, budget), budget)

    holds()


def test_every_budget_from_one_token_to_all_is_held(engine, modest):
    @modest
    @given(histories(most=8), cuts)
    def holds(history, cut):
        session = lane()
        fill(engine, session, history)
        compact(engine, session, cut)
        top = engine.assemble(session, 1_000_000).tokens
        step = max(1, top // 40)
        for budget in range(1, top + 40, step):
            check_context(engine, session, engine.assemble(session, budget), budget)

    holds()


def test_equal_state_gives_equal_bytes_also_without_a_cache(engine, modest):
    @modest
    @given(histories(), budgets, st.sampled_from([None, "a", "b", "provider/a"]))
    def holds(history, budget, model):
        session = lane()
        fill(engine, session, history)
        first = engine.assemble(session, budget, model=model)
        again = engine.assemble(session, budget, model=model)
        with Engine.open(engine.config) as other:
            cold = other.assemble(session, budget, model=model)
        assert json.dumps(first.messages) == json.dumps(again.messages) == json.dumps(cold.messages)
        assert first == again == cold

    holds()


def test_the_epoch_changes_whenever_the_earlier_output_is_no_longer_a_prefix(engine, modest):
    @modest
    @given(histories(), histories(most=6), st.lists(cuts, max_size=2), budgets)
    def holds(history, more, compactions, budget):
        session = lane()
        fill(engine, session, history)
        for cut in compactions:
            compact(engine, session, cut)
        before = engine.assemble(session, budget)
        for message in more:
            engine.ingest(session, [message])
            after = engine.assemble(session, budget)
            check_context(engine, session, after, budget)
            if not is_prefix(before, after):
                assert before.prefix_epoch != after.prefix_epoch
            before = after

    holds()


@st.composite
def orderly_turns(draw):
    """Turns in which every call gets its results in time, and nothing is blank."""
    turns = []
    for number in range(draw(st.integers(1, 8))):
        said = draw(users().filter(said_by))
        turn = [said]
        for call in range(draw(st.integers(0, 3))):
            called = [f"c{number}-{call}-{n}" for n in range(draw(st.integers(1, 3)))]
            function = {"name": "f", "arguments": "{}"}
            calls = [{"id": one, "type": "function", "function": function} for one in called]
            turn.append({"role": "assistant", "content": None, "tool_calls": calls})
            turn += [
                {"role": "tool", "tool_call_id": one, "content": f"result {one}"}
                for one in draw(st.permutations(called))
            ]
            turn[-1]["last"] = True
        turn.append({"role": "assistant", "content": f"answer {number}"})
        turns.append(turn)
    return turns


def test_each_turn_extends_the_last_output_under_one_epoch_until_a_compaction(engine, modest):
    @modest
    @given(orderly_turns(), st.lists(cuts, max_size=2))
    def holds(turns, compactions):
        session = lane()
        contexts = []
        for turn in turns:
            for message in turn:
                engine.ingest(session, [message])
                if message["role"] == "user" or message.get("last"):
                    contexts.append(engine.assemble(session, 1_000_000))
        for before, after in itertools.pairwise(contexts):
            assert is_prefix(before, after)
            assert before.prefix_epoch == after.prefix_epoch
            assert before.cache_hint == len(before.messages) - 1
        for cut in compactions:
            before = engine.assemble(session, 1_000_000)
            if compact(engine, session, cut):
                after = engine.assemble(session, 1_000_000)
                assert before.prefix_epoch != after.prefix_epoch

    holds()


def test_a_compaction_of_nothing_is_no_compaction(engine):
    session = lane()
    assert not compact(engine, session, Cut(0, 1))
