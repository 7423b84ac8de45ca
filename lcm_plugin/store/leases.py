"""The one lease: the right to work on something, held in the database by one worker at a time.

While it is held, a thread keeps renewing it, so that it outlasts any model call. When its holder dies nobody
renews it: on the same machine it is free at once, elsewhere when it runs out. While the database cannot be written
it is held until it runs out, and no longer: then somebody else may have it.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from lcm_plugin.errors import EngineClosed, LcmError
from lcm_plugin.store.protocol import Store, Writer
from lcm_plugin.store.retry import retry_lost

_RENEWALS_PER_LEASE = 3
_TRIES_PER_RENEWAL = 10
_SEPARATOR = "|"

Row = TypeVar("Row")
Claimed = TypeVar("Claimed", covariant=True)


class Claims(Protocol[Claimed]):
    """The rows behind one kind of lease; each method is one step of a transaction. Times are milliseconds."""

    def claim(self, writer: Writer, owner: str, now: int, lease_ms: int) -> Claimed | None:
        """Takes the row, or returns None when somebody else holds it."""

    def holder(self, writer: Writer) -> str | None:
        """Who holds the row."""

    def take_away(self, writer: Writer, holder: str, now: int) -> object:
        """Makes the row free, whose holder has died."""

    def renew(self, writer: Writer, owner: str, now: int, lease_ms: int) -> bool:
        """Holds the row for longer; False when somebody else has it."""


class Lease(Generic[Row]):
    """A held lease: a context manager that keeps it renewed inside. ``row`` is what was claimed, for ``owner``."""

    def __init__(
        self,
        store: Store,
        claims: Claims[Row],
        clock: Callable[[], int],
        lease_ms: int,
        owner: str,
        row: Row,
        taken_at: float,
    ) -> None:
        self.owner = owner
        self.row = row
        self._store = store
        self._claims = claims
        self._clock = clock
        self._lease_ms = lease_ms
        self._until = taken_at + lease_ms / 1000
        self._ended = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lcm-lease", daemon=True)

    @classmethod
    def take(cls, store: Store, claims: Claims[Row], clock: Callable[[], int], lease_ms: int) -> Self | None:
        """The lease for ``lease_ms``, or None when somebody alive holds it."""
        return retry_lost(lambda: cls._take(store, claims, clock, lease_ms))

    @classmethod
    def _take(cls, store: Store, claims: Claims[Row], clock: Callable[[], int], lease_ms: int) -> Self | None:
        owner, now, taken_at = new_holder(), clock(), time.monotonic()
        with store.write() as writer:
            row = claims.claim(writer, owner, now, lease_ms)
            if row is None and (holder := claims.holder(writer)) and is_dead(holder):
                claims.take_away(writer, holder, now)
                row = claims.claim(writer, owner, now, lease_ms)
        return None if row is None else cls(store, claims, clock, lease_ms, owner, row, taken_at)

    @property
    def held(self) -> bool:
        """False once somebody else has the lease, or may have since it could not be renewed in time."""
        return not self._lost.is_set() and time.monotonic() < self._until

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _renew(self) -> bool:
        with self._store.write() as writer:
            return self._claims.renew(writer, self.owner, self._clock(), self._lease_ms)

    def _keep(self) -> None:
        lease_s = self._lease_ms / 1000
        between = lease_s / _RENEWALS_PER_LEASE
        wait = between
        while not self._ended.wait(wait):
            asked_at = time.monotonic()
            try:
                renewed = self._renew()
            except EngineClosed:
                self._lost.set()
                return
            except LcmError:
                if asked_at >= self._until:
                    return
                wait = between / _TRIES_PER_RENEWAL
                continue
            if not renewed:
                self._lost.set()
                return
            self._until, wait = asked_at + lease_s, between


def new_holder() -> str:
    """A name for one holding: where, which process, and a part of its own."""
    return _SEPARATOR.join((_place(), str(os.getpid()), uuid.uuid4().hex[:8]))


def process_holder() -> str:
    """The name of whatever this process holds once only."""
    return _SEPARATOR.join((_place(), str(os.getpid()), ""))


def is_dead(holder: str | None) -> bool:
    """True only when the holder was a process of this place that no longer runs; a name that says nothing is alive."""
    place, _, rest = (holder or "").partition(_SEPARATOR)
    number = rest.partition(_SEPARATOR)[0]
    if place != _place() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


@cache
def _place() -> str:
    """The machine and, since containers number their processes from one, the space that numbers belong to."""
    space = ""
    with suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    return f"{socket.gethostname()}{space}"
