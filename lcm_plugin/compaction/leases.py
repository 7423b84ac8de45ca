"""The right to compact one conversation, held in the database by one compaction at a time.

While it is held, a thread keeps renewing it, so that it outlasts any model call. When its holder dies nobody
renews it: on the same machine it is free at once, elsewhere after `LEASE_MS`. While the database cannot be written
it is held until it runs out, and no longer: then somebody else may have it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from lcm_plugin.errors import LcmError, ServerAway, StoreBusy
from lcm_plugin.store.holders import is_dead, new_holder
from lcm_plugin.store.protocol import Store
from lcm_plugin.store.renewal import Renewal
from lcm_plugin.store.retry import retry_lost

LEASE_MS = 30_000
_SETTLE_EVERY_S = 0.5


class Lease:
    """One held lease: a context manager that keeps it renewed inside. `settle` gives it back.

    ``attempts`` is how often in a row it was taken, this time included, without success.
    """

    def __init__(
        self,
        store: Store,
        conversation_id: int,
        clock: Callable[[], int],
        owner: str,
        attempts: int,
        taken_at: float,
    ) -> None:
        self.conversation_id = conversation_id
        self.owner = owner
        self.attempts = attempts
        self._store = store
        self._clock = clock
        self._renewal = Renewal(self._renew, LEASE_MS, taken_at)

    @classmethod
    def take(cls, store: Store, conversation_id: int, clock: Callable[[], int]) -> Self | None:
        """The lease, or None when somebody alive holds it.

        One whose process on this machine has died is taken over at once.
        """
        return retry_lost(lambda: cls._take(store, conversation_id, clock))

    @classmethod
    def _take(cls, store: Store, conversation_id: int, clock: Callable[[], int]) -> Self | None:
        owner, now, taken_at = new_holder(), clock(), time.monotonic()
        with store.write() as writer:
            debt = writer.claim_debt(conversation_id, owner, now, LEASE_MS)
            held = writer.debt(conversation_id) if debt is None else None
            if held is not None and held.owner and is_dead(held.owner):
                writer.settle_debt(conversation_id, held.owner, "pending", now)
                debt = writer.claim_debt(conversation_id, owner, now, LEASE_MS)
        return None if debt is None else cls(store, conversation_id, clock, owner, debt.attempts, taken_at)

    @property
    def held(self) -> bool:
        """False once somebody else has taken it, or may have since it could not be renewed in time."""
        return self._renewal.held

    def settle(self, state: str, *, reason: str, error: str = "", next_attempt_at: int = 0) -> None:
        """Gives the lease back with a verdict."""

        def settle() -> None:
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

        # Once it is given back, giving it back changes nothing.
        retry_lost(settle, idempotent=True)

    def settle_later(self, state: str, *, reason: str, error: str = "", next_attempt_at: int = 0) -> None:
        """Gives the lease back when the database can be written again, as long as it has not expired by itself."""

        def keep_trying() -> None:
            end = time.monotonic() + LEASE_MS / 1000
            while time.monotonic() < end:
                try:
                    self.settle(state, reason=reason, error=error, next_attempt_at=next_attempt_at)
                except (StoreBusy, ServerAway):
                    time.sleep(_SETTLE_EVERY_S)
                    continue
                except LcmError:
                    pass  # the engine is closed, or the database is gone
                return

        threading.Thread(target=keep_trying, name="lcm-settle", daemon=True).start()

    def __enter__(self) -> Self:
        self._renewal.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._renewal.__exit__(kind, error, trace)

    def _renew(self) -> bool:
        with self._store.write() as writer:
            return writer.renew_lease(self.conversation_id, self.owner, self._clock(), LEASE_MS)
