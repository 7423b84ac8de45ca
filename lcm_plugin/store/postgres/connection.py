"""Connections to PostgreSQL: a pool, two kinds of transaction, one way to name errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from lcm_plugin.errors import EngineClosed, StoreBusy, StoreError, StoreUnavailable

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

_STATEMENT_TIMEOUT_MS = 60_000
_RETRY = (pg.LockNotAvailable, pg.DeadlockDetected, pg.SerializationFailure)
_NO_ACCESS = (pg.InsufficientPrivilege, pg.ReadOnlySqlTransaction)


class Connections:
    """A pool of connections to one database and schema, opened at first use."""

    def __init__(
        self, url: str, schema: str, *, durability: str, busy_timeout_ms: int, read_only: bool = False
    ) -> None:
        self.location = without_password(url)
        self._url = url
        self.schema = schema
        self.read_only = read_only
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            url,
            min_size=0,
            max_size=8,
            open=False,
            timeout=max(1.0, busy_timeout_ms / 1000),
            kwargs={
                "autocommit": True,
                "application_name": "lcm",
                "connect_timeout": 10,
                "options": f"-c search_path={schema},public -c lock_timeout={max(1, busy_timeout_ms)} "
                f"-c statement_timeout={_STATEMENT_TIMEOUT_MS} "
                f"-c synchronous_commit={'on' if durability == 'full' else 'local'}",
            },
            check=ConnectionPool.check_connection,
        )

    def open(self) -> None:
        """Opens the pool; raises `StoreUnavailable` saying why it cannot connect."""
        with naming_errors(self.location):
            # The pool hides why it cannot connect, so the first connection is made by hand.
            psycopg.connect(self._url, connect_timeout=10).close()
            self._pool.open()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection inside a read-only transaction with one consistent view."""
        with self._connection() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection inside a transaction: commits at the end, rolls back on any error."""
        if self.read_only:
            raise StoreUnavailable(f"{self.location} was opened read-only")
        with self._connection() as connection, connection.transaction():
            yield connection

    @contextmanager
    def outside_transactions(self) -> Iterator[Connection]:
        """A connection for what cannot run inside a transaction, and may take its time."""
        if self.read_only:
            raise StoreUnavailable(f"{self.location} was opened read-only")
        with self._connection() as connection:
            connection.execute("SET statement_timeout = 0")
            try:
                yield connection
            finally:
                connection.execute(f"SET statement_timeout = {_STATEMENT_TIMEOUT_MS}".encode())

    def close(self) -> None:
        """Closes every connection."""
        self._pool.close()

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        if self._pool.closed:
            raise EngineClosed(f"the store {self.location} is closed")
        with naming_errors(self.location), self._pool.connection() as connection:
            yield connection


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return "postgresql://(a URL that cannot be read)"
    host = parts.get("host") or "localhost"
    port = f":{parts['port']}" if parts.get("port") else ""
    user = f"{parts['user']}@" if parts.get("user") else ""
    return f"postgresql://{user}{host}{port}/{parts.get('dbname') or ''}"


def split_schema(url: str) -> tuple[str, str]:
    """The URL without its ``schema`` parameter, and the schema (``lcm`` unless named)."""
    base, _, query = url.partition("?")
    pairs = [pair for pair in query.split("&") if pair]
    schema = next((pair.partition("=")[2] for pair in pairs if pair.startswith("schema=")), "lcm")
    rest = [pair for pair in pairs if not pair.startswith("schema=")]
    try:
        make_conninfo(f"{base}?{'&'.join(rest)}" if rest else base)
    except psycopg.ProgrammingError as error:
        # What it quotes may be a password.
        reason = str(error).split('"')[0].strip(" :") or "it is none"
        raise StoreUnavailable(
            f"the database URL cannot be read: {reason}; it is written postgresql://user:password@host:port/database"
        ) from None
    if not schema.replace("_", "").isalnum():
        raise StoreUnavailable(f"the schema name must be letters, digits and underscores, not {schema!r}")
    return (f"{base}?{'&'.join(rest)}" if rest else base), schema


@contextmanager
def naming_errors(location: str) -> Iterator[None]:
    """Turns PostgreSQL's errors into ours, naming the server and what to do."""
    try:
        yield
    except PoolTimeout as error:
        raise StoreUnavailable(f"{location} gave no connection in time: {error}") from error
    except PoolClosed as error:
        raise EngineClosed(f"the store {location} is closed") from error
    except psycopg.Error as error:
        raise store_error(error, location) from error


def store_error(error: psycopg.Error, location: str) -> StoreError:
    """Our error for one of PostgreSQL's."""
    words = str(error).strip().splitlines()
    text = words[0] if words else type(error).__name__
    if isinstance(error, _RETRY):
        return StoreBusy(
            f"{location}: another session holds the rows ({text}); nothing was written, try again"
        )
    if isinstance(error, _NO_ACCESS):
        return StoreUnavailable(f"{location}: not allowed: {text}")
    if isinstance(error, pg.DiskFull):
        return StoreUnavailable(f"the disk of {location} is full; nothing of this turn was written")
    if isinstance(error, pg.QueryCanceled):
        return StoreBusy(f"{location}: a statement took longer than its limit ({text})")
    if isinstance(error, psycopg.OperationalError):
        return StoreUnavailable(f"{location} cannot be used: {text}")
    return StoreError(f"{location}: {text} ({error.sqlstate or type(error).__name__})")
