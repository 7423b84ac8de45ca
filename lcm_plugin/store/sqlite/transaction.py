"""Statements of one transaction on a SQLite connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lcm_plugin.store.dialect import SqliteDialect
from lcm_plugin.store.transaction import Transaction


class SqliteStatements(Transaction):
    """SQLite reads ``:name`` itself; one writer at a time needs no locks of rows."""

    sql = SqliteDialect()

    def __init__(self, connection: sqlite3.Connection, location: str = "") -> None:
        self.db = connection
        self.location = location

    def _execute(self, statement: str, values: Mapping[str, Any]) -> sqlite3.Cursor:
        return self.db.execute(statement, values)

    def _execute_many(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> int:
        return self.db.executemany(statement, rows).rowcount

    def _fetch(self, statement: str, size: int, values: Mapping[str, Any]) -> Iterator[list[Any]]:
        cursor = self.db.execute(statement, values)
        while batch := cursor.fetchmany(size):
            yield batch

    def ahead(self, *reads: Callable[[], object]) -> None:
        """Nothing to do: there is no server to wait for."""

    def has_table(self, name: str) -> bool:
        return self.one("SELECT 1 FROM sqlite_master WHERE name = :name", name=name) is not None

    def size_bytes(self) -> int:
        return int(self.one("PRAGMA page_count")[0]) * int(self.one("PRAGMA page_size")[0])

    def hold_files(self, conversation_id: int | None = None) -> None:
        """Nothing to do: there is one writer at a time."""

    def require_only_publisher(self, conversation_id: int) -> None:
        """Nothing to do, as above."""
