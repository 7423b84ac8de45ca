"""A small SQLite file of its own beside the database, for what must be kept while the database itself fails.

No connection outlives a call, and what is deleted is overwritten.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lcm_plugin.config import LcmConfig, default_data_dir
from lcm_plugin.events import logger
from lcm_plugin.store.open import is_server
from lcm_plugin.store.sqlite.error_mapping import naming_errors

_BUSY_SECONDS = 2.0

# No connection may be open while the process forks.
_one_at_a_time = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_one_at_a_time.acquire,
        after_in_parent=_one_at_a_time.release,
        after_in_child=_one_at_a_time.release,
    )


class SideFile:
    """One table in the file at a path. Thread-safe, and safe between processes."""

    table = ""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        if not self.path.exists():
            return []
        with self._connection() as connection:
            try:
                if not connection.execute(
                    "SELECT 1 FROM sqlite_master WHERE name = ?", (self.table,)
                ).fetchone():
                    return []
                return connection.execute(query, values).fetchall()
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorname not in ("SQLITE_NOTADB", "SQLITE_CORRUPT"):
                    raise
        self._set_aside()
        return []

    def _set_aside(self) -> None:
        """A damaged file must not hold up the turns; a person may still want to read it."""
        kept = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        with suppress(OSError):
            os.replace(self.path, kept)
            logger.error("the file of waiting messages is damaged and was moved to %s", kept)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own; what it did not commit is rolled back when it is closed."""
        with _one_at_a_time, naming_errors(self.path):
            connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            try:
                connection.execute("PRAGMA secure_delete = ON")
                yield connection
            finally:
                connection.close()


def side_path(config: LcmConfig) -> Path:
    """Where the file lies: beside a database file; for a server's database in the user's data folder."""
    target = config.database_target
    if not is_server(target):
        path = Path(target).expanduser()
        return Path(f"{path}.waiting")
    from lcm_plugin.store.postgres.url import without_password

    digest = hashlib.sha256(without_password(target).encode()).hexdigest()[:16]
    return default_data_dir() / f"{digest}.waiting"
