"""Compaction of one conversation: decide, take the lease, run passes, give a verdict."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

from lcm_plugin.compaction.calibration import Calibration
from lcm_plugin.compaction.chunks import Chunk, raw_tokens_outside
from lcm_plugin.compaction.clearing import Clearing
from lcm_plugin.compaction.leases import CompactionLease
from lcm_plugin.compaction.policy import EMERGENCY_TAIL_SHARES, Call, Limits, decide, limits_for
from lcm_plugin.compaction.sweep import Bounds, Pressure, Progress, Sweeper
from lcm_plugin.compaction.tail import RecentTails, Tail, TailBounds
from lcm_plugin.compaction.undo import LastCompaction
from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import EngineClosed, LcmError, ModelError, StoreError
from lcm_plugin.events import EventBus, event_scope
from lcm_plugin.lru import LruCache
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import Conversation
from lcm_plugin.summarize.base import SummaryDraft, extracted, longest_call
from lcm_plugin.text import plural
from lcm_plugin.types import CompactionDecision, CompactionResult, Reason

_RETRY_FIRST_MS = 60_000
_RETRY_LONGEST_MS = 1_800_000
_BUSY_RETRY_MS = 5_000
_TRIES_WITHOUT_REST = 3
_NO_LIMIT = 1 << 31
_REMEMBERED = 64
# A backlog is taken in so many passes; after a turn the excess is much smaller than a chunk.
_RELIEF_PASSES = 4
_STATES = {
    Reason.MODEL_FAILED: "failed",
    Reason.BUDGET_UNREACHABLE: "failed",
    Reason.NO_PROGRESS: "failed",
    Reason.DEFERRED: "deferred",
    Reason.CALLS_USED_UP: "deferred",
    Reason.CANCELLED: "deferred",
}


@dataclass(frozen=True, slots=True)
class _Work:
    """One compaction that holds its lease."""

    conversation_id: int
    limits: Limits
    decision: CompactionDecision
    force: bool
    bounds: Bounds
    progress: Progress


class Compactor:
    """Decides about and runs compactions. Thread-safe; one at a time per conversation, in any process."""

    def __init__(
        self,
        store: Store,
        sweeper: Sweeper,
        clearing: Clearing,
        config: LcmConfig,
        events: EventBus,
        clock: Callable[[], int],
        calibration: Calibration,
        *,
        calls_models: Callable[[], bool],
        spent_until: Callable[[str], int],
        last: LastCompaction,
    ) -> None:
        self._store = store
        self._sweeper = sweeper
        self._clearing = clearing
        self._config = config
        self._events = events
        self._clock = clock
        self._calibration = calibration
        self._calls_models = calls_models
        self._spent_until = spent_until
        self._last = last
        self._tails = RecentTails()
        self._limits: LruCache[tuple[Call, int | None, str, float], Limits] = LruCache(_REMEMBERED)

    def limits(self, call: Call, session_key: str) -> Limits:
        """The settings for a call, its budget corrected by what the provider counts."""
        factor = self._calibration.factor(call.model)
        key = (call, call.shown, session_key, factor)
        known = self._limits.get(key)
        return known or self._limits.put_new(
            key, limits_for(self._config, call, session_key=session_key, factor=factor)
        )

    def evaluate(self, conversation_id: int, limits: Limits) -> CompactionDecision:
        """Whether compaction of a conversation is due now."""
        with self._store.read() as reader:
            conversation = reader.conversation(conversation_id)
            if conversation is None or not conversation.active:
                return CompactionDecision(False, Reason.BELOW_THRESHOLD, 0, limits.soft)
            return self.assess(reader, conversation, limits)

    def assess(self, reader: Reader, conversation: Conversation, limits: Limits) -> CompactionDecision:
        """Whether compaction is due, as a transaction sees it. Costs the same however long the history is."""
        outside = 0
        if conversation.raw_tokens >= limits.least_outside:
            tail = self._tail(reader, conversation, limits, limits.verbatim)
            outside = raw_tokens_outside(conversation.raw_tokens, tail)
        debt = reader.debt(conversation.conversation_id)
        decision = decide(conversation, limits, outside, debt, self._clock())
        if decision.reason is Reason.LEAF_CHUNK_READY and self._clearing.rests(conversation, limits):
            return replace(decision, due=False, reason=Reason.BELOW_THRESHOLD)
        return decision

    def compact(
        self,
        conversation_id: int,
        limits: Limits,
        *,
        force: bool = False,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> CompactionResult:
        """Compacts if it is due, or as far as it goes when forced. A failure is a verdict, not an exception.

        Every event of it carries one ``compaction_id``.
        """
        with self._store.read() as reader:
            conversation = reader.conversation(conversation_id)
        session_id = conversation.session_id if conversation else None
        with event_scope(compaction_id=f"cmp_{uuid4().hex[:12]}", session_id=session_id):
            return self._compact(conversation_id, limits, force, cancelled)

    def preview(self, conversation_id: int, limits: Limits) -> tuple[Chunk, SummaryDraft] | None:
        """The first chunk that a forced compaction would summarise, and its text; nothing is published."""
        deadline = time.monotonic() + self._config.sweep_deadline_ms / 1000
        return self._sweeper.preview(
            conversation_id, limits, Bounds(1, deadline, partial(longest_call, self._config))
        )

    def _compact(
        self, conversation_id: int, limits: Limits, force: bool, cancelled: Callable[[], bool]
    ) -> CompactionResult:
        decision = self.evaluate(conversation_id, limits)
        if decision.left_to_host or not (force or decision.due):
            return self._not_due(conversation_id, decision)
        try:
            lease = CompactionLease.of(self._store, conversation_id, self._clock)
        except StoreError as error:
            return self._report(conversation_id, decision, force, _deferred(decision, error))
        if lease is None:
            self._skipped(conversation_id, Reason.LOCKED, decision)
            return _unchanged(Reason.LOCKED, decision)
        progress, failure = Progress(), None
        with lease:
            bounds = self._bounds(lease, cancelled)
            try:
                self._run(_Work(conversation_id, limits, decision, force, bounds, progress))
            except LcmError as error:
                failure = error
            result = self._settle(lease, limits, decision, progress, failure)
        return self._report(conversation_id, decision, force, result)

    def _run(self, work: _Work) -> None:
        limits, due = work.limits, work.decision.reason
        if not work.force and self._clear(work):
            return
        if not work.force and due is Reason.LEAF_CHUNK_READY:
            self._sweeper.incremental(work.conversation_id, limits, work.bounds, work.progress)
            return
        if not work.force and _goes_by_batches(due, limits):
            excess = self._tokens(work.conversation_id) - limits.soft
            fitting = replace(limits, chunk_tokens=max(limits.chunk_tokens, excess // _RELIEF_PASSES))
            self._sweeper.relieve(work.conversation_id, fitting, work.bounds, work.progress)
            if not self._over(work, limits.soft):
                return
        reason = "manual" if work.force else str(due)
        self._sweep(work, Pressure(reason, work.force))
        if self._over(work, limits.soft) and self._tail_tokens(work) > limits.yielding_tokens:
            self._sweep(work, Pressure(reason, work.force, limits.yielding_tokens))
        for share in EMERGENCY_TAIL_SHARES:
            if not self._over(work, limits.hard):
                return
            tail = min(limits.yielding_tokens, int(limits.room * share))
            self._sweep(work, Pressure("emergency", True, tail, emergency=True))

    def _clear(self, work: _Work) -> bool:
        """Clears old results, which costs no summary; whether that is all for now."""
        number, limits = work.conversation_id, work.limits
        done = self._clearing.clear(number, limits, work.decision.reason)
        work.progress.cleared += done.results
        work.progress.saved += done.saved
        if done.results and not self.evaluate(number, limits).due:
            return True
        return work.decision.reason is Reason.LEAF_CHUNK_READY and self._clearing.leaves_rest(number, limits)

    def _sweep(self, work: _Work, pressure: Pressure) -> None:
        if work.progress.stopped is None:
            self._sweeper.sweep(work.conversation_id, work.limits, work.bounds, work.progress, pressure)

    def _over(self, work: _Work, limit: int) -> bool:
        return self._tokens(work.conversation_id) > limit

    def _tail_tokens(self, work: _Work) -> int:
        with self._store.read() as reader:
            conversation = reader.conversation(work.conversation_id)
            return self._tail(reader, conversation, work.limits).tokens if conversation else 0

    def _tail(self, reader: Reader, conversation: Conversation, limits: Limits, least: int = 0) -> Tail:
        return self._tails.of(reader, conversation, TailBounds(limits.tail_count, limits.tail_tokens, least))

    def _bounds(self, lease: CompactionLease, cancelled: Callable[[], bool]) -> Bounds:
        return Bounds(
            max_passes=self._config.max_sweep_passes if self._calls_models() else _NO_LIMIT,
            deadline=time.monotonic() + self._config.sweep_deadline_ms / 1000,
            pass_seconds=partial(longest_call, self._config),
            alive=lambda: lease.held and not cancelled(),
            spent_until=self._spent_until,
        )

    def _settle(
        self,
        lease: CompactionLease,
        limits: Limits,
        decision: CompactionDecision,
        progress: Progress,
        failure: LcmError | None,
    ) -> CompactionResult:
        """The verdict, noted in the database as far as it can be."""
        detail = str(failure) if failure else ""
        try:
            if progress.summaries:
                self._last.note(lease.conversation_id, progress.summaries)
            after = self._tokens(lease.conversation_id)
            reason = _verdict(progress, after, limits, failure)
            state = _STATES.get(reason, "done")
            rest = _rest(reason, lease.row.attempts, failure)
            next_attempt = self._clock() + rest if rest else progress.spent_until
            lease.settle(state, reason=str(reason), error=detail, next_attempt_at=next_attempt)
        except LcmError as error:
            # What was published stands.
            after, reason = decision.tokens - progress.saved, Reason.DEFERRED
            detail = detail or str(error)
            retry_at = self._clock() + _BUSY_RETRY_MS
            lease.settle_later("deferred", reason=str(reason), error=detail, next_attempt_at=retry_at)
        if progress.cleared:
            note = f"{plural(progress.cleared, 'old result')} cleared"
            detail = f"{detail}; {note}" if detail else note
        if progress.fallbacks:
            note = f"of {plural(progress.passes, 'summary')} {extracted(progress.fallbacks)}"
            detail = f"{detail}; {note}" if detail else note
        return CompactionResult(
            compacted=progress.saved > 0,
            reason=reason,
            passes=progress.passes,
            tokens_before=decision.tokens,
            tokens_after=after,
            summaries=tuple(progress.summaries),
            detail=detail,
        )

    def _not_due(self, conversation_id: int, decision: CompactionDecision) -> CompactionResult:
        """Nothing to do now; a debt that was recorded when there was is closed, so that nobody takes it again."""
        with suppress(StoreError):
            self._close_debt(conversation_id, decision.reason)
        self._skipped(conversation_id, decision.reason, decision)
        return _unchanged(decision.reason, decision)

    def _skipped(self, conversation_id: int, reason: Reason, decision: CompactionDecision) -> None:
        self._events.emit(
            "compaction.skipped",
            level=logging.DEBUG,
            conversation_id=conversation_id,
            reason=str(reason),
            token_before=decision.tokens,
            threshold=decision.threshold,
        )

    def _close_debt(self, conversation_id: int, reason: Reason) -> None:
        with self._store.read() as reader:
            debt = reader.debt(conversation_id)
        if debt is None or debt.state == "done" or debt.next_attempt_at > self._clock():
            return
        lease = CompactionLease.of(self._store, conversation_id, self._clock)
        if lease is not None:
            lease.settle("done", reason=str(reason))

    def _report(
        self, conversation_id: int, decision: CompactionDecision, force: bool, result: CompactionResult
    ) -> CompactionResult:
        poor = result.reason in (Reason.MODEL_FAILED, Reason.BUDGET_UNREACHABLE)
        self._events.emit(
            "compaction.finished",
            level=logging.WARNING if poor else logging.INFO,
            conversation_id=conversation_id,
            trigger_reason=str(Reason.MANUAL if force else decision.reason),
            reason=str(result.reason),
            passes=result.passes,
            token_before=result.tokens_before,
            token_after=result.tokens_after,
            detail=result.detail,
        )
        return result

    def _tokens(self, conversation_id: int) -> int:
        with self._store.read() as reader:
            conversation = reader.conversation(conversation_id)
            return conversation.context_tokens if conversation else 0


def _goes_by_batches(due: Reason, limits: Limits) -> bool:
    """Whether a context that is too large is first relieved of only as much as it has too much."""
    return limits.verbatim > 0 and due in (Reason.OVER_THRESHOLD, Reason.OVER_HARD_LIMIT)


def _verdict(progress: Progress, after: int, limits: Limits, failure: LcmError | None) -> Reason:
    if isinstance(failure, EngineClosed):
        return Reason.CANCELLED
    if isinstance(failure, ModelError):
        return Reason.MODEL_FAILED
    if failure is not None:
        return Reason.DEFERRED
    if progress.stopped is not None:
        return progress.stopped
    if after > limits.hard:
        return Reason.BUDGET_UNREACHABLE
    if progress.spent_until:
        return Reason.CALLS_USED_UP
    if progress.passes or progress.cleared:
        return Reason.DONE
    return Reason.NO_PROGRESS if progress.tried else Reason.NOTHING_ELIGIBLE


def _rest(reason: Reason, attempts: int, failure: LcmError | None) -> int:
    """Milliseconds until the next try."""
    if failure is not None and not isinstance(failure, ModelError):
        return _BUSY_RETRY_MS
    if reason is Reason.BUDGET_UNREACHABLE:
        attempts -= _TRIES_WITHOUT_REST
        return _back_off(attempts) if attempts > 0 else 0
    return _back_off(attempts) if reason in (Reason.MODEL_FAILED, Reason.NO_PROGRESS) else 0


def _back_off(attempts: int) -> int:
    return min(_RETRY_FIRST_MS << min(max(0, attempts - 1), 10), _RETRY_LONGEST_MS)


def _unchanged(reason: Reason, decision: CompactionDecision, detail: str = "") -> CompactionResult:
    return CompactionResult(False, reason, 0, decision.tokens, decision.tokens, detail=detail)


def _deferred(decision: CompactionDecision, error: LcmError) -> CompactionResult:
    return _unchanged(Reason.DEFERRED, decision, str(error))
