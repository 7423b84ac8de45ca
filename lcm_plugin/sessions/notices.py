"""Sentences that every session is told once, in its next context or command."""

from __future__ import annotations

import threading

from lcm_plugin import forks
from lcm_plugin.types import Session

_KEPT = 8


class SessionNotices(forks.FreshLocks):
    """Keeps the newest few sentences and who was told how many of them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._added = 0
        self._newest: list[str] = []
        self._told: dict[str, int] = {}
        forks.join(self)

    def add(self, text: str) -> None:
        """Shows a notice once in every session, also in one that begins later."""
        with self._lock:
            self._added += 1
            self._newest = [*self._newest, text][-_KEPT:]

    def take(self, session: Session) -> tuple[str, ...]:
        """What a session was not told yet; it counts as told from now on."""
        if not self._added:
            return ()
        with self._lock:
            key = session.name
            new = min(self._added - self._told.get(key, 0), len(self._newest))
            self._told[key] = self._added
            return tuple(self._newest[len(self._newest) - new :])
