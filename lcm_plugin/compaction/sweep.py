"""Series of passes over one conversation: incremental after a turn, a sweep under pressure.

A sweep runs leaf passes until none is eligible, then condensations, shallowest depth first, until
none is eligible or one does not shrink the context. It is bounded in time and in passes that call a
model, and picks up where an earlier one stopped. The emergency form lets the fresh tail yield and
uses the lower fanouts; only a breach of the hard limit leads there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lcm_plugin.compaction.chunks import Chunk, condensation_chunk, leaf_chunk
from lcm_plugin.compaction.passes import PassRunner
from lcm_plugin.compaction.policy import Limits
from lcm_plugin.errors import StoreConflict
from lcm_plugin.store.base import Reader, Store
from lcm_plugin.store.records import Conversation
from lcm_plugin.tail import Tail, fresh_tail
from lcm_plugin.types import Reason

_CONFLICT_RETRIES = 3


@dataclass(slots=True)
class Progress:
    """What a series of passes has done so far."""

    passes: int = 0
    saved: int = 0
    summaries: list[str] = field(default_factory=list)
    stopped: Reason | None = None

    def add(self, summary_id: str, saved: int) -> None:
        """Notes a published summary."""
        self.passes += 1
        self.saved += saved
        self.summaries.append(summary_id)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a series must stop. ``deadline`` is a `time.monotonic` value; ``alive`` renews the lease."""

    max_passes: int
    deadline: float
    alive: Callable[[], bool] = lambda: True

    def stop(self, progress: Progress) -> Reason | None:
        """Why no further pass may start; None when one may."""
        if progress.passes >= self.max_passes or time.monotonic() >= self.deadline:
            return Reason.DEFERRED
        return None if self.alive() else Reason.CANCELLED


class Sweeper:
    """Runs series of passes."""

    def __init__(self, store: Store, passes: PassRunner) -> None:
        self._store = store
        self._passes = passes

    def incremental(self, conversation_id: int, limits: Limits, bounds: Bounds, progress: Progress) -> None:
        """One leaf pass, then one condensation per depth while the depth below was condensed."""
        run = _Run(self, conversation_id, limits, bounds, progress, "incremental")
        if not run.leaf():
            return
        depth = 0
        while limits.incremental_depth < 0 or depth < limits.incremental_depth:
            if not run.condense(range(depth, depth + 1)):
                return
            depth += 1

    def sweep(
        self,
        conversation_id: int,
        limits: Limits,
        bounds: Bounds,
        progress: Progress,
        *,
        forced: bool = False,
        emergency: bool = False,
    ) -> None:
        """Leaf passes until none is eligible, then condensations until none is eligible."""
        reason = "emergency" if emergency else "manual" if forced else "threshold"
        run = _Run(self, conversation_id, limits, bounds, progress, reason, forced or emergency, emergency)
        while run.leaf():
            pass
        while run.condense(None):
            pass


class _Run:
    """The state of one series."""

    def __init__(
        self,
        sweeper: Sweeper,
        conversation_id: int,
        limits: Limits,
        bounds: Bounds,
        progress: Progress,
        reason: str,
        forced: bool = False,
        emergency: bool = False,
    ) -> None:
        self._store = sweeper._store
        self._passes = sweeper._passes
        self._conversation_id = conversation_id
        self._limits = limits
        self._bounds = bounds
        self._progress = progress
        self._reason = reason
        self._forced = forced
        self._emergency = emergency
        self._skip_before = 0

    def leaf(self) -> bool:
        """One leaf pass; chunks that cannot shrink are passed over. False when there is no more."""
        return self._step(self._choose_leaf, self._limits.leaf_target)

    def condense(self, depths: range | None) -> bool:
        """One condensation; False when none is eligible or it did not shrink the context."""
        return self._step(
            lambda reader, tail: self._choose_condensation(reader, tail, depths),
            self._limits.condensed_target,
        )

    def _step(self, choose: Callable[[Reader, Tail], Chunk | None], target: int) -> bool:
        conflicts = 0
        while True:
            if (stop := self._bounds.stop(self._progress)) is not None:
                self._progress.stopped = stop
                return False
            conversation, chunk = self._select(choose)
            if conversation is None or chunk is None:
                return False
            try:
                result = self._passes.run(
                    conversation,
                    chunk,
                    target_tokens=target,
                    reason=self._reason,
                    forced=self._forced,
                    deadline=self._bounds.deadline,
                )
            except StoreConflict:
                conflicts += 1
                if conflicts > _CONFLICT_RETRIES:
                    self._progress.stopped = Reason.DEFERRED
                    return False
                continue
            if result.summary_id is not None:
                self._progress.add(result.summary_id, result.saved)
                return True
            if chunk.depth > 0:
                return False
            self._skip_before = chunk.end

    def _select(
        self, choose: Callable[[Reader, Tail], Chunk | None]
    ) -> tuple[Conversation | None, Chunk | None]:
        with self._store.read() as reader:
            conversation = reader.conversation(self._conversation_id)
            if conversation is None or not conversation.active:
                return None, None
            return conversation, choose(reader, self._tail(reader))

    def _tail(self, reader: Reader) -> Tail:
        limits = self._limits
        return fresh_tail(
            reader,
            self._conversation_id,
            count=limits.tail_count,
            max_tokens=limits.yielding_tokens if self._emergency else limits.tail_tokens,
            yields=self._emergency,
        )

    def _choose_leaf(self, reader: Reader, tail: Tail) -> Chunk | None:
        limits = self._limits
        return leaf_chunk(
            reader,
            self._conversation_id,
            tail,
            chunk_tokens=limits.chunk_tokens,
            min_fanout=limits.emergency_leaf_fanout if self._emergency else limits.leaf_fanout,
            after=self._skip_before,
        )

    def _choose_condensation(self, reader: Reader, tail: Tail, depths: range | None) -> Chunk | None:
        limits = self._limits
        return condensation_chunk(
            reader,
            self._conversation_id,
            tail,
            chunk_tokens=limits.chunk_tokens,
            min_tokens=0 if self._emergency else limits.min_condensed_tokens,
            min_fanout=limits.fanout_hard if self._emergency else limits.fanout,
            depths=depths,
            with_fallbacks=self._emergency,
        )
