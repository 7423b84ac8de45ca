"""PostgreSQL's errors as ours: what went wrong, where, and what to do about it.

A server refuses a connection in words, without a code, so those are told apart by what they say; words that
are not known are shown as they are.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg import errors as pg

from lcm_plugin.errors import (
    ConnectionLost,
    ServerAway,
    StoreBusy,
    StoreDeadlock,
    StoreError,
    StoreUnavailable,
)

_UNDONE = (pg.DeadlockDetected, pg.SerializationFailure)
_REMEDIES: tuple[tuple[str, str], ...] = (
    ("password authentication failed|no password supplied", "check user and password in the database URL"),
    ('role ".*" does not exist', "check the user in the database URL, or create the role"),
    ('database ".*" does not exist', "check the name at the end of the database URL, or create the database"),
    (r"no pg_hba\.conf entry", "the server's pg_hba.conf must let this user and this machine in"),
    ("resolve|translate host name|name or service|nodename", "check the host's name in the database URL"),
    ("refused|no such file", "check that the server runs there, and host and port in the database URL"),
    ("timeout expired|timed out", "check that the server can be reached from here (network, firewall)"),
    ("too many|remaining connection slots", "raise max_connections, or let fewer processes connect"),
    ("starting up|shutting down|recovery mode|not yet accepting", "it is on its way up or down: try again"),
    ("SSL", "check sslmode in the database URL"),
)


def store_error(error: psycopg.Error, location: str, schema: str) -> StoreError:
    """Our error for one that a statement got."""
    text = first_line(error)
    if isinstance(error, _UNDONE):
        return StoreDeadlock(
            f"{location}: another session came first ({text}); nothing was written, try again"
        )
    if isinstance(error, pg.LockNotAvailable):
        return StoreBusy(
            f"{location}: another session holds the rows ({text}); nothing was written, try again"
        )
    if isinstance(error, pg.QueryCanceled):
        return StoreBusy(
            f"{location}: a statement took longer than its limit ({text}); nothing was written, try again"
        )
    if isinstance(error, pg.InsufficientPrivilege):
        return StoreUnavailable(
            f"{location}: not allowed: {text}; the user needs a schema of its own "
            f'(CREATE SCHEMA "{schema}" AUTHORIZATION …), or all rights on the schema "{schema}" and what is in it'
        )
    if isinstance(error, pg.ReadOnlySqlTransaction):
        return read_only(location, f"it refuses to write: {text}")
    if isinstance(error, pg.DiskFull):
        return StoreUnavailable(f"the disk of {location} is full ({text}); nothing of this turn was written")
    if isinstance(error, psycopg.OperationalError):
        return StoreUnavailable(f"{location} cannot be used: {text}")
    return StoreError(f"{location}: {text} ({error.sqlstate or type(error).__name__})")


def is_dead(connection: psycopg.Connection[Any], error: psycopg.Error) -> bool:
    """Whether an error ended the connection; the server's last words arrive before its end does."""
    if error.diag.severity_nonlocalized in ("FATAL", "PANIC"):
        connection.close()
    return connection.closed


def lost_error(error: psycopg.Error, location: str) -> ConnectionLost:
    """Our error for a connection that ended before its transaction was committed."""
    return ConnectionLost(
        f"{location}: the connection was lost ({first_line(error)}); nothing was written, try again"
    )


def unreachable(error: psycopg.Error, location: str) -> ServerAway:
    """Our error for a connection that could not be made."""
    text = first_line(error)
    remedy = next((advice for words, advice in _REMEDIES if re.search(words, text, re.IGNORECASE)), "")
    return ServerAway(f"{location} cannot be reached: {text}{'; ' if remedy else ''}{remedy}")


def read_only(location: str, why: str) -> StoreUnavailable:
    """Our error for a server that only reads."""
    return StoreUnavailable(
        f"{location} is read-only ({why}); name the primary server, or several hosts and "
        "target_session_attrs=read-write, in the database URL"
    )


def first_line(error: psycopg.Error) -> str:
    """The server's words without the detail that follows, nor psycopg's words before them."""
    words = str(error).strip().splitlines()
    return words[0].removeprefix("connection failed: ") if words else type(error).__name__
