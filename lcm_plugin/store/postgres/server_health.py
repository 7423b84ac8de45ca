"""What a process knows of a server that does not answer."""

from __future__ import annotations

import threading
import time

from lcm_plugin.errors import ServerAway

_CHEAP_S = 0.1
_LONGEST_BELIEF_S = 2.0


class Outage:
    """Shared by all threads, so that they do not all find out and wait by themselves. Thread-safe.

    Whoever finds out first waits for the server; once it has been away for longer than ``wait_s`` (seconds), one try
    each is enough. What a try found counts for all for as long as that try took, at most two seconds: silence is dear to
    find out about; a refusal costs nothing, so it is asked for again.
    """

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._begun: float | None = None
        self._lost_before = 0.0
        self._told: ServerAway | None = None
        self._believed_until = 0.0
        self._left_open: set[tuple[str, str]] = set()

    @property
    def lasts(self) -> bool:
        """Whether nobody has reached the server since."""
        return self._begun is not None

    @property
    def known(self) -> ServerAway | None:
        """Why it was out of reach a moment ago, once the time to wait for it is over."""
        with self._lock:
            if self._told is None or time.monotonic() >= self._believed_until or not self._is_long():
                return None
            return ServerAway(str(self._told))

    def lost(self, made_at: float, waited: float) -> bool:
        """A connection made at a time was lost after ``waited`` seconds; false when a later one was lost before."""
        with self._lock:
            if made_at <= self._lost_before:
                return False
            now = time.monotonic()
            self._lost_before, self._begun = now, self._begun or now - waited
            return True

    def left_open(self, number: str, incarnation: str) -> None:
        """A write transaction that the server may still take for open, and the start of the server it belongs to."""
        with self._lock:
            self._left_open.add((number, incarnation))

    def suspected(self) -> None:
        """No connection could be had."""
        with self._lock:
            self._begun = self._begun or time.monotonic()

    def goes_on(self, error: ServerAway, took: float) -> bool:
        """A try failed within ``took`` seconds; whether it is worth waiting for another."""
        with self._lock:
            self._told = error
            believed = min(took, _LONGEST_BELIEF_S) if took > _CHEAP_S else 0.0
            self._believed_until = time.monotonic() + believed
            return not self._is_long()

    def ends(self) -> set[tuple[str, str]]:
        """The server was reached; what was left open."""
        with self._lock:
            self._begun = self._told = None
            left, self._left_open = self._left_open, set()
            return left

    def _is_long(self) -> bool:
        return self._begun is not None and time.monotonic() - self._begun >= self._wait_s
