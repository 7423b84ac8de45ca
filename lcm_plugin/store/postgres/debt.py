"""Compaction debt with its lease, and the guards' state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg.types.json import Jsonb

from lcm_plugin.store.postgres.conversations import Handle
from lcm_plugin.store.records import Debt

_COLUMNS = (
    "conversation_id, state::text, reason, requested_at, budget, attempts, next_attempt_at, owner, lease_until, "
    "last_error, revision, next_seq, overhead, model, context_window"
)


class DebtQueries(Handle):
    """Reads of debt and guards."""

    def debt(self, conversation_id: int) -> Debt | None:
        row = self._one(
            f"SELECT {_COLUMNS} FROM compaction_debt WHERE conversation_id = %s", (conversation_id,)
        )
        return Debt(*row) if row else None

    def due_debts(self, now: int, *, limit: int = 100) -> list[Debt]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM compaction_debt WHERE state <> 'done' AND next_attempt_at <= %s "
            "AND (state <> 'running' OR lease_until < %s) ORDER BY next_attempt_at, conversation_id LIMIT %s",
            (now, now, limit),
        )
        return [Debt(*row) for row in rows]

    def held_debts(self, *, limit: int = 100) -> list[Debt]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM compaction_debt WHERE state = 'running' ORDER BY lease_until LIMIT %s",
            (limit,),
        )
        return [Debt(*row) for row in rows]

    def guard(self, key: str) -> dict[str, Any] | None:
        row = self._one("SELECT state FROM guards WHERE guard_key = %s", (key,))
        return dict(row[0]) if row else None

    def guards(self) -> dict[str, dict[str, Any]]:
        return dict(self._all("SELECT guard_key, state FROM guards"))


class DebtChanges(DebtQueries):
    """Changes of debt and guards."""

    def save_guard(self, key: str, state: Mapping[str, Any]) -> None:
        self._run(
            "INSERT INTO guards (guard_key, state) VALUES (%s, %s) "
            "ON CONFLICT (guard_key) DO UPDATE SET state = excluded.state",
            (key, Jsonb(dict(state))),
        )

    def request_compaction(
        self,
        conversation_id: int,
        reason: str,
        budget: int | None,
        now: int,
        *,
        overhead: int = 0,
        model: str = "",
        window: int | None = None,
    ) -> Debt:
        row = self._one(
            "INSERT INTO compaction_debt AS d (conversation_id, state, reason, requested_at, budget, overhead, "
            "model, context_window) VALUES (%s, 'pending', %s, %s, %s, %s, %s, %s) "
            "ON CONFLICT (conversation_id) DO UPDATE SET reason = excluded.reason, budget = excluded.budget, "
            "overhead = excluded.overhead, model = excluded.model, context_window = excluded.context_window, "
            "requested_at = CASE d.state WHEN 'done' THEN excluded.requested_at ELSE d.requested_at END, "
            "next_attempt_at = CASE d.state WHEN 'done' THEN 0 ELSE d.next_attempt_at END, "
            "state = CASE d.state WHEN 'done' THEN 'pending'::debt_state ELSE d.state END "
            f"RETURNING {_COLUMNS}",
            (conversation_id, reason, now, budget, overhead, model, window),
        )
        return Debt(*row)

    def claim_debt(self, conversation_id: int, owner: str, now: int, lease_ms: int) -> Debt | None:
        self._run(
            "INSERT INTO compaction_debt (conversation_id, state, requested_at) VALUES (%s, 'pending', %s) "
            "ON CONFLICT DO NOTHING",
            (conversation_id, now),
        )
        row = self._one(
            "UPDATE compaction_debt SET state = 'running', owner = %s, lease_until = %s, attempts = attempts + 1 "
            "WHERE conversation_id = (SELECT conversation_id FROM compaction_debt WHERE conversation_id = %s "
            f"AND (state <> 'running' OR lease_until < %s) FOR UPDATE SKIP LOCKED) RETURNING {_COLUMNS}",
            (owner, now + lease_ms, conversation_id, now),
        )
        return Debt(*row) if row else None

    def renew_lease(self, conversation_id: int, owner: str, now: int, lease_ms: int) -> bool:
        changed = self._run(
            "UPDATE compaction_debt SET lease_until = %s WHERE conversation_id = %s AND owner = %s "
            "AND state = 'running'",
            (now + lease_ms, conversation_id, owner),
        )
        return changed == 1

    def settle_debt(
        self,
        conversation_id: int,
        owner: str,
        state: str,
        now: int,
        *,
        reason: str = "",
        error: str = "",
        next_attempt_at: int = 0,
    ) -> None:
        self._run(
            "UPDATE compaction_debt d SET state = %(state)s::debt_state, owner = NULL, lease_until = 0, "
            "last_error = %(error)s, next_attempt_at = %(next)s, "
            "reason = CASE WHEN %(reason)s = '' THEN d.reason ELSE %(reason)s END, "
            "attempts = CASE WHEN %(state)s = 'done' THEN 0 ELSE d.attempts END, "
            "revision = c.revision, next_seq = c.next_seq FROM conversations c "
            "WHERE c.conversation_id = d.conversation_id AND d.conversation_id = %(conversation)s "
            "AND d.owner = %(owner)s",
            {
                "state": state,
                "error": error,
                "next": next_attempt_at,
                "reason": reason,
                "conversation": conversation_id,
                "owner": owner,
            },
        )
