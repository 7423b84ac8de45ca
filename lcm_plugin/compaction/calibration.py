"""How a provider's token counts compare with ours.

After a model call a host may report what the provider counted. That count is compared with what was really
sent in that call: the assembled context and the overhead that the host named for it. From several calls of one
conversation two things are told apart: the *factor*, how many tokens the provider counts for one of ours, and
the *hidden* tokens, which the provider counts in every call although nobody named them (a system prompt, tools).
The factor comes only from how the counts grow while the talk grows; what stays the same is hidden overhead.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

from lcm_plugin.lru import LruCache
from lcm_plugin.types import Sent

LEAST, MOST = 0.5, 3.0
"""Bounds of the factor: no provider's vocabulary is further away from ours."""
UNCONFIRMED_MARGIN, LEAST_MARGIN = 0.02, 0.005

_SAMPLES = 128
_NEIGHBOURS = 8
_LEAST_PAIRS = 6
_LEAST_GROWTH = 2_000
_HIDDEN_FROM = 8
_LEAST_CONFIRMED = 3
_NEWS = 0.02
_SAVED_AFTER = 16
_REMEMBERED_CALLS = 512


class States(Protocol):
    """Where what was learned is kept, so that it survives a restart."""

    def load_guard(self, key: str) -> dict[str, Any] | None:
        """The state saved under a key, or None."""

    def save_guard(self, key: str, state: dict[str, Any]) -> None:
        """Replaces the state under a key."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One answered call: our count of all that was sent, and the provider's. ``lane`` is the conversation.

    ``overhead`` is the part of ours that the host named.
    """

    lane: int
    ours: int
    counted: int
    overhead: int = 0
    images: int = 0

    @property
    def most(self) -> float:
        """The largest factor that this call alone allows: its overhead counted no less than the host named."""
        talk = self.ours - self.overhead
        return max(self.counted / self.ours, (self.counted - self.overhead) / talk if talk > 0 else 0.0)


@dataclass(frozen=True, slots=True)
class Fit:
    """What samples say. ``deviation`` is a share of a count.

    ``hidden`` is, per lane and in the provider's tokens, what a call costs beyond our count times the factor; less
    than 0 where the overhead that the host named is in the provider's tokens already.
    """

    factor: float = 1.0
    hidden: dict[int, int] = field(default_factory=dict)
    deviation: float | None = None


def fit(samples: Sequence[Sample]) -> Fit:
    """The factor nearest to 1 that the inner half of the evidence supports, and what it leaves unexplained.

    The evidence are the slopes between two calls of one conversation with the same images, weighted by how
    much the talk grew between them. Fewer than 6 of them, or 2,000 tokens of growth in all, say nothing.
    """
    lanes: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        lanes[sample.lane].append(sample)
    factor = _factor([slope for lane in lanes.values() for slope in _slopes(lane)])
    if factor > 1:
        factor = max(1.0, min(factor, median(one.most for one in samples)))
    hidden, off = {}, []
    for number, lane in lanes.items():
        newest = lane[-_HIDDEN_FROM:]
        left = [one.counted - factor * one.ours for one in newest]
        constant = 0
        if len(left) >= _LEAST_CONFIRMED:
            named = min(one.overhead for one in newest)
            constant = int(max(-max(0.0, factor - 1) * named, median(left)))
        if constant:
            hidden[number] = constant
        off += [abs(rest - constant) / one.counted for rest, one in zip(left, newest, strict=True)]
    return Fit(factor, hidden, median(off) if len(off) >= _LEAST_CONFIRMED else None)


def _slopes(lane: Sequence[Sample]) -> Iterable[tuple[float, int]]:
    """Slopes with their weights."""
    for place, newer in enumerate(lane):
        for older in lane[max(0, place - _NEIGHBOURS) : place]:
            growth = newer.ours - older.ours
            if growth and newer.images == older.images:
                yield _clamp((newer.counted - older.counted) / growth), abs(growth)


def _factor(slopes: list[tuple[float, int]]) -> float:
    whole = sum(weight for _, weight in slopes)
    if len(slopes) < _LEAST_PAIRS or whole < _LEAST_GROWTH:
        return 1.0
    slopes.sort()
    low, high = _quantile(slopes, whole / 4), _quantile(slopes, whole * 3 / 4)
    return low if low > 1 else min(high, 1.0)


