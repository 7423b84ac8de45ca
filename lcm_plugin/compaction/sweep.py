"""Series of passes over one conversation: incremental after a turn, a sweep under pressure.

A sweep runs leaf passes until none is eligible, then condensations, shallowest depth first, until none is
eligible or one does not shrink the context. A series is bounded in time and in passes that call a model, and
the next one picks up where it stopped.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from lcm_plugin.compaction.chunks import (
    Chunk,
    CondensationRule,
    Frontier,
    IncompressibleChunks,
    leaf_chunk,
    raw_tokens_outside,
)
from lcm_plugin.compaction.passes import PassRequest, PassResult, PassRunner
from lcm_plugin.compaction.policy import Limits, can_wait
from lcm_plugin.compaction.tail import Tail, TailBounds, fresh_tail
from lcm_plugin.errors import StoreConflict
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import Conversation, Item
from lcm_plugin.summarize.base import SummaryDraft
from lcm_plugin.types import Reason

_RETRIES = 3
# What is extracted for want of a model's answer makes room for so many turns as the last ones were.
_AIR_TURNS = 4
_AIR_MESSAGES = 256
_MOST_AIR_SHARE = 0.5
# A model that is down may answer tomorrow; one that never does must not fill the context with leaves.
_FALLBACKS_WAIT_UP_TO = 2


@dataclass(slots=True)
class Progress:
    """What a series of passes has done so far. ``tried`` counts passes, the vain ones too, ``fallbacks`` the causes
    for which summaries were extracted, ``cleared`` the results that were cleared before.

    ``spent_until`` is set when what is left waits for the session's next summary calls: milliseconds since
    the epoch.
    """

    passes: int = 0
    tried: int = 0
    saved: int = 0
    cleared: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter)
    summaries: list[str] = field(default_factory=list)
    stopped: Reason | None = None
    spent_until: int = 0

    def add(self, node: Item, saved: int, fallback_cause: str) -> None:
        """Notes a published summary."""
        self.passes += 1
        self.saved += saved
        if fallback_cause:
            self.fallbacks[fallback_cause] += 1
        self.summaries.append(str(node.summary_id))


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a series must stop.

    ``deadline`` is a `time.monotonic` value after which no pass starts; one that has started may take
    ``pass_seconds``, of its source's tokens. ``alive`` is False once the work was cancelled or its lease
    lost. ``spent_until`` is when a session may call a model again; 0 when it may now.
    """

    max_passes: int
    deadline: float
    pass_seconds: Callable[[int], float]
    alive: Callable[[], bool] = lambda: True
    spent_until: Callable[[str], int] = lambda scope: 0

    def stop(self, progress: Progress) -> Reason | None:
        """Why no further pass may start; None when one may."""
        if not self.alive():
            return Reason.CANCELLED
        if progress.tried >= self.max_passes or time.monotonic() >= self.deadline:
            return Reason.DEFERRED
        return None

    def pass_deadline(self, source_tokens: int) -> float:
        """Until when a pass that starts now may call models."""
        return max(self.deadline, time.monotonic() + self.pass_seconds(source_tokens))


@dataclass(frozen=True, slots=True)
class Pressure:
    """How far a series may go. ``tail_tokens`` is set when the tail yields down to so many tokens.

    ``verbatim`` are the newest tokens that the series leaves alone, whatever the tail holds.
    """

    reason: str
    forced: bool = False
    tail_tokens: int | None = None
    emergency: bool = False
    verbatim: int = 0


