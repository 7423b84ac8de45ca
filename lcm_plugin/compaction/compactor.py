"""Compaction of one conversation: decide, take the lease, sweep, give a verdict."""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from collections.abc import Callable

from lcm_plugin.compaction.chunks import raw_tokens_outside
from lcm_plugin.compaction.policy import Limits, decide
from lcm_plugin.compaction.sweep import Bounds, Progress, Sweeper
from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import LcmError
from lcm_plugin.events import EventBus
from lcm_plugin.store.base import Store
from lcm_plugin.store.records import Conversation
from lcm_plugin.tail import fresh_tail
from lcm_plugin.types import CompactionDecision, CompactionResult, Reason

_LEASE_MARGIN_MS = 30_000
_RETRY_FIRST_MS = 60_000
_RETRY_LONGEST_MS = 1_800_000
_NO_LIMIT = 1 << 31


class Compactor:
    """Decides about and runs compactions. Thread-safe; one at a time per conversation, in any process."""

    def __init__(
        self,
        store: Store,
        sweeper: Sweeper,
        config: LcmConfig,
        events: EventBus,
        clock: Callable[[], int],
        *,
        calls_models: Callable[[], bool],
    ) -> None:
        self._store = store
        self._sweeper = sweeper
        self._config = config
        self._events = events
        self._clock = clock
        self._calls_models = calls_models
        self._lease_ms = config.summary_timeout_ms + _LEASE_MARGIN_MS

    def evaluate(self, conversation_id: int, limits: Limits) -> CompactionDecision:
        """Whether compaction is due now. Costs the same however long the history is."""
        with self._store.read() as reader:
            conversation = reader.conversation(conversation_id)
            if conversation is None:
                return CompactionDecision(False, Reason.BELOW_THRESHOLD, 0, limits.soft)
            outside = 0
            if conversation.raw_tokens >= limits.chunk_tokens:
                tail = fresh_tail(
                    reader, conversation_id, count=limits.tail_count, max_tokens=limits.tail_tokens
                )
                outside = raw_tokens_outside(conversation.raw_tokens, tail)
            return decide(conversation, limits, outside, reader.debt(conversation_id))

    def compact(
        self,
        conversation_id: int,
        limits: Limits,
        *,
        force: bool = False,
        cancelled: Callable[[], bool] | None = None,
    ) -> CompactionResult:
        """Compacts if it is due, or as far as it goes when forced. Never raises for a failed pass."""
        decision = self.evaluate(conversation_id, limits)
        if not force and not decision.due:
            return _unchanged(decision.reason, decision.tokens)
        owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        with self._store.write() as writer:
            if writer.claim_debt(conversation_id, owner, self._clock(), self._lease_ms) is None:
                return _unchanged(Reason.LOCKED, decision.tokens)
        progress, error = Progress(), ""
        try:
            self._run(
                conversation_id,
                limits,
                decision,
                force,
                self._bounds(conversation_id, owner, cancelled),
                progress,
            )
        except LcmError as failure:
            error = str(failure)
            self._events.emit(
                "compaction.failed", level=logging.WARNING, conversation_id=conversation_id, error=error
            )
        finally:
            result = self._settle(conversation_id, limits, decision, owner, progress, error)
        self._events.emit(
            "compaction.finished",
            conversation_id=conversation_id,
            trigger_reason=str(Reason.MANUAL if force else decision.reason),
            reason=str(result.reason),
            passes=result.passes,
            token_before=result.tokens_before,
            token_after=result.tokens_after,
        )
        return result

    def _run(
        self,
        conversation_id: int,
        limits: Limits,
        decision: CompactionDecision,
        force: bool,
        bounds: Bounds,
        progress: Progress,
    ) -> None:
        if not force and decision.reason is Reason.LEAF_CHUNK_READY:
            self._sweeper.incremental(conversation_id, limits, bounds, progress)
            return
        self._sweeper.sweep(conversation_id, limits, bounds, progress, forced=force)
        if self._tokens(conversation_id) > limits.hard and progress.stopped is None:
            self._sweeper.sweep(conversation_id, limits, bounds, progress, emergency=True)

    def _bounds(self, conversation_id: int, owner: str, cancelled: Callable[[], bool] | None) -> Bounds:
        renewed = time.monotonic()

        def alive() -> bool:
            nonlocal renewed
            if cancelled is not None and cancelled():
                return False
            if time.monotonic() - renewed < self._lease_ms / 4000:
                return True
            renewed = time.monotonic()
            with self._store.write() as writer:
                return writer.renew_lease(conversation_id, owner, self._clock(), self._lease_ms)

        return Bounds(
            max_passes=self._config.max_sweep_passes if self._calls_models() else _NO_LIMIT,
            deadline=time.monotonic() + self._config.sweep_deadline_ms / 1000,
            alive=alive,
        )

    def _settle(
        self,
        conversation_id: int,
        limits: Limits,
        decision: CompactionDecision,
        owner: str,
        progress: Progress,
        error: str,
    ) -> CompactionResult:
        after = self._tokens(conversation_id)
        reason = _verdict(progress, after, limits, error)
        now = self._clock()
        with self._store.write() as writer:
            debt = writer.debt(conversation_id)
            attempts = debt.attempts if debt else 1
            state, next_attempt = "done", 0
            if reason is Reason.MODEL_FAILED:
                state, next_attempt = "failed", now + _back_off(attempts)
            elif reason in (Reason.DEFERRED, Reason.CANCELLED):
                state, next_attempt = "deferred", now
            writer.settle_debt(
                conversation_id,
                owner,
                state,
                now,
                reason=str(reason),
                error=error,
                next_attempt_at=next_attempt,
            )
        return CompactionResult(
            compacted=progress.saved > 0,
            reason=reason,
            passes=progress.passes,
            tokens_before=decision.tokens,
            tokens_after=after,
            summaries=tuple(progress.summaries),
            detail=error,
        )

    def _tokens(self, conversation_id: int) -> int:
        with self._store.read() as reader:
            conversation: Conversation | None = reader.conversation(conversation_id)
            return conversation.context_tokens if conversation else 0


def _verdict(progress: Progress, after: int, limits: Limits, error: str) -> Reason:
    if error:
        return Reason.MODEL_FAILED
    if progress.stopped is not None:
        return progress.stopped
    if after > limits.hard:
        return Reason.BUDGET_UNREACHABLE
    return Reason.DONE if progress.passes else Reason.NOTHING_ELIGIBLE


def _unchanged(reason: Reason, tokens: int) -> CompactionResult:
    return CompactionResult(False, reason, 0, tokens, tokens)


def _back_off(attempts: int) -> int:
    return min(_RETRY_FIRST_MS << min(max(0, attempts - 1), 10), _RETRY_LONGEST_MS)
