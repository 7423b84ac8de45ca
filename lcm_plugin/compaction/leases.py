"""The right to compact one conversation: the lease of its debt."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from lcm_plugin.errors import LcmError, ServerAway, StoreBusy
from lcm_plugin.store.leases import Lease
from lcm_plugin.store.protocol import Store, Writer
from lcm_plugin.store.records import Debt
from lcm_plugin.store.retry import retry_lost

LEASE_MS = 30_000
_SETTLE_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class _DebtClaims:
    conversation_id: int

    def claim(self, writer: Writer, owner: str, now: int, lease_ms: int) -> Debt | None:
        return writer.claim_debt(self.conversation_id, owner, now, lease_ms)

    def holder(self, writer: Writer) -> str | None:
        debt = writer.debt(self.conversation_id)
        return debt.owner if debt else None

    def take_away(self, writer: Writer, holder: str, now: int) -> None:
        writer.settle_debt(self.conversation_id, holder, "pending", now)

    def renew(self, writer: Writer, owner: str, now: int, lease_ms: int) -> bool:
        return writer.renew_lease(self.conversation_id, owner, now, lease_ms)


class CompactionLease(Lease[Debt]):
    """A lease of one conversation; `settle` gives it back.

    The row's ``attempts`` is how often in a row it was taken, this time included, without success.
    """

    @classmethod
    def of(cls, store: Store, conversation_id: int, clock: Callable[[], int]) -> Self | None:
        """The lease, or None when somebody alive holds it."""
        return cls.take(store, _DebtClaims(conversation_id), clock, LEASE_MS)

    @property
    def conversation_id(self) -> int:
        """The conversation that may be compacted."""
        return self.row.conversation_id

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
