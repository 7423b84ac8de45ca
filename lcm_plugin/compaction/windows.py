"""What a model really takes, learned from the calls that its provider refused and answered.

Two things are kept per model. A *limit* that a provider named in an error is believed: no context is assembled
above it. When an error names none, the size of the refused call is all that is known: contexts stay below a
*ceiling* under it, which rises again, half the way to the refused size at a time, as calls near it are answered.

`Budgets` joins that with what the host gives and the settings allow: it owns how many tokens a call may have.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass

from lcm_plugin.compaction.calibration import States
from lcm_plugin.compaction.overflow import Refusal
from lcm_plugin.compaction.policy import Call
from lcm_plugin.config import DEFAULT_BUDGET, LcmConfig
from lcm_plugin.errors import InputError
from lcm_plugin.events import EventBus

_STEP = 0.8
_FITTED = 0.97
_NEAR = 0.8
_GROWN = 1.05
_SHORT = 512
_LIMIT_KEPT_MS = 7 * 86_400_000
_CEILING_KEPT_MS = 86_400_000


@dataclass(slots=True)
class _Window:
    """``limit`` is in the provider's tokens; ``refused``, ``answered`` and ``ceiling`` are in ours. 0: not known.

    ``given`` is the window that the host had named when the limit was learned.
    """

    limit: int = 0
    given: int = 0
    limit_at: int = 0
    ceiling: int = 0
    refused: int = 0
    ceiling_at: int = 0
    answered: int = 0


class Windows:
    """Learns, per model, how long a call may be. Thread-safe."""

    def __init__(self, states: States, clock: Callable[[], int]) -> None:
        self._states = states
        self._clock = clock
        self._lock = threading.Lock()
        self._windows: dict[str, _Window] = {}

    def limit(self, model: str | None, given: int | None) -> int | None:
        """The limit that the model's provider named, in its tokens. None once the host names a larger window."""
        with self._lock:
            known = self._window(model)
            if not known.limit or self._clock() > known.limit_at + _LIMIT_KEPT_MS:
                return None
            return None if (given or DEFAULT_BUDGET) > _GROWN * known.given else known.limit

    def ceiling(self, model: str | None) -> int | None:
        """How many of our tokens a call may have, overhead included, after refusals that named no limit."""
        with self._lock:
            known = self._window(model)
            fresh = self._clock() <= known.ceiling_at + _CEILING_KEPT_MS
            return known.ceiling if known.ceiling and fresh else None

    def refused(self, model: str | None, tokens: int, refusal: Refusal, given: int | None) -> None:
        """A call of ``tokens``, as we count, was refused."""
        with self._lock:
            known = self._window(model)
            if refusal.limit:
                known.limit, known.given = refusal.limit, given or DEFAULT_BUDGET
                known.limit_at = self._clock()
            if (known.ceiling and tokens > known.ceiling) or tokens < _SHORT:
                # The context could not be made shorter: what is refused is not in the history.
                known.ceiling = known.refused = 0
            elif refusal.limit is None or refusal.prompt or tokens <= refusal.limit:
                _lower(known, tokens, refusal)
                known.ceiling_at = self._clock()
            state = asdict(known)
        self._states.save_guard(_key(model), state)

    def took(self, model: str | None, tokens: int, counted: int) -> None:
        """A call of ``tokens``, as we count, and ``counted``, as the provider does, was answered."""
        with self._lock:
            known = self._window(model)
            known.answered = max(known.answered, tokens)
            before = (known.limit, known.ceiling)
            if known.limit and counted > known.limit:
                known.limit = 0
            if known.ceiling and tokens >= known.refused:
                known.ceiling = known.refused = 0
            elif known.ceiling and tokens >= _NEAR * known.ceiling:
                known.ceiling = max(known.ceiling, int((known.ceiling + _FITTED * known.refused) / 2))
            changed, state = before != (known.limit, known.ceiling), asdict(known)
        if changed:
            self._states.save_guard(_key(model), state)

    def _window(self, model: str | None) -> _Window:
        name = model or ""
        if name not in self._windows:
            self._windows[name] = _Window(**(self._states.load_guard(_key(model)) or {}))
        return self._windows[name]


class Budgets:
    """How many tokens a model call may have. Thread-safe."""

    def __init__(self, config: LcmConfig, windows: Windows, events: EventBus) -> None:
        self._config = config
        self._windows = windows
        self._events = events
        self._assumed: set[str | None] = set()

    def total(self, budget: int | None, model: str | None) -> int:
        """What the host gives or the default, at most what the settings and the model's provider allow.

        Raises `InputError` for a budget below 1.
        """
        if budget is not None and budget < 1:
            raise InputError(f"a budget must be at least 1 token, not {budget}")
        limit, total = self._windows.limit(model, budget), self._config.budget(budget)
        return total if limit is None else min(total, limit)

    def capped(self, budget: int | None, model: str | None) -> int:
        """The same, at most the ceiling that refusals without a limit left."""
        ceiling, total = self._windows.ceiling(model), self.total(budget, model)
        return total if ceiling is None else min(total, ceiling)

    def room(self, budget: int | None, overhead: int, model: str | None) -> int:
        """How many tokens a context may have: the same less the host's overhead."""
        return max(0, self.capped(budget, model) - overhead)

    def call(
        self,
        budget: int | None,
        overhead: int,
        model: str | None,
        window: int | None,
        focus: str = "",
        shown: int | None = None,
    ) -> Call:
        """The model call that a host asks a context for."""
        return Call(self.capped(budget, model), overhead, model, window, focus, shown)

    def source(self, call: Call) -> str:
        """Who names how long a call may be: ``provider``, ``settings``, ``host`` or ``nobody``."""
        if self._windows.limit(call.model, call.window) or self._windows.ceiling(call.model):
            return "provider"
        if self._config.max_assembly_token_budget:
            return "settings"
        return "host" if call.window else "nobody"

    def note_assumed(self, model: str | None) -> None:
        """The host names no window: warns once per model that the default is assumed, unless something else caps it."""
        if (
            model in self._assumed
            or self._config.max_assembly_token_budget
            or self._windows.limit(model, None)
        ):
            return
        self._assumed.add(model)
        self._events.emit(
            "turn.window_assumed", level=logging.WARNING, model=model, window=self.total(None, model)
        )


def _lower(known: _Window, tokens: int, refusal: Refusal) -> None:
    """Puts the ceiling below a refused size: as far as the provider's own count says, else by a fifth.

    What was answered before is not given up, unless the refused call was no larger.
    """
    if known.answered >= tokens:
        known.answered = 0
    if refusal.limit and refusal.prompt:
        ceiling = min(int(_FITTED * tokens * refusal.limit / refusal.prompt), int(_FITTED * tokens))
    else:
        ceiling = max(int(_STEP * tokens), min(known.answered, int(_FITTED * tokens)))
    known.refused, known.ceiling = tokens, max(1, ceiling)


def _key(model: str | None) -> str:
    return f"window:{model or ''}"
