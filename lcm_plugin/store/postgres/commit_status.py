"""How a commit went whose answer never came: asked of the server over a new connection.

A transaction's number is known from its beginning, and the server knows how each one ended (`pg_xact_status`).
One that is still open is ended first, so that its rows are free again. A crash may give numbers anew that were
never written down, so after one only "not committed" can be believed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import psycopg
from psycopg import errors as pg

# Both change when the server starts; the second also when it recovers from the crash of one of its processes.
INCARNATION = (
    b"SELECT concat(extract(epoch FROM pg_postmaster_start_time()), ' ', "
    b"extract(epoch FROM pg_stat_get_bgwriter_stat_reset_time()))"
)
_STATUS = "SELECT pg_xact_status(%s::text::xid8)"
_END_IT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE backend_xid::text = (%s::numeric %% 4294967296)::text AND pid <> pg_backend_pid()"
)
_PAUSE_S = 0.1


class Outcome(StrEnum):
    """How a transaction ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


def ask_outcome(
    connect: Callable[[], psycopg.Connection[tuple[Any, ...]]], number: str, incarnation: str, seconds: float
) -> Outcome:
    """How the transaction ``number`` ended, as far as the server says so within ``seconds``."""
    end = time.monotonic() + seconds
    while True:
        try:
            with connect() as connection:
                outcome = _ask(connection, number, incarnation)
        except psycopg.Error:
            outcome = None
        if outcome is not None:
            return outcome
        if time.monotonic() >= end:
            return Outcome.UNKNOWN
        time.sleep(_PAUSE_S)


def end_session_of(connection: psycopg.Connection[tuple[Any, ...]], number: str, incarnation: str) -> None:
    """Ends the session whose transaction is still open: the server may not know yet that nobody is there."""
    if _is_same(connection, incarnation):
        connection.execute(_END_IT, (number,))


def _ask(connection: psycopg.Connection[tuple[Any, ...]], number: str, incarnation: str) -> Outcome | None:
    """None while it is still open."""
    try:
        status = _value(connection, _STATUS, number)
    except pg.InvalidParameterValue:
        return Outcome.ABORTED  # a number that the server never gave, or forgot in a crash
    if not _is_same(connection, incarnation):
        # What is open now is somebody else's, who was given the number anew; what is committed may be.
        return Outcome.UNKNOWN if status in ("committed", None) else Outcome.ABORTED
    if status == "in progress":
        end_session_of(connection, number, incarnation)
        return None
    return Outcome(status) if status else Outcome.UNKNOWN


def _is_same(connection: psycopg.Connection[tuple[Any, ...]], incarnation: str) -> bool:
    return connection.execute(INCARNATION).fetchone() == (incarnation,)


def _value(connection: psycopg.Connection[tuple[Any, ...]], query: str, number: str) -> Any:
    row = connection.execute(query.encode(), (number,)).fetchone()
    return row[0] if row else None
