"""Keeping a lease while its holder works: a thread extends it well before it runs out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from lcm_plugin.errors import EngineClosed, LcmError

_RENEWALS_PER_LEASE = 3
_TRIES_PER_RENEWAL = 10


class Renewal:
    """Calls ``renew`` three times per lease inside a ``with`` block, and oftener while the database fails.

    ``renew`` extends the lease by ``lease_ms`` and returns False when somebody else has it. ``taken_at`` is the
    `time.monotonic` value from which the lease counts.
    """

    def __init__(self, renew: Callable[[], bool], lease_ms: int, taken_at: float) -> None:
        self._renew = renew
        self._lease_s = lease_ms / 1000
        self._until = taken_at + self._lease_s
        self._ended = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lcm-lease", daemon=True)

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

    def _keep(self) -> None:
        between = self._lease_s / _RENEWALS_PER_LEASE
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
            self._until, wait = asked_at + self._lease_s, between
