"""Proves that a database can be used: reads the settings, opens the store, writes a row, reads it and takes it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryFile

from lcm_plugin.config import LcmConfig
from lcm_plugin.config.explain import masked
from lcm_plugin.errors import ConfigError, LcmError, StoreUnavailable
from lcm_plugin.maintenance.hook_health import HookHealth
from lcm_plugin.recall.times import format_instant
from lcm_plugin.store.leases import new_holder
from lcm_plugin.store.open import is_server, open_store
from lcm_plugin.store.protocol import Store
from lcm_plugin.types import Finding, Session, Severity


class _TakeBack(Exception):
    """Ends a transaction without keeping it."""


def prove(name: str, load: Callable[[], LcmConfig], now: int) -> Iterator[Finding]:
    """The obstacles to storing anything, as findings ``<name>.…``; last a remark on the newest stored row.

    A database that does not exist yet is not made: its place must be writable then.
    """
    try:
        config = load()
    except (ConfigError, OSError) as error:
        yield Finding(
            f"{name}.settings",
            Severity.ERROR,
            f"the settings cannot be used: {error}",
            repair="see `lcm config`",
        )
        return
    if not config.enabled:
        yield Finding(
            f"{name}.switched_off",
            Severity.ERROR,
            "the setting `enabled` is false: nothing is stored",
            repair="set `enabled` to true",
        )
    yield from _failing(name, config, now)
    shown = masked(config.database_target)
    try:
        stored = _proven(config)
    except (LcmError, OSError) as error:
        yield Finding(
            f"{name}.database",
            Severity.ERROR,
            f"nothing can be stored in {shown}: {error}",
            repair="mend what it names, or set `database` to another place",
        )
        return
    text = (
        f"{shown} is not there yet and can be made" if stored is None else f"{shown} takes and returns a row"
    )
    if stored:
        text += f"; something was stored last at {format_instant(stored, config.timezone)}"
    yield Finding(f"{name}.store", Severity.INFO, text)


def try_store(store: Store) -> int:
    """Writes rows, reads them back and takes them back; returns when something was stored last (ms, 0 for never).

    Raises `StoreError` when any of it does not work.
    """
    key, state = f"proof:{new_holder()}", {"written": "é漢"}
    try:
        with store.write() as writer:
            writer.save_guard(key, state)
            opened = writer.open_conversation(Session(key), 0)
            if writer.guard(key) != state or writer.conversation(opened.conversation_id) is None:
                raise StoreUnavailable(f"{store.location} does not return what was written to it")
            raise _TakeBack
    except _TakeBack:
        pass
    with store.read() as reader:
        if reader.guard(key) is not None or reader.find_conversation(Session(key)) is not None:
            raise StoreUnavailable(f"{store.location} keeps what was taken back")
        return reader.status().last_stored_at or 0


def _proven(config: LcmConfig) -> int | None:
    """When something was stored last; None for a database that is not there yet and can be made."""
    target = config.database_target
    if not is_server(target) and not Path(target).expanduser().exists():
        _prove_place(Path(target).expanduser())
        return None
    store = open_store(config, create=False)
    try:
        return try_store(store)
    finally:
        store.close()


def _prove_place(path: Path) -> None:
    """Raises `StoreUnavailable` unless a file can be made there."""
    folder = next(one for one in path.absolute().parents if one.exists())
    try:
        with TemporaryFile(dir=folder) as file:
            file.write(b"\0")
    except OSError as error:
        raise StoreUnavailable(f"{folder} cannot be written to: {error.strerror or error}") from error


def _failing(name: str, config: LcmConfig, now: int) -> Iterator[Finding]:
    for one in HookHealth(lambda: config, lambda: now).failures():
        if one.in_a_row:
            yield Finding(f"{name}.failing", Severity.WARNING, str(one))
