"""The newest warning or error of each session, for ``/lcm status``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from lcm_plugin.events import Event
from lcm_plugin.lru import LruCache

_KEPT = 512


class RecentWarnings:
    """Listens to events. A session sees its own warnings and those of the whole database. Thread-safe."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self.newest_at = 0
        """When the last warning or error of any session was, in ms; 0 for never in this process."""
        self._newest: LruCache[str | int | None, dict[str, Any]] = LruCache(_KEPT)

    def note(self, event: Event) -> None:
        """Remembers an event of level warning or above."""
        if event.level < logging.WARNING:
            return
        self.newest_at = self._clock()
        warning = {
            "name": event.name,
            "level": "error" if event.level >= logging.ERROR else "warning",
            "text": event.in_words(),
            "at": self.newest_at,
        }
        for owner in _owners(event):
            self._newest.put(owner, warning)

    def of(self, session_key: str, conversation_id: int | None) -> dict[str, Any] | None:
        """The newest one of a session or of the whole database: ``name``, ``level``, ``text``, ``at`` (ms)."""
        found = [self._newest.get(owner) for owner in (session_key or None, conversation_id, None)]
        known = [warning for warning in found if warning is not None]
        return max(known, key=lambda warning: int(warning["at"]), default=None)


def _owners(event: Event) -> list[str | int | None]:
    owners: list[str | int | None] = [event.session_key] if event.session_key else []
    if event.conversation_id is not None:
        owners.append(event.conversation_id)
    return owners or [None]
