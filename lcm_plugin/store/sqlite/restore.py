"""Putting a copy in a database's place, in one transaction."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from lcm_plugin.errors import StoreUnavailable
from lcm_plugin.store.sqlite.connection import create_private_file
from lcm_plugin.store.sqlite.error_mapping import naming_errors
from lcm_plugin.store.sqlite.schema import SCHEMA_VERSION, schema_version
from lcm_plugin.store.sqlite.store import SqliteStore

_TIMEOUT_S = 10.0


@contextmanager
def up_to_date(copy: Path) -> Iterator[Path]:
    """The copy itself; for one that an older version made a duplicate with the present schema, gone afterwards.

    The duplicate lies beside the copy if that folder may be written to, else where temporary files go.
    """
    with naming_errors(copy), closing(_connect(copy, "ro")) as source:
        version = schema_version(source)
    if not 0 < version < SCHEMA_VERSION:
        yield copy
        return
    place = copy.parent if os.access(copy.parent, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix=".lcm-restore-", dir=place) as folder:
        duplicate = Path(folder) / copy.name
        shutil.copyfile(copy, duplicate)
        SqliteStore(duplicate, copy_before_migrating=False).close()
        yield duplicate


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
