"""Guard state kept in the store, so that an open circuit survives a restart."""

from __future__ import annotations

import threading
from typing import Any

from lcm_plugin.errors import ServerAway, StoreBusy
from lcm_plugin.store.protocol import Store


class StoredGuards:
    """Loads and saves the state of circuit breakers and spend guards. Thread-safe.

    What cannot be saved because another writer holds the lock, or because the database server is away, stands
    in memory until it can: a model's answer that is paid for must not be lost over its bookkeeping.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._unsaved: dict[str, dict[str, Any]] = {}

    def load_guard(self, key: str) -> dict[str, Any] | None:
        """The state saved under a key, or None."""
        with self._lock:
            if key in self._unsaved:
                return self._unsaved[key]
        with self._store.read() as reader:
            return reader.guard(key)

    def save_guard(self, key: str, state: dict[str, Any]) -> None:
        """Replaces the state under a key."""
        try:
            with self._store.write() as writer:
                writer.save_guard(key, state)
        except (StoreBusy, ServerAway):
            with self._lock:
                self._unsaved[key] = state
            return
        with self._lock:
            self._unsaved.pop(key, None)
