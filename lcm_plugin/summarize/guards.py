"""The circuit breaker and the spend guard, which stop repeated calls of a broken or expensive model.

A circuit breaker per (provider, model) and a spend guard per session key. Their state is a small JSON
object each, saved after every change, so that a restart does not forget it; other processes on the same
store see it at their next call. Times are the engine clock's milliseconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import ModelAuthError, ModelError, ModelRateLimited
from lcm_plugin.summarize.base import GuardStore

FAILURES_TO_OPEN = 3
FIRST_PAUSE_MS = 60_000
AUTH_PAUSE_MS = 600_000
LONGEST_PAUSE_MS = 1_800_000
FORCED_CALLS = 4


class MemoryGuards:
    """Guard state of one process, for an engine without a store to keep it in."""

    def __init__(self) -> None:
        self._states: dict[str, dict[str, Any]] = {}

    def load_guard(self, key: str) -> dict[str, Any] | None:
        """The state saved under a key, or None."""
        return self._states.get(key)

    def save_guard(self, key: str, state: dict[str, Any]) -> None:
        """Replaces the state under a key."""
        self._states[key] = state


class CircuitBreaker:
    """Keeps calls away from a model that fails.

    Closed at first. Three failures in a row open it for a minute, credentials refused for ten at
    once; each further failure doubles the pause up to half an hour. After the pause one call is let
    through: its success closes the breaker, its failure opens it again.
    """

    def __init__(self, guards: GuardStore, clock: Callable[[], int]) -> None:
        self._guards = guards
        self._clock = clock
        self._lock = threading.Lock()
        self._closed: set[str] = set()

    def allows(self, provider: str, model: str) -> bool:
        """Whether a call may be tried now; letting one through after a pause counts as its trial."""
        with self._lock:
            key, state = self._load(provider, model)
            if not state["open_until"]:
                (self._closed.discard if state["failures"] else self._closed.add)(key)
                return True
            now = self._clock()
            if now < state["open_until"]:
                return False
            self._guards.save_guard(key, {**state, "open_until": now + FIRST_PAUSE_MS})
            return True

    def succeeded(self, provider: str, model: str) -> None:
        """Closes the breaker; one that was closed and without failures before the call needs no look."""
        with self._lock:
            if _breaker_key(provider, model) in self._closed:
                return
            key, state = self._load(provider, model)
            if state["failures"] or state["open_until"]:
                self._guards.save_guard(key, {"failures": 0, "open_until": 0, "pause": 0, "reason": ""})

    def failed(self, provider: str, model: str, error: ModelError) -> bool:
        """Counts a failure; returns whether the breaker is open now."""
        with self._lock:
            key, state = self._load(provider, model)
            self._closed.discard(key)
            failures = state["failures"] + 1
            auth = isinstance(error, ModelAuthError)
            opens = auth or failures >= FAILURES_TO_OPEN or state["pause"] > 0
            pause = open_until = 0
            if opens:
                first = AUTH_PAUSE_MS if auth else FIRST_PAUSE_MS
                pause = min(max(first, state["pause"] * 2), LONGEST_PAUSE_MS)
                wait = error.retry_after if isinstance(error, ModelRateLimited) else None
                open_until = self._clock() + max(pause, min(int((wait or 0) * 1_000), LONGEST_PAUSE_MS))
            reason = type(error).__name__
            self._guards.save_guard(
                key, {"failures": failures, "open_until": open_until, "pause": pause, "reason": reason}
            )
            return opens

    def state(self, provider: str, model: str) -> dict[str, Any]:
        """Failures in a row, when the pause ends (0: closed), its length, and the last failure's kind."""
        return self._load(provider, model)[1]

    def _load(self, provider: str, model: str) -> tuple[str, dict[str, Any]]:
        key = _breaker_key(provider, model)
        empty = {"failures": 0, "open_until": 0, "pause": 0, "reason": ""}
        return key, empty | (self._guards.load_guard(key) or {})


def _breaker_key(provider: str, model: str) -> str:
    return f"breaker:{provider}:{model}"


class SpendGuard:
    """Bounds the cost of the summary calls of one session key.

    In a window of ``summary_call_window_ms`` at most ``summary_max_calls_per_window`` calls, and calls for about
    ``summary_max_tokens_per_window`` tokens of prompt and answer: a call is made while that many are not used up.
    Using either up pauses the key: until the window ends when an accepted summary came out of it, else for
    ``summary_spend_backoff_ms``. An accepted summary ends a pause. Forced work passes, with four calls more a window.
    """

    def __init__(self, guards: GuardStore, config: LcmConfig, clock: Callable[[], int]) -> None:
        self._guards = guards
        self._config = config
        self._clock = clock
        self._lock = threading.Lock()

    def take(self, scope: str, forced: bool = False, tokens: int = 0) -> bool:
        """Counts one call of about ``tokens`` (prompt and answer) if it may be made, and returns whether it may."""
        with self._lock:
            state, now = self._load(scope), self._clock()
            used_up = self._is_used_up(state)
            if forced:
                if used_up and state["forced"] >= FORCED_CALLS:
                    return False
                self._count(scope, state, "forced" if used_up else "calls", tokens)
                return True
            if now < state["paused_until"]:
                return False
            if used_up:
                window_end = state["window_start"] + self._config.summary_call_window_ms
                pause_end = now + self._config.summary_spend_backoff_ms
                self._save(scope, {**state, "paused_until": window_end if state["accepted"] else pause_end})
                return False
            self._count(scope, state, "calls", tokens)
            return True

    def progressed(self, scope: str) -> None:
        """An accepted summary: any pause ends, and the window counts as well spent."""
        with self._lock:
            state = self._load(scope)
            self._save(scope, {**state, "accepted": state["accepted"] + 1, "paused_until": 0})

    def state(self, scope: str) -> dict[str, Any]:
        """Calls, forced calls, tokens and accepted summaries of the window, and when a pause ends (0: none)."""
        return self._load(scope)

    def spent_until(self, scope: str) -> int:
        """When unforced calls may be made again; 0 when they may now."""
        state, now = self._load(scope), self._clock()
        if now < state["paused_until"]:
            return int(state["paused_until"])
        if self._is_used_up(state):
            return int(state["window_start"]) + self._config.summary_call_window_ms
        return 0

    def _is_used_up(self, state: dict[str, Any]) -> bool:
        calls, tokens = int(state["calls"]), int(state["tokens"])
        config = self._config
        return calls >= config.summary_max_calls_per_window or tokens >= config.summary_max_tokens_per_window

    def _count(self, scope: str, state: dict[str, Any], field: str, tokens: int) -> None:
        self._save(scope, {**state, field: state[field] + 1, "tokens": state["tokens"] + tokens})

    def _load(self, scope: str) -> dict[str, Any]:
        now = self._clock()
        empty = {"window_start": now, "calls": 0, "forced": 0, "tokens": 0, "accepted": 0, "paused_until": 0}
        state = empty | (self._guards.load_guard(f"spend:{scope}") or {})
        if not 0 <= now - state["window_start"] < self._config.summary_call_window_ms:
            return {**empty, "paused_until": state["paused_until"]}
        return state

    def _save(self, scope: str, state: dict[str, Any]) -> None:
        self._guards.save_guard(f"spend:{scope}", state)
