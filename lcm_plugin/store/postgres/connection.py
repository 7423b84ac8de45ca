"""Connections to PostgreSQL: a pool, two kinds of transaction, one way to name errors.

A connection that turns out to be dead when a transaction begins is replaced unseen, as long as the server takes
connections again within the busy timeout. One that dies within a transaction is a `ConnectionLost`. One that dies
at a commit is asked about (`outcome`), so that what was committed is never taken for lost, nor the other way round.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from lcm_plugin.errors import (
    EngineClosed,
    OutcomeUnknown,
    ServerAway,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)
from lcm_plugin.store.postgres.commit_status import Outcome, ask_outcome, end_session_of
from lcm_plugin.store.postgres.connect_options import connect_options, require_primary, require_usable
from lcm_plugin.store.postgres.error_mapping import first_line, is_dead, lost_error, store_error, unreachable
from lcm_plugin.store.postgres.server_health import Outage
from lcm_plugin.store.postgres.url import without_password
from lcm_plugin.store.postgres.watchdog import NoAnswer, WatchedConnection

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

_POOL = "lcm"
_MOST = 8
_LEAST_WAIT_S = 1.0
_SLICE_S = 1.0
_PAUSE_S = 0.1
_BEGIN_READING = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# One exchange. A process that freezes in the middle keeps its rows from others no longer than a minute; the
# transaction's number is what can be asked about when its commit is not answered.
_BEGIN_WRITING = (
    b"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '1min'"
)
_WHICH = b"SELECT pg_current_xact_id()"


# Collecting them would write to sockets that the parent still uses.
_left_to_parents: list[Connections] = []


class Connections:
    """A pool of connections to one database and schema, opened at first use. Thread-safe."""

    def __init__(
        self, url: str, schema: str, *, durability: str, busy_timeout_ms: int, read_only: bool = False
    ) -> None:
        self._given = (url, schema, durability, busy_timeout_ms)
        self._opening = threading.Lock()
        self._opens_late = False
        self.location = without_password(url)
        self.schema = schema
        self.read_only = read_only
        self._wait_s = max(_LEAST_WAIT_S, busy_timeout_ms / 1000)
        self._options = connect_options(url, schema, durability=durability, busy_timeout_ms=busy_timeout_ms)
        self._outage = Outage(self._wait_s)
        # The pool connects in threads of its own, so it is let do so only while the server is known to answer.
        self._pool: ConnectionPool[WatchedConnection] = ConnectionPool(
            self._options.conninfo,
            connection_class=WatchedConnection,
            kwargs={"autocommit": True},
            configure=self._options.prepare,
            min_size=0,
            max_size=_MOST,
            open=False,
            name=_POOL,
            reconnect_timeout=0,
        )

    def open(self) -> None:
        """Opens the pool; raises `StoreUnavailable` saying why it cannot connect, or why not to this server."""
        with self._connect() as connection:
            require_usable(connection, self.location, writing=not self.read_only)
            if not self.read_only:
                require_primary(connection, self.location)
        logging.getLogger("psycopg.pool").addFilter(_concerns_others)
        self._pool.open()

    def for_child(self) -> Connections:
        """The same for a process that was forked: these are the parent's, and are neither used nor closed there."""
        _left_to_parents.append(self)
        url, schema, durability, busy_timeout_ms = self._given
        made = Connections(
            url, schema, durability=durability, busy_timeout_ms=busy_timeout_ms, read_only=self.read_only
        )
        made._opens_late = not self._pool.closed or self._opens_late
        return made

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection inside a read-only transaction with one consistent view."""
        with self._transaction(_BEGIN_READING) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection inside a transaction: commits at the end, rolls back on any error."""
        self._check_writable()
        with self._transaction(_BEGIN_WRITING) as connection:
            yield connection

    @contextmanager
    def outside_transactions(self) -> Iterator[Connection]:
        """A connection of its own for what cannot run inside a transaction, and may take its time."""
        self._check_writable()
        try:
            opened = self._options.watched()
        except psycopg.Error as error:
            raise unreachable(error, self.location) from error
        with opened as connection:
            try:
                yield connection
            except psycopg.Error as error:
                raise self._named(error, connection) from error

    def close(self) -> None:
        """Closes every connection."""
        self._opens_late = False
        self._pool.close()

    @contextmanager
    def _transaction(self, begin: bytes) -> Iterator[WatchedConnection]:
        connection = self._begin(begin)
        try:
            try:
                yield connection
            except BaseException as error:
                with suppress(psycopg.Error):
                    connection.rollback()
                if isinstance(error, psycopg.Error):
                    raise self._named(error, connection) from error
                raise
            self._commit(connection)
        finally:
            connection.end_streams()
            self._pool.putconn(connection)

    def _begin(self, begin: bytes) -> WatchedConnection:
        """A connection with a transaction begun."""
        end = time.monotonic() + self._wait_s
        while True:
            connection = self._take(end)
            connection.number = ""
            try:
                writes = begin is _BEGIN_WRITING
                steps = [begin, *filter(None, [connection.begins_with]), *([_WHICH] if writes else [])]
                last = _last_value(connection.execute(b"; ".join(steps)))
                connection.number = last if writes else ""
                return connection
            except psycopg.Error as error:
                dead = is_dead(connection, error)
                self._pool.putconn(connection)
                if not dead:
                    # Since it was opened, the address may have come to stand for another server.
                    require_usable(connection, self.location, writing=begin is _BEGIN_WRITING)
                    raise store_error(error, self.location, self.schema) from error
                # Nothing has been written yet, so another connection is as good.
                self._lost(connection, error)
                if time.monotonic() >= end:
                    raise unreachable(error, self.location) from error
            except BaseException:
                self._pool.putconn(connection)
                raise

    def _commit(self, connection: WatchedConnection) -> None:
        if connection.number and connection.info.transaction_status == TransactionStatus.INERROR:
            connection.rollback()
            raise StoreError(f"{self.location}: a statement failed unseen; nothing was written")
        try:
            connection.commit()
        except psycopg.Error as error:
            if not is_dead(connection, error):
                raise store_error(error, self.location, self.schema) from error
            self._lost(connection, error)
            if connection.number:
                self._require_committed(connection, error)

    def _require_committed(self, connection: WatchedConnection, error: psycopg.Error) -> None:
        outcome = ask_outcome(self._options.plain, connection.number, connection.incarnation, self._wait_s)
        if outcome is Outcome.ABORTED:
            raise lost_error(error, self.location) from error
        if outcome is Outcome.UNKNOWN:
            raise OutcomeUnknown(
                f"{self.location}: the connection was lost at the end of a transaction ({first_line(error)}), and the "
                "server cannot say whether it is written; look before it is run again"
            ) from error

    def _take(self, end: float) -> WatchedConnection:
        """A connection from the pool, which may be dead."""
        with self._opening:
            if self._opens_late:
                self._opens_late = False
                self._pool.open()
        if self._pool.closed:
            raise EngineClosed(f"the store {self.location} is closed")
        while True:
            if self._outage.lasts:
                self._reach(end)
            try:
                return self._pool.getconn(timeout=max(_PAUSE_S, min(_SLICE_S, end - time.monotonic())))
            except PoolClosed as error:
                raise EngineClosed(f"the store {self.location} is closed") from error
            except PoolTimeout as error:
                # It does not say which: no connection can be made, or none is free.
                self._outage.suspected()
                self._reach(end)
                if time.monotonic() >= end:
                    raise StoreBusy(
                        f"{self.location}: all {_MOST} connections of this process are in use; nothing was "
                        "written, try again"
                    ) from error

    def _reach(self, end: float) -> None:
        """Waits until the server takes connections again; raises `ServerAway` saying why it does not."""
        while True:
            if (known := self._outage.known) is not None:
                raise known
            begun = time.monotonic()
            try:
                with suppress(psycopg.Error), self._connect() as connection:
                    for number, incarnation in self._outage.ends():
                        end_session_of(connection, number, incarnation)
                return
            except ServerAway as error:
                now = time.monotonic()
                if not self._outage.goes_on(error, now - begun) or now + _PAUSE_S >= end:
                    raise
                time.sleep(_PAUSE_S)

    def _connect(self) -> Connection:
        try:
            return self._options.plain()
        except psycopg.Error as error:
            raise unreachable(error, self.location) from error

    def _lost(self, connection: WatchedConnection, error: psycopg.Error) -> None:
        """Whatever ended one connection has ended the older ones, too."""
        waited = error.waited if isinstance(error, NoAnswer) else 0.0
        if connection.number:
            self._outage.left_open(connection.number, connection.incarnation)
        if self._outage.lost(connection.made_at, waited):
            self._pool.drain()
        if isinstance(error, NoAnswer) and error.problem is not None:
            self._outage.goes_on(unreachable(error, self.location), waited)

    def _named(self, error: psycopg.Error, connection: Connection) -> StoreError:
        if is_dead(connection, error):
            if isinstance(connection, WatchedConnection):
                self._lost(connection, error)
            return lost_error(error, self.location)
        return store_error(error, self.location, self.schema)

    def _check_writable(self) -> None:
        if self.read_only:
            raise StoreUnavailable(f"{self.location} was opened read-only")


def _last_value(cursor: psycopg.Cursor[tuple[Any, ...]]) -> str:
    """What the last of several statements gave; empty when none gave anything."""
    while cursor.nextset():
        pass
    row = cursor.fetchone() if cursor.description else None
    return str(row[0]) if row else ""


def _concerns_others(record: logging.LogRecord) -> bool:
    """The pool's own warnings about broken connections only repeat what our errors say."""
    words = record.args if isinstance(record.args, tuple) else ()
    return not any(word == _POOL or isinstance(word, WatchedConnection) for word in words)
