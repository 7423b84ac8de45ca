"""Compaction that helps, ends, and says how it ended: section D of the public faults."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from clock import Clock
from messages import assistant, call, result, user
from small_talk import Model, text_of, tool_turn, turns

from lcm_plugin import Engine, Session
from lcm_plugin.errors import ModelAuthError
from lcm_plugin.messages.validate import validate
from lcm_plugin.types import CompletionRequest, Reason, Turn, Usage

SMALL: dict[str, Any] = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 600,
    "leaf_target_tokens": 150,
    "condensed_target_tokens": 200,
}
Open = Callable[..., Engine]


def test_d1_after_compaction_the_context_has_the_summary_and_none_of_its_sources(
    open_engine: Open, session: Session
) -> None:
    engine = open_engine(Model(), **SMALL)
    engine.ingest(session, turns(20))
    outcome = engine.compact(session, force=True)
    items = engine.context_items(session)
    with engine.store.read() as reader:
        for item in items:
            if item.kind == "summary" and item.depth == 0:
                covered = {f"msg_{number}" for number in reader.source_messages(item.id)}
                assert covered
                assert not covered & {other.id for other in items}
    assert outcome.tokens_after < outcome.tokens_before


def test_d2_a_sweep_is_bounded_in_passes_and_in_time(open_engine: Open, session: Session) -> None:
    model = Model(delay=0.05)
    engine = open_engine(model, **SMALL, max_sweep_passes=5)
    engine.ingest(session, turns(200))
    first = engine.compact(session, force=True)
    assert (first.reason, first.passes, len(model.calls)) == (Reason.DEFERRED, 5, 5)
    second = engine.compact(session, force=True)
    assert second.tokens_before == first.tokens_after > second.tokens_after


def test_d2_a_slow_model_ends_the_sweep_at_the_deadline(open_engine: Open, session: Session) -> None:
    engine = open_engine(Model(delay=0.1), **SMALL, sweep_deadline_ms=300, max_sweep_passes=1_000)
    engine.ingest(session, turns(200))
    outcome = engine.compact(session, force=True)
    assert outcome.reason is Reason.DEFERRED
    assert 0 < outcome.passes <= 4


def test_d3_nothing_done_is_never_called_compacted(open_engine: Open, session: Session) -> None:
    model = Model()
    engine = open_engine(model, **SMALL)
    engine.ingest(session, turns(2))
    outcome = engine.compact(session, force=True)
    assert (outcome.compacted, outcome.reason, outcome.passes) == (False, Reason.NOTHING_ELIGIBLE, 0)
    assert outcome.tokens_before == outcome.tokens_after
    assert engine.compact(session).reason is Reason.BELOW_THRESHOLD
    assert not model.calls


def test_d4_pressure_that_the_history_does_not_cause_ends_in_one_verdict(
    open_engine: Open, session: Session
) -> None:
    model = Model()
    engine = open_engine(model, fresh_tail_count=4)
    engine.ingest(session, turns(12, tokens=80))
    for _ in range(5):
        engine.assemble(session, 100_000)
        usage = Usage(prompt_tokens=90_000)
        engine.note_usage(Turn(session, [], mode="append", model="m", usage=usage))
        engine.compact(session, budget=100_000, model="m")
    assert not model.calls
    assert engine.evaluate(session, 100_000, model="m").reason is Reason.BELOW_THRESHOLD


def test_d4_an_overhead_larger_than_the_window_does_not_compact_again_and_again(
    open_engine: Open, session: Session, clock: Clock
) -> None:
    model = Model()
    engine = open_engine(model, **SMALL)
    engine.ingest(session, turns(30))
    calls = []
    for number in range(12):
        engine.ingest(session, turns(1, start=100 + number))
        engine.compact(session, budget=4_000, overhead_tokens=3_950)
        calls.append(len(model.calls))
        clock.forward(5_000)
    assert calls[-1] == calls[5], f"calls after each turn: {calls}"
    assert engine.compact(session, budget=4_000, overhead_tokens=3_950).reason in (
        Reason.BUDGET_UNREACHABLE,
        Reason.NO_PROGRESS,
        Reason.NOTHING_ELIGIBLE,
        Reason.BELOW_THRESHOLD,
    )


def test_d5_a_tail_of_huge_messages_yields(open_engine: Open, session: Session) -> None:
    engine = open_engine(Model(), fresh_tail_count=32, context_threshold=0.5)
    for number in range(15):
        engine.ingest(session, turns(1, tokens=900, start=number))
    assert engine.evaluate(session, 10_000).tokens > 20_000
    outcome = engine.compact(session, budget=10_000)
    assert outcome.compacted
    assert outcome.tokens_after <= 5_000
    assert not engine.evaluate(session, 10_000).due


def test_d5_the_same_no_op_is_not_tried_again_until_something_changed(
    open_engine: Open, session: Session, clock: Clock
) -> None:
    model = Model()
    engine = open_engine(model, **SMALL, max_active_messages=4)
    engine.ingest(session, [user("a question"), *[assistant(text_of(50, n)) for n in range(8)]])
    assert engine.evaluate(session).reason is Reason.TOO_MANY_MESSAGES
    assert engine.compact(session).reason is Reason.NOTHING_ELIGIBLE
    again = engine.evaluate(session)
    assert (again.due, again.reason) == (False, Reason.NOTHING_ELIGIBLE)
    clock.forward(60_000)
    assert engine.compact(session).passes == 0
    engine.ingest(session, turns(10, start=50))
    assert engine.evaluate(session).due
    assert engine.compact(session).compacted


def test_d6_nothing_is_due_far_below_the_threshold(open_engine: Open, session: Session) -> None:
    model = Model()
    engine = open_engine(model)
    for number in range(40):
        engine.ingest(session, turns(1, start=number))
        assert not engine.evaluate(session, 200_000).due
    assert not model.calls


@pytest.mark.long
def test_d7_a_backlog_that_no_turn_has_seen_is_found_and_worked_off(
    open_engine: Open, session: Session
) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(session, turns(300))
    status = engine.command(session, "/lcm").data["session"]
    assert status["raw_messages"] == 600
    before = engine.evaluate(session).tokens
    report = engine.work(threading.Event(), until_idle=True)
    assert report.compactions >= 1
    assert report.tokens_saved > 0.6 * before
    assert not engine.evaluate(session).due


def test_d9_a_summary_of_summaries_is_smaller_and_never_sees_our_wrapper(
    open_engine: Open, session: Session
) -> None:
    model = Model()
    engine = open_engine(model, **SMALL)
    engine.ingest(session, turns(60))
    while engine.compact(session, force=True).passes:
        pass
    with engine.store.read() as reader:
        conversation = reader.find_conversation(session)
        assert conversation is not None
        nodes = reader.list_summaries(conversation.conversation_id, limit=500)
    assert any(node.depth for node in nodes)
    assert all(node.tokens < node.source_tokens for node in nodes)
    sent = "\n".join(str(message["content"]) for request in model.calls for message in request.messages)
    assert "<summary id=" not in sent


def test_d10_the_system_prompt_never_reaches_the_summariser(open_engine: Open, session: Session) -> None:
    model = Model()
    engine = open_engine(model, **SMALL)
    for number in range(20):
        engine.ingest(session, [{"role": "system", "content": "You are Zanzibar, the secret porter."}])
        engine.ingest(session, turns(1, start=number))
    engine.compact(session, force=True)
    assert model.calls
    assert all("Zanzibar" not in str(message) for request in model.calls for message in request.messages)


def test_d11_leaves_condense_by_fanout_far_below_the_threshold(open_engine: Open, session: Session) -> None:
    engine = open_engine(Model(), **SMALL, condensed_min_fanout=3)
    for number in range(60):
        engine.ingest(session, turns(1, start=number))
        engine.compact(session, budget=1_000_000)
    assert any(item.depth == 1 for item in engine.context_items(session))


def test_d12_leaves_made_because_a_model_failed_are_not_condensed(
    open_engine: Open, session: Session
) -> None:
    def refuses(request: CompletionRequest) -> str:
        raise ModelAuthError("wrong key")

    engine = open_engine(refuses, **SMALL, condensed_min_fanout=2)
    engine.ingest(session, turns(40))
    outcome = engine.compact(session, force=True)
    depths = {item.depth for item in engine.context_items(session) if item.kind == "summary"}
    assert depths == {0}
    assert "by extraction, since no model answered" in outcome.detail


def test_a17_a_failure_leaves_nothing_behind_that_a_later_try_would_skip(
    open_engine: Open, session: Session
) -> None:
    model, failures = Model(), [1]

    def sometimes(request: CompletionRequest) -> str:
        if failures:
            failures.pop()
            raise ModelAuthError("wrong key")
        return model(request)

    engine = open_engine(sometimes, **SMALL)
    engine.ingest(session, turns(30))
    engine.compact(session, force=True)
    engine.compact(session, force=True)
    items = engine.context_items(session)
    assert [item.kind for item in items].count("message") <= 4 + 8
    conversation = engine.library.conversation(session.key)
    assert len(list(engine.library.walk(conversation.conversation_id))) == 60


def test_d14_messages_of_any_size_do_not_make_every_turn_compact(open_engine: Open, session: Session) -> None:
    model = Model()
    engine = open_engine(model, fresh_tail_count=16)
    busy = 0
    for number in range(60):
        engine.ingest(session, turns(1, tokens=350, start=number))
        busy += engine.compact(session, budget=8_000).passes > 0
        assert engine.evaluate(session, 8_000).tokens <= 8_000
    assert busy <= 30


def test_d15_a_chunk_without_words_is_passed_over(open_engine: Open, session: Session) -> None:
    engine = open_engine(Model(), **SMALL)
    silent = [user("go")] + [
        message
        for number in range(12)
        for message in (call(f"s{number}", text=None, arguments="{}"), result(f"s{number}", ""))
    ]
    engine.ingest(session, silent)
    engine.ingest(session, turns(20))
    outcome = engine.compact(session, force=True)
    assert outcome.compacted
    assert outcome.tokens_after < outcome.tokens_before


def test_d16_one_crossing_is_one_leaf_pass_and_the_tail_stays(open_engine: Open, session: Session) -> None:
    model = Model()
    engine = open_engine(model, **SMALL, incremental_max_depth=0)
    passes = 0
    for number in range(40):
        engine.ingest(session, turns(1, start=number))
        outcome = engine.compact(session)
        assert outcome.passes <= 1
        passes += outcome.passes
    assert passes == len(model.calls)


def test_d18_no_stored_summary_is_larger_than_its_cap(open_engine: Open, session: Session) -> None:
    class Talkative(Model):
        def answer(self, request: CompletionRequest, number: int) -> str:
            return text_of(request.max_tokens * 20, number)

    engine = open_engine(Talkative(), **SMALL)
    engine.ingest(session, turns(60))
    engine.compact(session, force=True)
    with engine.store.read() as reader:
        conversation = reader.find_conversation(session)
        assert conversation is not None
        nodes = reader.list_summaries(conversation.conversation_id, limit=500)
    assert nodes
    assert all(node.tokens <= 3 * (200 if node.depth else 150) for node in nodes)


def test_g14_one_very_long_turn_goes_on_and_its_request_stays_word_for_word(
    open_engine: Open, session: Session
) -> None:
    engine = open_engine(Model(), fresh_tail_count=64)
    turn = tool_turn(1, 60, 150)
    request, compactions = turn[0]["content"], 0
    engine.ingest(session, [user("hello there"), assistant("hello")])
    engine.ingest(session, turn[:1])
    for position in range(1, len(turn), 2):
        engine.ingest(session, turn[position : position + 2])
        compactions += engine.compact(session, budget=4_000).compacted
        context = engine.assemble(session, 4_000)
        assert not validate(context.messages)
        assert not context.over_budget
        texts = [message["content"] for message in context.messages]
        assert request in texts
        assert context.messages[-1]["content"] == turn[position + 1]["content"]
        summaries = [n for n, text in enumerate(texts) if str(text).startswith("<summary")]
        assert all(position < texts.index(request) for position in summaries)
    assert compactions >= 2
    assert "hello there" not in [message["content"] for message in context.messages]


@pytest.mark.long
def test_long_turn_after_long_turn_the_summaries_still_condense(open_engine: Open, session: Session) -> None:
    """Requests between compacted turns must not keep the summaries of both sides apart for ever."""
    engine = open_engine(Model(), fresh_tail_count=64)
    for number in range(14):
        turn = tool_turn(number, 24, 150)
        for position in range(0, len(turn), 4):
            engine.ingest(session, turn[position : position + 4])
            engine.compact(session, budget=4_000)
        engine.ingest(session, [assistant("done with that")])
        assert engine.evaluate(session, 4_000).tokens <= 4_000
    assert sum(item.kind == "summary" for item in engine.context_items(session)) <= 12


def test_b18_a_call_that_waits_for_its_result_stays_raw_and_pairs(
    open_engine: Open, session: Session
) -> None:
    engine = open_engine(Model(), **SMALL)
    engine.ingest(session, turns(30))
    engine.ingest(session, [user("do it"), call("open", text="doing it")])
    engine.compact(session, force=True, budget=1_200)
    engine.ingest(session, [result("open", "it is done")])
    context = engine.assemble(session, 2_000)
    assert not validate(context.messages)
    assert [message["role"] for message in context.messages[-3:]] == ["user", "assistant", "tool"]


def test_a_result_that_comes_after_its_call_was_compacted_does_no_harm(
    open_engine: Open, session: Session
) -> None:
    engine = open_engine(Model(), **SMALL)
    engine.ingest(session, [user("do it"), call("late", text="doing it")])
    engine.ingest(session, turns(30))
    engine.compact(session, force=True)
    engine.ingest(session, [result("late", "it is done"), user("and now?")])
    assert not validate(engine.assemble(session, 4_000).messages)
    engine.ingest(session, turns(30, start=60))
    assert engine.compact(session, force=True).compacted
    raw = [item for item in engine.context_items(session) if item.kind == "message"]
    assert len(raw) <= 4 + 8


@pytest.mark.long
@pytest.mark.parametrize("most", [2, 6, 20, 40])
def test_max_active_messages_is_kept_whatever_the_tail_says(
    open_engine: Open, session: Session, most: int
) -> None:
    engine = open_engine(Model(), max_active_messages=most)
    for number in range(60):
        engine.ingest(session, turns(1, tokens=200, start=number))
        engine.compact(session)
        raw = sum(item.kind == "message" for item in engine.context_items(session))
        assert raw <= max(most, 2)


def test_autocompact_disabled_leaves_only_what_a_person_asks_for(open_engine: Open, session: Session) -> None:
    engine = open_engine(Model(), **SMALL, autocompact_disabled=True)
    engine.ingest(session, turns(40))
    decision = engine.evaluate(session, 2_000)
    assert (decision.due, decision.reason) == (False, Reason.DISABLED)
    assert engine.compact(session, budget=2_000).reason is Reason.DISABLED
    assert engine.compact(session, force=True).compacted


@pytest.mark.long
@pytest.mark.parametrize("budget", [2_000, 4_000, 8_000, 32_000])
def test_context_stays_within_small_and_large_budgets_out_of_the_box(
    open_engine: Open, session: Session, budget: int
) -> None:
    engine = open_engine(Model())
    for number in range(0, 150, 2):
        engine.ingest(session, turns(2, tokens=40, start=number))
        engine.compact(session, budget=budget)
        assert engine.evaluate(session, budget).tokens <= 0.95 * budget


@pytest.mark.long
def test_a_model_that_never_answers_does_not_fill_the_context_with_leaves(
    open_engine: Open, session: Session
) -> None:
    def silent(request: CompletionRequest) -> str:
        return ""

    engine = open_engine(silent, summary_max_calls_per_window=1_000, context_policy="economy")
    prefixes = []
    for number in range(200):
        said = f"Entry {number}: " + " ".join(f"valve {number * k} shut;" for k in range(2, 150))
        engine.ingest(session, [user(said), assistant(f"Entry {number} is noted.")])
        engine.compact(session, budget=128_000)
        items = engine.context_items(session)
        prefixes.append(sum(item.tokens for item in items if item.kind == "summary"))
    assert 6_000 < max(prefixes) < 16_000
    assert max(item.depth for item in items) >= 1
    assert engine.check().ok
