"""Compaction beside turns: what a turn feels, and what happens when things happen at once."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from clock import Clock
from invariants import assert_sound
from messages import assistant, user
from small_talk import GatedModel, Model, turns
from waiting import eventually

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.background import Background
from lcm_plugin.events import Event
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import CompletionRequest, Reason, Turn

pytestmark = pytest.mark.both_stores_under_ci

SMALL: dict[str, Any] = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 600,
    "leaf_target_tokens": 150,
    "condensed_target_tokens": 200,
}
Open = Callable[..., Engine]


def play(plugin: LcmPlugin, session: Session, number: int, window: int = 128_000) -> float:
    """Milliseconds that the hooks of one turn take."""
    asked, answered = turns(1, start=number)
    started = time.perf_counter()
    plugin.before_turn(Turn(session, [asked], mode="append", window=window))
    plugin.after_turn(Turn(session, [answered], mode="append", window=window))
    return 1000 * (time.perf_counter() - started)


def ended_waits(engine: Engine) -> list[int]:
    """How long (ms) turns waited for a compaction until they waited no longer; filled as that happens."""
    waits: list[int] = []

    def note(event: Event) -> None:
        if event.name == "compaction.wait_ended":
            waits.append(event.fields["waited_ms"])

    engine.subscribe(note)
    return waits


def test_a_turn_does_not_wait_for_a_model_that_answers_slowly(open_engine: Open, session: Session) -> None:
    """Twenty seconds or for ever: the model answers only when all turns are over."""
    model = GatedModel()
    engine = open_engine(model, **SMALL)
    plugin = LcmPlugin(engine=engine)
    quiet = [play(plugin, Session(f"agent:test:quiet-{number}"), number) for number in range(20)]
    number = 0
    while not model.asked.is_set():
        play(plugin, session, number)
        model.asked.wait(0.02)
        number += 1
    busy = [play(plugin, session, number + more) for more in range(20)]
    assert not model.gate.is_set()
    assert len(model.calls) == 1
    model.gate.set()
    assert engine.wait_idle(60)
    assert statistics.median(busy) < statistics.median(quiet) + 100


def test_past_the_hard_limit_a_turn_waits_once_and_for_a_bounded_time(
    open_engine: Open, session: Session
) -> None:
    model = GatedModel()
    engine = open_engine(model, **SMALL, hard_wait_ms=300)
    waits = ended_waits(engine)
    engine.ingest(session, turns(20))
    assert engine.schedule_compaction(session, 2_000).reason is Reason.OVER_HARD_LIMIT
    assert waits == [300]
    engine.schedule_compaction(session, 2_000)
    assert waits == [300]
    model.gate.set()
    assert engine.wait_idle(60)
    assert engine.evaluate(session, 2_000).tokens < 1_900


def test_a_wait_ends_as_soon_as_the_context_fits(open_engine: Open, session: Session) -> None:
    engine = open_engine(Model(), **SMALL, hard_wait_ms=300_000)
    waits = ended_waits(engine)
    engine.ingest(session, turns(20))
    engine.schedule_compaction(session, 2_000)
    assert waits == []
    assert engine.evaluate(session, 2_000).tokens <= 1_900


def test_no_turn_waits_for_an_imported_backlog(open_engine: Open, session: Session) -> None:
    model = GatedModel()
    engine = open_engine(model, **SMALL, hard_wait_ms=1)
    waits = ended_waits(engine)
    engine.ingest(session, turns(300))
    engine.schedule_compaction(session, 2_000)
    assert waits == []
    assert engine.assemble(session, 2_000).tokens <= 2_000
    model.gate.set()


def test_over_the_soft_threshold_one_row_of_debt_is_kept_however_many_turns_pass(
    open_engine: Open, session: Session
) -> None:
    model = GatedModel()
    engine = open_engine(model, **SMALL)
    engine.ingest(session, turns(20))
    for _ in range(5):
        engine.schedule_compaction(session, 3_000, wait=False)
    assert model.asked.wait(60)
    with engine.store.read() as reader:
        debts = [reader.debt(row.conversation_id) for row in reader.conversations()]
    assert [debt.state for debt in debts if debt] == ["running"]
    model.gate.set()
    assert engine.wait_idle(60)
    with engine.store.read() as reader:
        debt = reader.debt(1)
    assert debt is not None
    assert (debt.state, debt.owner) == ("done", None)


def test_a14_a_message_that_arrives_during_a_pass_is_kept_and_not_covered(
    open_engine: Open, session: Session, database: Path
) -> None:
    inner = Model()

    def interrupted(request: CompletionRequest) -> str:
        engine.ingest(session, [user(f"mid {len(inner.calls)}"), assistant("noted")])
        return inner(request)

    engine = open_engine(interrupted, **SMALL)
    engine.ingest(session, turns(14))
    outcome = engine.compact(session, force=True)
    assert outcome.compacted
    mids = [item for item in engine.messages(session) if str(item["content"]).startswith("mid")]
    assert len(mids) == len(inner.calls)
    assert f"mid {len(mids) - 1}" in [m["content"] for m in engine.assemble(session, 8_000).messages]
    with engine.store.read() as reader:
        conversation = reader.find_conversation(session)
        assert conversation is not None
        for item in engine.context_items(session):
            if item.kind == "summary" and item.depth == 0:
                node = reader.summaries([item.id])[item.id]
                assert len(reader.source_messages(item.id)) == node.last_seq - node.first_seq + 1
    assert_sound(database)


def test_a_lost_race_is_a_retry_and_not_an_error(open_engine: Open, session: Session, database: Path) -> None:
    inner, races = Model(), [2]

    def raced(request: CompletionRequest) -> str:
        if races[0] > 0:
            races[0] -= 1
            engine.new_session(session, retain_depth=-1)
            with engine.store.write() as writer:
                writer.remove_items(1, [engine.context_items(session)[0].ordinal], "test", 1)
        return inner(request)

    engine = open_engine(raced, **SMALL)
    engine.ingest(session, turns(20))
    outcome = engine.compact(session, force=True)
    assert outcome.compacted
    assert outcome.reason is Reason.DONE
    assert_sound(database)


def test_a_race_lost_again_and_again_ends_in_a_deferral(open_engine: Open, session: Session) -> None:
    inner = Model()

    def always_raced(request: CompletionRequest) -> str:
        with engine.store.write() as writer:
            writer.remove_items(1, [engine.context_items(session)[0].ordinal], "test", 1)
        return inner(request)

    engine = open_engine(always_raced, **SMALL)
    engine.ingest(session, turns(40))
    outcome = engine.compact(session, force=True)
    assert (outcome.compacted, outcome.reason) == (False, Reason.DEFERRED)
    assert len(inner.calls) <= 5


def test_a_message_hidden_during_a_pass_does_not_falsify_the_totals(
    open_engine: Open, session: Session, database: Path
) -> None:
    inner, once = Model(), [True]

    def hiding(request: CompletionRequest) -> str:
        if once.pop() if once else False:
            with engine.store.write() as writer:
                writer.hide(1, [2, 3], 1)
        return inner(request)

    engine = open_engine(hiding, **SMALL)
    engine.ingest(session, turns(20))
    assert engine.compact(session, force=True).compacted
    assert_sound(database)


def test_one_compaction_at_a_time_and_the_other_says_locked(open_engine: Open, session: Session) -> None:
    model = GatedModel()
    engine = open_engine(model, **SMALL)
    engine.ingest(session, turns(20))
    thread = threading.Thread(target=lambda: engine.compact(session, force=True))
    thread.start()
    assert model.asked.wait(60)
    second = engine.compact(session, force=True)
    assert (second.compacted, second.reason) == (False, Reason.LOCKED)
    model.gate.set()
    thread.join(60)
    assert engine.compact(session, force=True).reason is not Reason.LOCKED


def test_different_conversations_are_compacted_at_the_same_time(open_engine: Open) -> None:
    meeting = threading.Barrier(2, timeout=20)
    inner = Model()

    def meets(request: CompletionRequest) -> str:
        if len(inner.calls) < 2:
            meeting.wait()
        return inner(request)

    engine = open_engine(meets, **SMALL)
    lanes = [Session("agent:test:one"), Session("agent:test:two")]
    for lane in lanes:
        engine.ingest(lane, turns(7))
        engine.schedule_compaction(lane)
    assert engine.wait_idle(60)
    assert not meeting.broken


def test_closing_ends_waiting_for_a_model_and_what_is_left_stays_owed(
    database: Path, session: Session, clock: Clock
) -> None:
    model = GatedModel()
    engine = Engine.open(LcmConfig(database=str(database), **SMALL), model, clock=clock)
    engine.ingest(session, turns(20))
    engine.schedule_compaction(session, 3_000, wait=False)
    assert model.asked.wait(60)
    before = {thread for thread in threading.enumerate() if thread.name == "lcm-background"}
    assert before
    engine.close()
    eventually(lambda: not any(thread.is_alive() for thread in before))
    assert not model.gate.is_set()
    model.gate.set()
    with Engine.open(LcmConfig(database=str(database), **SMALL), Model(), clock=clock) as again:
        with again.store.read() as reader:
            (debt,) = reader.due_debts(clock())
        assert debt.state == "deferred"
        assert again.compact(session, budget=3_000).compacted
    assert_sound(database)


def test_no_exception_ends_the_background_and_each_is_an_event(open_engine: Open, session: Session) -> None:
    class Odd(BaseException):
        pass

    engine = open_engine()
    events: list[Event] = []
    engine.subscribe(events.append)

    def failing(error: BaseException) -> None:
        raise error

    errors = [SystemExit(3), asyncio.CancelledError(), Odd(), KeyboardInterrupt(), ValueError("x")]
    for number, error in enumerate(errors):
        engine.background.submit(number, partial(failing, error))
    assert engine.wait_idle(60)
    ran = threading.Event()
    engine.background.submit("after", ran.set)
    assert ran.wait(60)
    told = {event.fields["error"] for event in events if event.name == "background.failed"}
    assert told == {"SystemExit", "CancelledError", "Odd", "KeyboardInterrupt", "ValueError"}


def test_a_thread_that_is_dead_is_replaced() -> None:
    background, ran = Background(workers=1), threading.Event()
    dead = threading.Thread(target=int)
    dead.start()
    dead.join()
    background._threads.append(dead)
    background.submit("job", ran.set)
    assert ran.wait(60)
    background.close()


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(1)])
def test_a_completer_that_ends_its_thread_ends_no_compaction(
    open_engine: Open, session: Session, error: BaseException
) -> None:
    def ending(request: CompletionRequest) -> str:
        raise error

    engine = open_engine(ending, **SMALL)
    for number in range(6):
        engine.ingest(session, turns(20, start=40 * number))
        engine.schedule_compaction(session, 3_000)
        assert engine.wait_idle(60)
    assert any(item.kind == "summary" for item in engine.context_items(session))
    assert engine.recover_overflow(session, 1_000).reason is not None


def test_a_key_waits_once_and_runs_once_more_when_asked_while_it_runs() -> None:
    background, started, gate, runs = Background(), threading.Event(), threading.Event(), []

    def job() -> None:
        runs.append(1)
        started.set()
        gate.wait(10)

    assert background.submit("lane", job)
    assert started.wait(60)
    assert background.submit("lane", job)
    assert not background.submit("lane", job)
    gate.set()
    assert background.wait_idle(60)
    assert len(runs) == 2
    background.close()
    assert not background.submit("lane", job)
