"""How our token counts compare with a provider's own.

After a model call a host may report what the provider counted. Per model, these counts and our estimates of
the same calls are added up, older ones fading, so that large calls weigh more than small ones. The quotient
is kept within `LEAST` and `MOST`: a host that does not tell its overhead, or a proxy that counts otherwise,
must not turn a small conversation into a huge one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

LEAST, MOST = 0.5, 3.0
UNCONFIRMED_MARGIN, LEAST_MARGIN = 0.02, 0.005
_SMALLEST_ESTIMATE = 1_000
_FADE = 0.8
_SAVED_AGAIN_AT = 0.02
_OVERFLOW_STEP = 1.15
_REMEMBERED_CALLS = 512
_CONFIRMED_SAMPLES = 3


class States(Protocol):
    """Where what was learned is kept, so that it survives a restart."""

    def load_guard(self, key: str) -> dict[str, Any] | None:
        """The state saved under a key, or None."""

    def save_guard(self, key: str, state: dict[str, Any]) -> None:
        """Replaces the state under a key."""


@dataclass(frozen=True, slots=True)
class SentContext:
    """A context as it was handed to a host: our count of it, and the seq of the next message to come."""

    tokens: int
    next_seq: int


@dataclass(slots=True)
class _Tally:
    observed: float = 0.0
    estimated: float = 0.0
    samples: int = 0
    deviation: float = 0.0
    saved: float = 1.0

    @property
    def factor(self) -> float:
        return _clamp(self.observed / self.estimated) if self.estimated else 1.0


class Calibration:
    """Learns, per model, how many tokens a provider counts for one of ours. Thread-safe."""

    def __init__(self, states: States) -> None:
        self._states = states
        self._lock = threading.Lock()
        self._tallies: dict[str, _Tally] = {}
        self._sent: OrderedDict[int, SentContext] = OrderedDict()

    def factor(self, model: str | None = None) -> float:
        """Provider tokens for one of ours, 0.5 to 3; 1 as long as nothing is known."""
        with self._lock:
            return self._tally(model).factor

    def margin(self, model: str | None = None) -> float:
        """The share of a budget to leave free: smaller the better the provider's counts confirmed ours."""
        with self._lock:
            tally = self._tally(model)
            if tally.samples < _CONFIRMED_SAMPLES:
                return UNCONFIRMED_MARGIN
            return min(2 * UNCONFIRMED_MARGIN, max(LEAST_MARGIN, 2 * tally.deviation))

    def room(self, budget: int, overhead: int = 0, model: str | None = None) -> int:
        """How many tokens of ours a context may have so that the provider's count stays within a budget."""
        scale = max(1.0, self.factor(model))
        return max(0, int(budget * (1 - self.margin(model)) / scale) - overhead)

    def sent(self, conversation_id: int, context: SentContext) -> None:
        """Notes the context that the next model call of a conversation gets."""
        with self._lock:
            self._sent[conversation_id] = context
            self._sent.move_to_end(conversation_id)
            while len(self._sent) > _REMEMBERED_CALLS:
                self._sent.popitem(last=False)

    def last_sent(self, conversation_id: int) -> SentContext | None:
        """The context that was handed out last, or None."""
        with self._lock:
            return self._sent.get(conversation_id)

    def observe(self, model: str | None, estimated: int, observed: int) -> float:
        """Compares one call's counts and returns the factor from now on."""
        if estimated < _SMALLEST_ESTIMATE or observed <= 0:
            return self.factor(model)
        ratio = _clamp(observed / estimated)

        def add(tally: _Tally) -> None:
            if tally.samples:
                off = abs(ratio / tally.factor - 1)
                tally.deviation = _FADE * tally.deviation + (1 - _FADE) * off
            tally.observed = _FADE * tally.observed + ratio * estimated
            tally.estimated = _FADE * tally.estimated + estimated
            tally.samples += 1

        return self._change(model, add)

    def overflowed(self, model: str | None, estimated: int, window: int) -> float:
        """A provider refused a call as too long: it counts at least as much as its window holds."""
        least = _clamp(max(self.factor(model) * _OVERFLOW_STEP, window / max(1, estimated)))

        def raise_to_least(tally: _Tally) -> None:
            tally.estimated = max(tally.estimated, float(estimated), float(_SMALLEST_ESTIMATE))
            tally.observed = least * tally.estimated

        return self._change(model, raise_to_least)

    def _change(self, model: str | None, change: Callable[[_Tally], None]) -> float:
        with self._lock:
            tally = self._tally(model)
            change(tally)
            factor = tally.factor
            save = abs(factor / tally.saved - 1) > _SAVED_AGAIN_AT
            if save:
                tally.saved = factor
            state = {
                "observed": round(tally.observed),
                "estimated": round(tally.estimated),
                "samples": tally.samples,
                "deviation": round(tally.deviation, 4),
            }
        if save:
            self._states.save_guard(_key(model), state)
        return factor

    def _tally(self, model: str | None) -> _Tally:
        name = model or ""
        if name not in self._tallies:
            state = self._states.load_guard(_key(model)) or {}
            tally = _Tally(
                float(state.get("observed", 0)),
                float(state.get("estimated", 0)),
                int(state.get("samples", 0)),
                float(state.get("deviation", 0.0)),
            )
            tally.saved = tally.factor
            self._tallies[name] = tally
        return self._tallies[name]


def _key(model: str | None) -> str:
    return f"tokens:{model or ''}"


def _clamp(value: float) -> float:
    return min(MOST, max(LEAST, value))
