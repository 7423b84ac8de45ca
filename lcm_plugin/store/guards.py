"""Guard state kept in the store, so that an open circuit survives a restart."""

from __future__ import annotations

from typing import Any

from lcm_plugin.store.base import Store


class StoredGuards:
    """Loads and saves the state of circuit breakers and spend guards."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def load_guard(self, key: str) -> dict[str, Any] | None:
        """The state saved under a key, or None."""
        with self._store.read() as reader:
            return reader.guard(key)

    def save_guard(self, key: str, state: dict[str, Any]) -> None:
        """Replaces the state under a key."""
        with self._store.write() as writer:
            writer.save_guard(key, state)
