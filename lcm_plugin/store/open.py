"""Opening the configured database."""

from __future__ import annotations

from lcm_plugin.config import LcmConfig
from lcm_plugin.store.base import Store


def open_store(config: LcmConfig, *, read_only: bool = False) -> Store:
    """The store that the settings name; raises `StoreUnavailable` or `SchemaError` saying what is wrong."""
    target = config.database_target
    from lcm_plugin.store.sqlite.store import SqliteStore

    return SqliteStore(
        target,
        durability=config.durability,
        busy_timeout_ms=config.busy_timeout_ms,
        read_only=read_only,
    )
