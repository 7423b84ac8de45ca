"""When compactions run: beside the turns that make them due, and in workers outside any host.

A turn only records what is owed and hands the work to a thread. Past the hard limit it may wait, once for
each breach and for a bounded time; for an imported backlog it never does, since a context is assembled
within the budget anyway. Any number of workers and hosts may share a database: a debt is taken with a lease, which
is renewed while its passes run and expires when its holder dies.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from lcm_plugin.background import Background
from lcm_plugin.compaction.leases import CompactionLease
from lcm_plugin.compaction.policy import Call, Limits
from lcm_plugin.compaction.run import Compactor
from lcm_plugin.errors import EngineClosed, ServerAway, StoreBusy, StoreError
from lcm_plugin.events import EventBus
from lcm_plugin.store.leases import is_dead
from lcm_plugin.store.protocol import Store
from lcm_plugin.store.records import Conversation, Debt
from lcm_plugin.types import CompactionDecision, CompactionResult, Reason

_DRAIN_EVERY_S = 30.0
_DRAINED_AT_ONCE = 4
_PAGE = 200
MAP_SECONDS = 30.0
_AT_ONCE = 16
_FIRST_LOOK_S, _SLOWEST_LOOK_S = 0.01, 0.25
# Beyond so many times the room, no wait that a turn can bear would be long enough.
_LARGEST_WAITED_FOR = 4


class Scheduler:
    """Starts compactions on worker threads. Thread-safe."""

    def __init__(
        self,
        store: Store,
        compactor: Compactor,
        background: Background,
        events: EventBus,
        clock: Callable[[], int],
        *,
        hard_wait_ms: int,
    ) -> None:
        self._store = store
        self._compactor = compactor
        self._background = background
        self._events = events
        self._clock = clock
        self._hard_wait_s = hard_wait_ms / 1000
        self._waited: set[int] = set()
        self._next_drain = time.monotonic() + _DRAIN_EVERY_S

    def schedule(
        self, conversation_id: int, limits: Limits, decision: CompactionDecision, *, wait: bool
    ) -> None:
        """Starts what is due for a conversation; with ``wait``, waits past the hard limit."""
        if decision.reason is not Reason.OVER_HARD_LIMIT:
            self._waited.discard(conversation_id)
        if decision.due:
            self._record(conversation_id, decision, limits.call)
            self._start(conversation_id, limits)
            if wait and _is_worth_waiting(decision, limits):
                with self._background.waited_for():
                    self._wait(conversation_id, limits)
        self.drain_if_due()

    def drain_if_due(self) -> None:
        """Starts what conversations still owe, if that was not done for a while."""
        if time.monotonic() >= self._next_drain:
            self._next_drain = time.monotonic() + _DRAIN_EVERY_S
            self._drain()

    def _record(self, conversation_id: int, decision: CompactionDecision, call: Call) -> None:
        """Writes the debt down, unless it stands there already."""
        try:
            with self._store.read() as reader:
                debt = reader.debt(conversation_id)
            if debt is not None and debt.state in ("pending", "running") and call_of(debt) == call:
                return
            with self._store.write() as writer:
                writer.request_compaction(
                    conversation_id,
                    str(decision.reason),
                    call.budget,
                    self._clock(),
                    overhead=call.overhead,
                    model=call.model or "",
                    window=call.window,
                )
        except StoreError as error:
            # The work itself starts anyway; without the record it would only not survive a crash.
            self._events.emit(
                "compaction.not_recorded",
                level=logging.WARNING,
                conversation_id=conversation_id,
                error=str(error),
            )

    def _start(self, conversation_id: int, limits: Limits) -> None:
        self._background.submit(conversation_id, lambda: self._work(conversation_id, limits))

    def _work(self, conversation_id: int, limits: Limits) -> None:
        try:
            self._compactor.compact(conversation_id, limits, cancelled=self._is_over)
        except EngineClosed:
            return
        except StoreError as error:
            self._events.emit(
                "compaction.failed",
                level=logging.WARNING,
                conversation_id=conversation_id,
                error=str(error),
            )

    def _is_over(self) -> bool:
        """Asked between two passes: whether the engine is closing. Lets turns go first."""
        self._background.yield_to_foreground()
        return self._background.closing

    def _wait(self, conversation_id: int, limits: Limits) -> None:
        """Until the context is below the hard limit, nobody works on it any more, or the time is over."""
        if conversation_id in self._waited:
            return
        end = time.monotonic() + self._hard_wait_s
        look = _FIRST_LOOK_S
        while self._is_worked_on(conversation_id, limits):
            left = end - time.monotonic()
            if left <= 0:
                self._waited.add(conversation_id)
                self._events.emit(
                    "compaction.wait_ended",
                    level=logging.WARNING,
                    conversation_id=conversation_id,
                    waited_ms=round(self._hard_wait_s * 1000),
                )
                return
            if self._background.wait_for(conversation_id, min(look, left)):
                time.sleep(min(look, left))
            look = min(2 * look, _SLOWEST_LOOK_S)

    def _is_worked_on(self, conversation_id: int, limits: Limits) -> bool:
        """Whether the context is past the hard limit and somebody, here or elsewhere, is at it."""
        with self._store.read() as reader:
            conversation = reader.conversation(conversation_id)
            debt = reader.debt(conversation_id)
        if conversation is None or conversation.context_tokens <= limits.hard:
            return False
        running = debt is not None and debt.state == "running" and debt.lease_until >= self._clock()
        return running or not self._background.wait_for(conversation_id, 0)

    def _drain(self) -> None:
        with self._store.read() as reader:
            owed = [
                (debt, conversation)
                for debt in reader.due_debts(self._clock(), limit=_DRAINED_AT_ONCE)
                if (conversation := reader.conversation(debt.conversation_id)) is not None
            ]
        for debt, conversation in owed:
            limits = self._compactor.limits(call_of(debt), conversation.session_key)
            self._start(conversation.conversation_id, limits)


def _is_worth_waiting(decision: CompactionDecision, limits: Limits) -> bool:
    """Whether the context is past the hard limit, and not by a whole imported history."""
    return decision.reason is Reason.OVER_HARD_LIMIT and decision.tokens <= _LARGEST_WAITED_FOR * limits.room


def call_of(debt: Debt) -> Call:
    """The model call that made a debt due."""
    return Call(debt.budget, debt.overhead, debt.model or None, debt.window)


@dataclass(slots=True)
class WorkReport:
    """What a worker did: how many compactions of which verdict, passes, tokens saved, integrity checks, and maps."""

    compactions: int = 0
    passes: int = 0
    tokens_saved: int = 0
    verdicts: dict[Reason, int] = field(default_factory=dict)
    integrity_checks: int = 0
    maps: int = 0

    def add(self, result: CompactionResult) -> None:
        """Notes one compaction."""
        self.compactions += 1
        self.passes += result.passes
        self.tokens_saved += result.tokens_before - result.tokens_after
        self.verdicts[result.reason] = self.verdicts.get(result.reason, 0) + 1


# Does what is due until what it is given says stop, and returns how much that was.
WorkOff: TypeAlias = Callable[[Callable[[], bool]], int]


def _until(stop: threading.Event, seconds: float) -> Callable[[], bool]:
    """Says stop when the event is set, and when the time is over."""
    end = time.monotonic() + seconds
    return lambda: stop.is_set() or time.monotonic() >= end


class Worker:
    """Takes debts that are due, one at a time, until it is stopped.

    ``may_write`` answers for a session key; ignored and stateless lanes and archived conversations are let be.
    ``check`` does the integrity jobs that are due, ``map_items`` works on running maps, for `MAP_SECONDS` at a time.
    """

    def __init__(
        self,
        store: Store,
        compactor: Compactor,
        clock: Callable[[], int],
        may_write: Callable[[str], bool] = lambda session_key: True,
        check: WorkOff = lambda stop: 0,
        map_items: WorkOff = lambda stop: 0,
    ) -> None:
        self._may_write = may_write
        self._check = check
        self._map_items = map_items
        self._store = store
        self._compactor = compactor
        self._clock = clock

    def run(
        self, stop: threading.Event, *, until_idle: bool = False, poll_seconds: float = 2.0
    ) -> WorkReport:
        """Works until ``stop`` is set, or with ``until_idle`` until nothing is due any more.

        A set ``stop`` ends it after the pass that is running; what is left stays owed. A database server that goes
        away is waited for, unless it is to end when idle: then that is an error.
        """
        report = WorkReport()
        seen_backlogs = False
        while not stop.is_set():
            try:
                if not seen_backlogs:
                    self._record_backlogs()
                    seen_backlogs = True
                worked = self._round(stop, report)
                checked = self._check(stop.is_set)
                report.integrity_checks += checked
                mapped = self._map_items(_until(stop, MAP_SECONDS))
                report.maps += mapped
                worked |= checked + mapped > 0
            except StoreBusy:
                worked = False
            except ServerAway:
                if until_idle:
                    raise
                worked = False
            if worked:
                continue
            if until_idle:
                break
            stop.wait(poll_seconds)
        return report

    def _round(self, stop: threading.Event, report: WorkReport) -> bool:
        """One go over what is due now; whether any of it made progress."""
        progress = False
        with self._store.read() as reader:
            due = reader.due_debts(self._clock(), limit=_AT_ONCE)
            due += [debt for debt in reader.held_debts(limit=_AT_ONCE) if is_dead(debt.owner)]
            owed = [(debt, reader.conversation(debt.conversation_id)) for debt in due]
        for debt, conversation in owed:
            if stop.is_set():
                return False
            if conversation is None:
                continue
            if not conversation.active or not self._may_write(conversation.session_key):
                self._let_be(conversation.conversation_id)
                continue
            limits = self._compactor.limits(call_of(debt), conversation.session_key)
            progress |= self._work_off(conversation.conversation_id, limits, stop, report)
        return progress

    def _work_off(
        self, conversation_id: int, limits: Limits, stop: threading.Event, report: WorkReport
    ) -> bool:
        """Compacts one conversation as long as that is due and helps; whether anything came of it."""
        progress = False
        while not stop.is_set():
            result = self._compactor.compact(conversation_id, limits, cancelled=stop.is_set)
            report.add(result)
            if not result.compacted or not self._compactor.evaluate(conversation_id, limits).due:
                return progress or result.compacted or result.reason is Reason.BELOW_THRESHOLD
            progress = True
        return progress

    def _let_be(self, conversation_id: int) -> None:
        """Closes a debt that is not to be worked off, so that it does not stand before others."""
        lease = CompactionLease.of(self._store, conversation_id, self._clock)
        if lease is not None:
            lease.settle("done", reason=str(Reason.IGNORED))

    def _record_backlogs(self) -> None:
        """Notes what is due without a debt: an imported history that no turn has looked at yet."""
        for conversation in self._active_conversations():
            if not self._may_write(conversation.session_key):
                continue
            limits = self._compactor.limits(Call(), conversation.session_key)
            if conversation.raw_tokens < limits.least_outside:
                continue
            with self._store.read() as reader:
                known = reader.debt(conversation.conversation_id)
            if known is not None:
                continue
            decision = self._compactor.evaluate(conversation.conversation_id, limits)
            if decision.due:
                with self._store.write() as writer:
                    writer.request_compaction(
                        conversation.conversation_id, str(decision.reason), None, self._clock()
                    )

    def _active_conversations(self) -> Iterator[Conversation]:
        after = 0
        while True:
            with self._store.read() as reader:
                page = reader.conversations(after_id=after, limit=_PAGE, active_only=True)
            if not page:
                return
            yield from page
            after = page[-1].conversation_id
