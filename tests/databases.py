"""How a test asks for a database, and reads or damages it with statements of its own, on either store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

# Gives the path or URL of an empty database, which goes when the context ends.
FreshDatabase = Callable[..., AbstractContextManager[str]]
Row = tuple[Any, ...]
Held = Literal["rows", "writes", "everything"]


class RawDatabase(Protocol):
    """A connection past the package and past every reference between tables; each statement is its own transaction.

    Values are given for ``?``. PostgreSQL still holds to its CHECKs and primary keys.
    """

    def change(self, statement: str, *values: Any) -> int:
        """Runs a statement and returns how many rows it changed."""

    def rows(self, statement: str, *values: Any) -> list[Row]:
        """All rows of a query."""

    def hold(self, what: Held = "writes") -> None:
        """Begins a transaction that holds others up until it is let go.

        SQLite knows one lock only, beside which others can read; PostgreSQL those of all conversations' rows, of
        the tables for writing, and of the tables for reading, too.
        """

    def let_go(self) -> None:
        """Ends that transaction."""

    def close(self) -> None:
        """Closes the connection."""


def open_raw(database: str) -> RawDatabase:
    """A connection to a database, given as a path or a URL."""
    return _RawPostgres(database) if "://" in database else _RawSqlite(database)


class _RawSqlite:
    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA foreign_keys = OFF")

    def change(self, statement: str, *values: Any) -> int:
        return self._connection.execute(statement, values).rowcount

    def rows(self, statement: str, *values: Any) -> list[Row]:
        return self._connection.execute(statement, values).fetchall()

    def hold(self, what: Held = "writes") -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def let_go(self) -> None:
        self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()


class _RawPostgres:
    def __init__(self, url: str) -> None:
        import psycopg

        from lcm_plugin.store.postgres.url import split_schema

        plain, schema = split_schema(url)
        self._connection = psycopg.connect(plain, autocommit=True, options=f"-c search_path={schema},public")
        self._connection.execute("SET session_replication_role = replica")

    def change(self, statement: str, *values: Any) -> int:
        return self._connection.execute(*_in_percent(statement, values)).rowcount

    def rows(self, statement: str, *values: Any) -> list[Row]:
        return self._connection.execute(*_in_percent(statement, values)).fetchall()

    def hold(self, what: Held = "writes") -> None:
        statements = {
            "rows": b"SELECT 1 FROM conversations FOR UPDATE",
            "writes": b"LOCK TABLE conversations, messages IN EXCLUSIVE MODE",
            "everything": b"LOCK TABLE conversations, messages IN ACCESS EXCLUSIVE MODE",
        }
        self._connection.execute("BEGIN")
        self._connection.execute(statements[what])

    def let_go(self) -> None:
        self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()


def _in_percent(statement: str, values: Row) -> tuple[bytes, Row | None]:
    """A statement in the server's way to name values; without values nothing in it is touched."""
    if not values:
        return statement.encode(), None
    return statement.replace("%", "%%").replace("?", "%s").encode(), values
