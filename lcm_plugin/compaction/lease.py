"""The right to compact one conversation, held in the database by one compaction at a time.

While it is held, a thread keeps renewing it, so that it outlasts any model call. When its holder dies nobody
renews it: on the same machine it is free at once, elsewhere after `LEASE_MS`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from lcm_plugin.errors import LcmError, StoreBusy
from lcm_plugin.store.base import Store
from lcm_plugin.store.holders import is_dead, new_holder

LEASE_MS = 30_000
_RENEWALS_PER_LEASE = 3
_SETTLE_EVERY_S = 0.5


class Lease:
    """One held lease: a context manager that keeps it renewed inside. `settle` gives it back.

    ``attempts`` is how often in a row it was taken, this time included, without success.
    """

    def __init__(
        self, store: Store, conversation_id: int, clock: Callable[[], int], owner: str, attempts: int
    ) -> None:
        self.conversation_id = conversation_id
        self.owner = owner
        self.attempts = attempts
        self._store = store
        self._clock = clock
        self._ended = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lcm-lease", daemon=True)

    @classmethod
    def take(cls, store: Store, conversation_id: int, clock: Callable[[], int]) -> Self | None:
        """The lease, or None when somebody alive holds it.

        One whose process on this machine has died is taken over at once.
        """
        owner, now = new_holder(), clock()
        with store.write() as writer:
            debt = writer.claim_debt(conversation_id, owner, now, LEASE_MS)
            held = writer.debt(conversation_id) if debt is None else None
            if held is not None and held.owner and is_dead(held.owner):
                writer.settle_debt(conversation_id, held.owner, "pending", now)
                debt = writer.claim_debt(conversation_id, owner, now, LEASE_MS)
        return None if debt is None else cls(store, conversation_id, clock, owner, debt.attempts)

    @property
    def held(self) -> bool:
        """False once somebody else has taken it."""
        return not self._lost.is_set()

    def settle(self, state: str, *, reason: str, error: str = "", next_attempt_at: int = 0) -> None:
        """Gives the lease back with a verdict."""
        with self._store.write() as writer:
            writer.settle_debt(
                self.conversation_id,
                self.owner,
                state,
                self._clock(),
                reason=reason,
                error=error,
                next_attempt_at=next_attempt_at,
            )

    def settle_later(self, state: str, *, reason: str, error: str = "", next_attempt_at: int = 0) -> None:
        """Gives the lease back when the database can be written again, as long as it has not expired by itself."""

        def keep_trying() -> None:
            end = time.monotonic() + LEASE_MS / 1000
            while time.monotonic() < end:
                try:
                    self.settle(state, reason=reason, error=error, next_attempt_at=next_attempt_at)
                except StoreBusy:
                    time.sleep(_SETTLE_EVERY_S)
                    continue
                except LcmError:
                    pass  # the engine is closed, or the database is gone
                return

        threading.Thread(target=keep_trying, name="lcm-settle", daemon=True).start()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._ended.wait(LEASE_MS / 1000 / _RENEWALS_PER_LEASE):
            try:
                with self._store.write() as writer:
                    renewed = writer.renew_lease(self.conversation_id, self.owner, self._clock(), LEASE_MS)
            except StoreBusy:
                continue  # there is time for another try before it expires
            except LcmError:
                renewed = False
            if not renewed:
                self._lost.set()
                return
