"""Opening the configured database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lcm_plugin.errors import ConfigError

if TYPE_CHECKING:
    from lcm_plugin.config import LcmConfig
    from lcm_plugin.store.protocol import Store


def open_store(
    config: LcmConfig, *, read_only: bool = False, unfinished: bool = False, create: bool = True
) -> Store:
    """The store that the settings name; raises `StoreUnavailable` or `SchemaError` saying what is wrong.

    A database that does not exist is made, unless ``create`` is false or it is only to be read. One into which a
    copy was begun and not finished is refused unless ``unfinished`` is true.
    """
    from lcm_plugin.store.transfer import UNFINISHED, refuse_unfinished

    store = _open(config, read_only, create)
    if not unfinished:
        try:
            with store.read() as reader:
                refuse_unfinished(reader.guard(UNFINISHED), store.location)
        except BaseException:
            store.close()
            raise
    return store


def is_server(location: str) -> bool:
    """Whether a database is on a server: it is named by a URL then, else by a path."""
    return "://" in location


def _open(config: LcmConfig, read_only: bool, create: bool) -> Store:
    target = config.database_target
    if target.startswith(("postgresql://", "postgres://")):
        return _open_postgres(config, target, read_only, create)
    if is_server(target):
        raise ConfigError(
            f"database = {target.partition('://')[0]}://…: must be the path of a file, or a URL that begins with "
            "postgresql://"
        )
    if target == ":memory:" or target.startswith("file:"):
        raise ConfigError(
            f"database = {target}: must be the path of a file: what is stored outlives the process"
        )
    from lcm_plugin.store.sqlite.store import SqliteStore

    return SqliteStore(
        target,
        durability=config.durability,
        busy_timeout_ms=config.busy_timeout_ms,
        read_only=read_only,
        create=create,
    )


def _open_postgres(config: LcmConfig, url: str, read_only: bool, create: bool) -> Store:
    try:
        from lcm_plugin.store.postgres.store import PostgresStore
    except ImportError as error:
        raise ConfigError(
            f"database = {url.partition('://')[0]}://… needs the extra: pip install 'lcm_plugin[postgres]' ({error})"
        ) from error
    return PostgresStore(
        url,
        durability=config.durability,
        busy_timeout_ms=config.busy_timeout_ms,
        read_only=read_only,
        create=create,
    )
