"""SQLite's errors as ours."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lcm_plugin.errors import StoreBusy, StoreError, StoreUnavailable

_BUSY = {
    "SQLITE_BUSY",
    "SQLITE_LOCKED",
    "SQLITE_BUSY_RECOVERY",
    "SQLITE_BUSY_SNAPSHOT",
    "SQLITE_BUSY_TIMEOUT",
}


@contextmanager
def naming_errors(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into ours, naming the file and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise store_error(error, path) from error


def store_error(error: sqlite3.Error, path: Path) -> StoreError:
    """Our error for one of SQLite's."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if name in _BUSY:
        return StoreBusy(f"{path} is locked by another writer; nothing was written, try again")
    if name.startswith("SQLITE_FULL"):
        return StoreUnavailable(f"the disk that holds {path} is full; nothing of this turn was written")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_IOERR", "SQLITE_AUTH")):
        return StoreUnavailable(f"{path} cannot be used: {_reason(name, path) or error} ({name})")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreUnavailable(
            f"{path} is damaged or not a database: {error}; 'lcm rescue {path} NEW.db' reads what can be read"
        )
    return StoreError(f"{path}: {error} ({name or type(error).__name__})")


def _reason(name: str, path: Path) -> str:
    """Why a file cannot be opened or written, where its mode is the reason; SQLite does not say so."""
    if path.exists() and not os.access(path, os.R_OK):
        return "permission denied"
    if name.startswith("SQLITE_READONLY"):
        denied = next((one for one in (path, path.parent) if not os.access(one, os.W_OK)), None)
        return f"no permission to write {denied}" if denied is not None else ""
    return ""