class Sweeper:
    """Runs series of passes. Thread-safe."""

    def __init__(self, store: Store, passes: PassRunner, clock: Callable[[], int]) -> None:
        self._store = store
        self._passes = passes
        self._incompressible = IncompressibleChunks(clock)

    def incremental(self, conversation_id: int, limits: Limits, bounds: Bounds, progress: Progress) -> None:
        """Leaf passes, as many as one compaction takes, then one condensation per depth while the depth below was
        condensed.

        Whatever their depth, summaries above the prefix target are condensed in the same go: the beginning
        of the context changes anyway. Those that wait to be written anew are spared for longer. With
        ``incrementalMaxDepth`` 0 nothing is condensed.
        """
        pressure = Pressure("incremental", verbatim=limits.verbatim)
        series = self._series(conversation_id, limits, bounds, progress, pressure)
        if not series.leaf():
            return
        for _ in range(limits.passes - 1):
            if series.raw_outside() < min(limits.chunk_tokens, limits.trigger) or not series.leaf():
                break
        self._condense(series, limits)

    def relieve(self, conversation_id: int, limits: Limits, bounds: Bounds, progress: Progress) -> None:
        """Leaf passes, as many as one compaction takes at a time, until the context is within the soft limit and no
        compaction is due below it; then condensations as after a turn.

        It stops at the first chunk with which that holds, so that what stays word for word depends on the talk
        alone. What is extracted because the summary calls are used up goes on until there is air.
        """
        series = self._series(conversation_id, limits, bounds, progress, Pressure("relief"))
        while series.excess() > 0 or series.raw_outside(limits.verbatim) >= limits.trigger:
            made = sum(series.leaf() for _ in range(limits.passes))
            if not made:
                break
        self._condense(series, limits)

    def _condense(self, series: _Series, limits: Limits) -> None:
        if limits.incremental_depth == 0:
            return
        depth = 0
        while (limits.incremental_depth < 0 or depth < limits.incremental_depth) and series.condense(depth):
            depth += 1
        series.look_again()
        while series.summary_tokens() > limits.prefix_target and series.condense():
            pass
        if series.summary_tokens() > _FALLBACKS_WAIT_UP_TO * limits.prefix_target:
            series.take_fallbacks()
            while series.summary_tokens() > limits.prefix_target and series.condense():
                pass

    def sweep(
        self, conversation_id: int, limits: Limits, bounds: Bounds, progress: Progress, pressure: Pressure
    ) -> None:
        """Leaf passes until none is eligible, then condensations until none is eligible."""
        series = self._series(conversation_id, limits, bounds, progress, pressure)
        while series.leaf():
            pass
        while series.condense():
            pass

    def preview(
        self, conversation_id: int, limits: Limits, bounds: Bounds
    ) -> tuple[Chunk, SummaryDraft] | None:
        """The next leaf of a sweep and its summary, which is not published; None when there is none."""
        series = self._series(conversation_id, limits, bounds, Progress(), Pressure("manual", True))
        return series.preview()

    def _series(
        self, conversation_id: int, limits: Limits, bounds: Bounds, progress: Progress, pressure: Pressure
    ) -> _Series:
        return _Series(
            self._store,
            self._passes,
            self._incompressible,
            conversation_id,
            limits,
            bounds,
            progress,
            pressure,
        )