def _quantile(ordered: Sequence[tuple[float, int]], mass: float) -> float:
    passed = 0
    for value, weight in ordered:
        passed += weight
        if passed >= mass:
            return value
    return ordered[-1][0]


class _Model:
    """The newest samples of one model and their fit."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self.samples: deque[Sample] = deque(samples, maxlen=_SAMPLES)
        self.fit = fit(self.samples_list)
        self.unsaved = 0

    @property
    def samples_list(self) -> list[Sample]:
        return list(self.samples)

    def add(self, sample: Sample) -> bool:
        """Takes a sample; True when it should be saved: nearly always at first, later when it is news."""
        expected = self.fit.factor * sample.ours + self.fit.hidden.get(sample.lane, 0)
        self.samples.append(sample)
        self.fit = fit(self.samples_list)
        self.unsaved += 1
        news = abs(expected / sample.counted - 1) > _NEWS or len(self.samples) <= _SAVED_AFTER
        if news or self.unsaved >= _SAVED_AFTER:
            self.unsaved = 0
        return self.unsaved == 0


class Calibration:
    """Learns, per model, how the provider counts. Thread-safe."""

    def __init__(self, states: States) -> None:
        self._states = states
        self._lock = threading.Lock()
        self._models: dict[str, _Model] = {}
        self._sent: LruCache[int, Sent] = LruCache(_REMEMBERED_CALLS)

    def factor(self, model: str | None = None) -> float:
        """Provider tokens for one of ours, 0.5 to 3; 1 as long as nothing is known."""
        with self._lock:
            return self._model(model).fit.factor

    def samples(self, model: str | None = None) -> int:
        """From how many calls the factor was learned."""
        with self._lock:
            return len(self._model(model).samples)

    def hidden(self, model: str | None = None, conversation_id: int | None = None) -> int:
        """Tokens of ours that a conversation's calls cost beyond what was named; may be less than 0."""
        with self._lock:
            known = self._model(model).fit
            hidden = known.hidden.get(conversation_id, 0) if conversation_id is not None else 0
            return int(hidden / max(1.0, known.factor))

    def margin(self, model: str | None = None) -> float:
        """The share of a budget to leave free: smaller the better the provider's counts confirmed ours."""
        with self._lock:
            deviation = self._model(model).fit.deviation
            if deviation is None:
                return UNCONFIRMED_MARGIN
            return min(2 * UNCONFIRMED_MARGIN, max(LEAST_MARGIN, 2 * deviation))

    def room(
        self,
        budget: int,
        overhead: int = 0,
        model: str | None = None,
        conversation_id: int | None = None,
    ) -> int:
        """How many tokens of ours a context may have so that the provider's count stays within a budget."""
        scale = max(1.0, self.factor(model))
        free = int(budget * (1 - self.margin(model)) / scale)
        return max(0, free - overhead - self.hidden(model, conversation_id))

    def sent(self, conversation_id: int, sent: Sent) -> None:
        """Notes what the next model call of a conversation gets."""
        self._sent.put(conversation_id, sent)

    def last_sent(self, conversation_id: int) -> Sent | None:
        """What the newest model call of a conversation got, or None."""
        return self._sent.get(conversation_id)

    def observe(self, model: str | None, sample: Sample) -> float:
        """Takes one call's counts and returns the factor from now on."""
        if sample.ours <= 0 or sample.counted <= 0:
            return self.factor(model)
        with self._lock:
            known = self._model(model)
            save = known.add(sample)
            factor = known.fit.factor
            rows = [[one.lane, one.ours, one.counted, one.overhead, one.images] for one in known.samples]
        if save:
            self._states.save_guard(_key(model), {"samples": rows})
        return factor

    def _model(self, model: str | None) -> _Model:
        name = model or ""
        if name not in self._models:
            state = self._states.load_guard(_key(model)) or {}
            self._models[name] = _Model(Sample(*row) for row in state.get("samples", ()))
        return self._models[name]


def _key(model: str | None) -> str:
    return f"counts:{model or ''}"


def _clamp(value: float) -> float:
    return min(MOST, max(LEAST, value))
