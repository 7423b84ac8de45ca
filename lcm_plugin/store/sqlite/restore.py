"""Putting a copy in a database's place, in one transaction."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from lcm_plugin.errors import StoreUnavailable
from lcm_plugin.store.sqlite.connection import create_private_file, naming_errors
from lcm_plugin.store.sqlite.schema import schema_version

_TIMEOUT_S = 10.0


def restore(copy: Path, target: Path) -> None:
    """Makes a database equal to a checked copy, page by page, through SQLite itself.

    Other processes that have it open see either the old or the new one. Raises `StoreUnavailable` when the copy
    is damaged and `SchemaError` when it is none of this package; the database is then as it was.
    """
    with naming_errors(copy), closing(_connect(copy, "ro")) as source:
        verdict = source.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if verdict != "ok":
            raise StoreUnavailable(f"the copy {copy} is damaged: {verdict}")
        if schema_version(source) == 0:
            raise StoreUnavailable(f"the copy {copy} is empty")
        create_private_file(target)
        with naming_errors(target), closing(_connect(target, "rw")) as there:
            source.backup(there)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=_TIMEOUT_S)
