"""Debt: recorded, taken with a lease, deferred, failed, worked off later or elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clock import Clock
from invariants import assert_sound
from small_talk import GatedModel, Model, turns
from waiting import eventually

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.compaction import scheduler
from lcm_plugin.compaction.leases import LEASE_MS, CompactionLease
from lcm_plugin.store.records import Debt
from lcm_plugin.types import CompletionRequest, Reason

pytestmark = pytest.mark.both_stores_under_ci

SMALL: dict[str, Any] = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 600,
    "leaf_target_tokens": 150,
    "condensed_target_tokens": 200,
}
Open = Callable[..., Engine]


def debt_of(engine: Engine) -> Debt:
    with engine.store.read() as reader:
        debt = reader.debt(1)
    assert debt is not None
    return debt


def test_a_dead_holders_lease_expires_and_the_work_goes_on(
    open_engine: Open, session: Session, clock: Clock
) -> None:
    engine = open_engine(Model(), **SMALL)
    engine.ingest(session, turns(20))
    assert CompactionLease.of(engine.store, 1, clock) is not None  # its holder dies here
    assert engine.compact(session, force=True).reason is Reason.LOCKED
    clock.forward(LEASE_MS + 1_000)
    assert engine.compact(session, force=True).compacted


def test_a_live_holder_keeps_its_lease_through_a_call_longer_than_the_lease(
    open_engine: Open, session: Session, clock: Clock, monkeypatch: Any
) -> None:
    monkeypatch.setattr("lcm_plugin.compaction.leases.LEASE_MS", 90)
    model = GatedModel()
    engine = open_engine(model, **SMALL)
    engine.ingest(session, turns(7))
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(engine.compact(session, force=True)))
    thread.start()
    assert model.asked.wait(60)
    for _ in range(6):
        before = debt_of(engine).lease_until
        clock.forward(60)
        eventually(lambda: debt_of(engine).lease_until > before)  # noqa: B023 - waited for here
        assert engine.compact(session, force=True).reason is Reason.LOCKED
    model.gate.set()
    thread.join(60)
    assert outcomes[0].compacted


def test_a_holder_that_lost_its_lease_stops(open_engine: Open, session: Session, monkeypatch: Any) -> None:
    monkeypatch.setattr("lcm_plugin.compaction.leases.LEASE_MS", 60)
    engine_box: list[Engine] = []
    leases: list[CompactionLease] = []
    take = CompactionLease.of

    def taking(*given: Any) -> CompactionLease | None:
        if lease := take(*given):
            leases.append(lease)
        return lease

    monkeypatch.setattr(CompactionLease, "of", taking)

    def robbed(request: CompletionRequest) -> str:
        with engine_box[0].store.write() as writer:
            writer.db.execute("UPDATE compaction_debt SET owner = 'somebody else'")  # type: ignore[attr-defined]
        eventually(lambda: not leases[-1].held)
        return Model().answer(request, 1)

    engine_box.append(open_engine(robbed, **SMALL))
    engine_box[0].ingest(session, turns(40))
    outcome = engine_box[0].compact(session, force=True)
    assert outcome.reason is Reason.CANCELLED
    assert outcome.passes <= 1


def test_a_deferred_sweep_goes_on_where_it_stopped(open_engine: Open, session: Session) -> None:
    engine = open_engine(Model(), **SMALL, max_sweep_passes=3)
    engine.ingest(session, turns(60))
    reasons = []
    for _ in range(30):
        reasons.append(engine.compact(session, budget=3_000).reason)
        if reasons[-1] in (Reason.DONE, Reason.BELOW_THRESHOLD):
            break
    assert reasons[0] is Reason.DEFERRED
    assert engine.evaluate(session, 3_000).tokens < 2_300
    assert debt_of(engine).state == "done"


def test_after_vain_passes_nothing_is_tried_before_the_next_time(
    open_engine: Open, session: Session, clock: Clock
) -> None:
    """A few short words cannot be made shorter; more of them can."""
    model = Model()
    engine = open_engine(model, max_active_messages=6)
    engine.ingest(session, [{"role": "user", "content": f"ok {number}"} for number in range(8)])
    assert engine.evaluate(session).reason is Reason.TOO_MANY_MESSAGES
    first = engine.compact(session)
    assert (first.compacted, first.reason) == (False, Reason.NO_PROGRESS)
    debt = debt_of(engine)
    assert debt.state == "failed"
    assert debt.next_attempt_at > clock()
    engine.ingest(session, [{"role": "user", "content": "ok again"}])
    resting = engine.evaluate(session)
    assert (resting.due, resting.reason) == (False, Reason.NO_PROGRESS)
    clock.forward(61_000)
    assert engine.evaluate(session).due
    engine.ingest(session, turns(10))
    assert engine.compact(session).compacted
    assert debt_of(engine).attempts == 0


def test_used_up_summary_calls_hold_back_what_can_wait_until_the_window_ends(
    open_engine: Open, session: Session, clock: Clock
) -> None:
    model = Model()
    engine = open_engine(model, **SMALL, summary_max_calls_per_window=2)
    engine.ingest(session, turns(60))
    budget = 20 * engine.evaluate(session).tokens
    first, second = (engine.compact(session, budget=budget) for _ in range(2))
    assert (first.passes, first.reason) == (1, Reason.DONE)
    assert (second.passes, second.reason) == (1, Reason.CALLS_USED_UP)
    debt = debt_of(engine)
    assert (debt.state, debt.next_attempt_at) == ("deferred", clock() + 600_000)
    engine.ingest(session, turns(2, start=90))
    waiting = engine.evaluate(session, budget)
    assert (waiting.due, waiting.reason) == (False, Reason.CALLS_USED_UP)
    clock.forward(601_000)
    assert engine.compact(session, budget=budget).passes == 1
    assert len(model.calls) == 3


@pytest.mark.long
def test_used_up_summary_calls_leave_no_context_above_its_threshold(
    open_engine: Open, session: Session
) -> None:
    """Without a call to pay, just so many chunks are extracted as bring the context below the threshold."""
    model = Model()
    engine = open_engine(model, **SMALL, summary_max_calls_per_window=2, max_sweep_passes=100)
    engine.ingest(session, turns(60))
    budget = int(engine.evaluate(session).tokens * 1.2)
    for number in range(90, 130, 2):
        outcome = engine.compact(session, budget=budget)
        assert outcome.tokens_after <= 0.75 * budget
        assert outcome.tokens_after > 0.5 * budget
        assert debt_of(engine).reason == Reason.CALLS_USED_UP
        engine.ingest(session, turns(2, start=number))
    assert len(model.calls) == 2
    levels = {summary.level for summary in engine.library.summaries(1)}
    assert levels == {"normal", "extractive"}
    assert {finding.code for finding in engine.check().findings} == {"summary_fallback"}


def test_past_the_hard_limit_used_up_calls_do_not_let_a_session_die(
    open_engine: Open, session: Session
) -> None:
    engine = open_engine(Model(), **SMALL, summary_max_calls_per_window=2, max_sweep_passes=100)
    engine.ingest(session, turns(60))
    outcome = engine.compact(session, budget=4_000)
    assert outcome.tokens_after <= 3_800
    assert "by extraction, since the session's summary calls were used up" in outcome.detail
    assert "no model answered" not in outcome.detail


def test_debt_survives_a_restart_and_a_worker_pays_it(database: Path, session: Session, clock: Clock) -> None:
    config = LcmConfig(database=str(database), **SMALL, summary_max_calls_per_window=1_000)
    with Engine.open(config, clock=clock) as engine:
        engine.ingest(session, turns(60))
        with engine.store.write() as writer:
            writer.request_compaction(1, "over_threshold", 3_000, clock(), overhead=100, model="m")
    with Engine.open(config, Model(), clock=clock) as engine:
        debt = debt_of(engine)
        assert (debt.state, debt.budget, debt.overhead, debt.model) == ("pending", 3_000, 100, "m")
        report = engine.work(threading.Event(), until_idle=True)
        assert report.passes > 0
        assert report.tokens_saved > 1_000
        assert not engine.evaluate(session, 3_000, overhead_tokens=100, model="m").due
        assert debt_of(engine).state == "done"
    assert_sound(database)


def test_a_worker_stops_after_the_pass_that_is_running(open_engine: Open, session: Session) -> None:
    model = GatedModel()
    engine = open_engine(model, **SMALL)
    engine.ingest(session, turns(100))
    stop, reports = threading.Event(), []
    thread = threading.Thread(target=lambda: reports.append(engine.work(stop, poll_seconds=0.05)))
    thread.start()
    assert model.asked.wait(60)
    stop.set()
    model.gate.set()
    thread.join(60)
    assert not thread.is_alive()
    assert reports[0].passes == 1
    assert debt_of(engine).state == "deferred"


def test_an_idle_worker_waits_and_takes_what_becomes_due(open_engine: Open, session: Session) -> None:
    engine = open_engine(Model(), **SMALL)
    stop = threading.Event()
    thread = threading.Thread(target=lambda: engine.work(stop, poll_seconds=0.02))
    thread.start()
    engine.ingest(session, turns(40))
    with engine.store.write() as writer:
        writer.request_compaction(1, "over_threshold", 3_000, engine.clock())
    eventually(lambda: not engine.evaluate(session, 3_000).due)
    stop.set()
    thread.join()


def test_a_later_turn_of_any_session_starts_what_others_owe(
    open_engine: Open, session: Session, monkeypatch: Any
) -> None:
    monkeypatch.setattr(scheduler, "_DRAIN_EVERY_S", 0.0)
    engine = open_engine(Model(), **SMALL)
    engine.ingest(session, turns(20))
    with engine.store.write() as writer:
        writer.request_compaction(1, "over_threshold", 2_000, engine.clock())
    other = Session("agent:test:other")
    engine.ingest(other, turns(1))
    engine.schedule_compaction(other)
    assert engine.wait_idle(60)
    assert not engine.evaluate(session, 2_000).due
    assert debt_of(engine).state == "done"


def test_a_debt_that_is_no_longer_due_is_closed(open_engine: Open, session: Session) -> None:
    engine = open_engine(Model(), **SMALL)
    engine.ingest(session, turns(2))
    with engine.store.write() as writer:
        writer.request_compaction(1, "over_threshold", 100_000, engine.clock())
    assert engine.compact(session).reason is Reason.BELOW_THRESHOLD
    assert debt_of(engine).state == "done"


@pytest.mark.sqlite_only
def test_a_locked_database_is_a_verdict_and_not_an_error(
    database: Path, session: Session, clock: Clock
) -> None:
    config = LcmConfig(database=str(database), **SMALL, busy_timeout_ms=50)
    with Engine.open(config, Model(), clock=clock) as engine, Engine.open(config, clock=clock) as other:
        engine.ingest(session, turns(20))
        with other.store.write():
            outcome = engine.compact(session, force=True)
            engine.schedule_compaction(session, 2_000, wait=False)
            assert engine.wait_idle(60)
        assert (outcome.compacted, outcome.reason) == (False, Reason.DEFERRED)
        assert "locked" in outcome.detail
        assert engine.compact(session, force=True).compacted
    assert_sound(database)
