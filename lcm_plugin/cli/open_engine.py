"""Opens the database of a command; and the name under which its user acts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lcm_plugin.config import LcmConfig
    from lcm_plugin.engine import Engine


@contextmanager
def reading(database: str | None, **settings: Any) -> Iterator[Engine]:
    """An engine that cannot write: safe beside a running host."""
    with _open(database, settings, read_only=True) as engine:
        yield engine


@contextmanager
def writing(database: str | None, *, create: bool = False, **settings: Any) -> Iterator[Engine]:
    """An engine that may write; it does no work of its own accord.

    Raises `StoreUnavailable` for a database that does not exist, as after a slip in its path, unless ``create``.
    """
    with _open(database, settings, create=create) as engine:
        yield engine


def settings_for(database: str | None, **settings: Any) -> LcmConfig:
    """The settings as a command uses them; raises `ConfigError`."""
    from lcm_plugin.config.file import load_config

    return load_config(**settings | ({"database": database} if database else {}))


@contextmanager
def _open(
    database: str | None, settings: dict[str, Any], *, read_only: bool = False, create: bool = False
) -> Iterator[Engine]:
    from lcm_plugin.engine import Engine

    with Engine.open(settings_for(database, **settings), read_only=read_only, create=create) as engine:
        yield engine