class _Series:
    """One series: chooses, runs and takes note, pass by pass."""

    def __init__(
        self,
        store: Store,
        passes: PassRunner,
        incompressible: IncompressibleChunks,
        conversation_id: int,
        limits: Limits,
        bounds: Bounds,
        progress: Progress,
        pressure: Pressure,
    ) -> None:
        self._store = store
        self._passes = passes
        self._incompressible = incompressible
        self._conversation_id = conversation_id
        self._limits = limits
        self._bounds = bounds
        self._progress = progress
        self._pressure = pressure
        self._leaves_after = 0
        self._frontier: Frontier | None = None
        self._known_tail: tuple[tuple[int, int], Tail] | None = None
        self._lost_races = 0
        self._with_fallbacks = False
        # Tokens below the soft limit to be made free; set once something cannot wait and no model may be called.
        self._air = 0

    def leaf(self) -> bool:
        """One leaf pass; chunks that cannot shrink are passed over. False when there is no more."""
        return self._step(self._choose_leaf)

    def condense(self, depth: int | None = None) -> bool:
        """One condensation, of one depth or of any; False when none is eligible or it did not shrink."""
        return self._step(lambda reader, tail: self._choose_nodes(reader, tail, depth))

    def preview(self) -> tuple[Chunk, SummaryDraft] | None:
        """The next leaf's chunk and the summary that it would get."""
        chosen = self._choose(self._choose_leaf)
        draft = self._passes.preview(self._request(*chosen)) if chosen else None
        return (chosen[1], draft) if chosen and draft else None

    def take_fallbacks(self) -> None:
        """From now on condenses summaries that wait to be written anew, too."""
        self._with_fallbacks = True
        self.look_again()

    def look_again(self) -> None:
        """Begins the search for condensations anew, at the shallowest depth."""
        self._frontier = None

    def raw_outside(self, verbatim: int = 0) -> int:
        """Raw tokens that the series may touch, without the newest ``verbatim`` ones."""
        with self._store.read() as reader:
            conversation = reader.conversation(self._conversation_id)
            if conversation is None:
                return 0
            outside = raw_tokens_outside(conversation.raw_tokens, self._tail(reader, conversation))
            return min(outside, conversation.raw_tokens - verbatim)

    def excess(self) -> int:
        """Tokens of the context above the soft limit, or above where there is air once the series makes some."""
        with self._store.read() as reader:
            conversation = reader.conversation(self._conversation_id)
            return conversation.context_tokens - self._limits.soft + self._air if conversation else 0

    def summary_tokens(self) -> int:
        """What all summaries outside the tail cost in the context."""
        with self._store.read() as reader:
            conversation = reader.conversation(self._conversation_id)
            if conversation is None:
                return 0
            return self._read_frontier(reader, self._tail(reader, conversation)).tokens

    def _step(self, choose: Callable[[Reader, Tail], Chunk | None]) -> bool:
        while (chosen := self._choose(choose)) is not None:
            conversation, chunk = chosen
            self._progress.tried += 1
            try:
                result = self._passes.run(self._request(conversation, chunk))
            except StoreConflict:
                self._lose_race()
                continue
            if self._note(chunk, result):
                return True
            if chunk.depth > 0:
                return False
        return False

    def _request(self, conversation: Conversation, chunk: Chunk) -> PassRequest:
        return PassRequest(
            conversation,
            chunk,
            self._limits.target(chunk.depth),
            self._pressure.reason,
            self._pressure.forced,
            self._bounds.pass_deadline(chunk.tokens),
            self._limits.call.focus,
        )

    def _choose(self, choose: Callable[[Reader, Tail], Chunk | None]) -> tuple[Conversation, Chunk] | None:
        """The conversation as it stands and its next chunk; None when there is none or the series ends."""
        if self._progress.stopped is None:
            self._progress.stopped = self._bounds.stop(self._progress)
        if self._progress.stopped is not None:
            return None
        with self._store.read() as reader:
            conversation = reader.conversation(self._conversation_id)
            if conversation is None or not conversation.active or self._is_spent(reader, conversation):
                return None
            self._with_fallbacks |= conversation.context_tokens > self._limits.soft
            chunk = choose(reader, self._tail(reader, conversation))
        return None if chunk is None else (conversation, chunk)

    def _is_spent(self, reader: Reader, conversation: Conversation) -> bool:
        """Whether this can wait until a model may be called again, rather than be done without one now.

        Once something is done without one it goes on until there is air, so that not each of the next turns
        brings another extraction and another beginning of the context.
        """
        if self._pressure.forced:
            return False
        spent_until = self._bounds.spent_until(conversation.session_key)
        if not spent_until:
            return False
        if not self._air and not can_wait(conversation, self._limits):
            grown = recent_growth(reader, self._conversation_id, _AIR_TURNS)
            self._air = min(grown, int(self._limits.soft * _MOST_AIR_SHARE))
        if not can_wait(conversation, self._limits, growth=self._air):
            return False
        self._progress.spent_until = spent_until
        return True

    def _note(self, chunk: Chunk, result: PassResult) -> bool:
        self._lost_races = 0
        if chunk.depth == 0:
            self._leaves_after = chunk.end
        if result.node is None:
            if self._bounds.alive():
                self._incompressible.add(self._conversation_id, chunk)
            return False
        self._progress.add(result.node, result.saved, result.fallback_cause)
        if chunk.depth == 0:
            self._frontier = None
        elif self._frontier is not None:
            self._frontier.replace(chunk, result.node)
        return True

    def _lose_race(self) -> None:
        """The context changed while a pass was running: choose again, but not for ever."""
        self._frontier = None
        self._leaves_after = 0
        self._lost_races += 1
        if self._lost_races > _RETRIES:
            self._progress.stopped = Reason.DEFERRED

    def _tail(self, reader: Reader, conversation: Conversation) -> Tail:
        """The tail, looked for again only when a message has come or somebody else changed the context."""
        state = (conversation.next_seq, conversation.revision - self._progress.passes)
        if self._known_tail is None or self._known_tail[0] != state:
            limits, tokens = self._limits, self._pressure.tail_tokens
            most = limits.tail_tokens if tokens is None else tokens
            bounds = TailBounds(limits.tail_count, most, self._pressure.verbatim)
            tail = fresh_tail(reader, self._conversation_id, bounds, yields=tokens is not None)
            self._known_tail = (state, tail)
        return self._known_tail[1]

    def _choose_leaf(self, reader: Reader, tail: Tail) -> Chunk | None:
        limits = self._limits
        while True:
            chunk = leaf_chunk(
                reader,
                self._conversation_id,
                tail,
                chunk_tokens=limits.chunk_tokens,
                min_fanout=limits.emergency_leaf_fanout if self._pressure.emergency else limits.leaf_fanout,
                rich_tokens=limits.rich_tokens,
                after=self._leaves_after,
            )
            if chunk is None or not self._is_vain(chunk):
                return chunk
            self._leaves_after = chunk.end

    def _choose_nodes(self, reader: Reader, tail: Tail, depth: int | None) -> Chunk | None:
        limits, emergency = self._limits, self._pressure.emergency
        rule = CondensationRule(
            chunk_tokens=limits.chunk_tokens,
            min_tokens=0 if emergency else limits.min_condensed_tokens,
            min_fanout=limits.fanout_hard if emergency else limits.fanout,
            with_fallbacks=emergency or self._with_fallbacks,
        )
        frontier = self._read_frontier(reader, tail)
        chunk = frontier.next_chunk(rule) if depth is None else frontier.chunk_at(depth, rule)
        return None if chunk is None or self._is_vain(chunk) else chunk

    def _read_frontier(self, reader: Reader, tail: Tail) -> Frontier:
        if self._frontier is None:
            self._frontier = Frontier.read(reader, self._conversation_id, tail)
        return self._frontier

    def _is_vain(self, chunk: Chunk) -> bool:
        return not self._pressure.forced and self._incompressible.holds(self._conversation_id, chunk)


def recent_growth(reader: Reader, conversation_id: int, turns: int) -> int:
    """Tokens of the newest messages, back to the user's one with which the last ``turns`` turns began."""
    heads = reader.heads(conversation_id, limit=_AIR_MESSAGES)
    grown = begun = 0
    for head in reversed(heads):
        grown += head.tokens
        begun += head.speaks
        if begun == turns:
            break
    return grown
