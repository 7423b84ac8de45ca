"""Compaction debt with its lease, and the guards' state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lcm_plugin.store.records import Debt
from lcm_plugin.store.transaction import Transaction
from lcm_plugin.types import Reason

_COLUMNS = (
    "conversation_id, state, reason, requested_at, budget, attempts, next_attempt_at, owner, lease_until, "
    "last_error, revision, next_seq, overhead, model, context_window"
)


class DebtTable(Transaction):
    """Reads and changes of debt and guards."""

    def debt(self, conversation_id: int) -> Debt | None:
        row = self.one(
            f"SELECT {_COLUMNS} FROM compaction_debt WHERE conversation_id = :here", here=conversation_id
        )
        return Debt(*row) if row else None

    def due_debts(self, now: int, *, limit: int = 100) -> list[Debt]:
        rows = self.all(
            f"SELECT {_COLUMNS} FROM compaction_debt WHERE state <> 'done' AND next_attempt_at <= :now "
            "AND (state <> 'running' OR lease_until < :now) ORDER BY next_attempt_at, conversation_id LIMIT :limit",
            now=now,
            limit=limit,
        )
        return [Debt(*row) for row in rows]

    def held_debts(self, *, limit: int = 100) -> list[Debt]:
        rows = self.all(
            f"SELECT {_COLUMNS} FROM compaction_debt WHERE state = 'running' ORDER BY lease_until LIMIT :limit",
            limit=limit,
        )
        return [Debt(*row) for row in rows]

    def guard(self, key: str) -> dict[str, Any] | None:
        row = self.one("SELECT state FROM guards WHERE guard_key = :key", key=key)
        return dict(json.loads(row[0])) if row else None

    def guards(self) -> dict[str, dict[str, Any]]:
        return {key: json.loads(state) for key, state in self.all("SELECT guard_key, state FROM guards")}

    def save_guard(self, key: str, state: Mapping[str, Any]) -> None:
        self.run(
            "INSERT INTO guards (guard_key, state) VALUES (:key, :state) "
            "ON CONFLICT (guard_key) DO UPDATE SET state = excluded.state",
            key=key,
            state=json.dumps(dict(state), sort_keys=True),
        )

    def drop_guard(self, key: str) -> None:
        self.run("DELETE FROM guards WHERE guard_key = :key", key=key)

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
        pending = self.sql.enum("'pending'", "debt_state")
        row = self.one(
            "INSERT INTO compaction_debt AS d (conversation_id, state, reason, requested_at, budget, overhead, model, "
            "context_window) VALUES (:here, 'pending', :reason, :now, :budget, :overhead, :model, :window) "
            "ON CONFLICT (conversation_id) DO UPDATE SET reason = excluded.reason, budget = excluded.budget, "
            "overhead = excluded.overhead, model = excluded.model, context_window = excluded.context_window, "
            "requested_at = CASE d.state WHEN 'done' THEN excluded.requested_at ELSE d.requested_at END, "
            "next_attempt_at = CASE d.state WHEN 'done' THEN 0 ELSE d.next_attempt_at END, "
            f"state = CASE d.state WHEN 'done' THEN {pending} ELSE d.state END "
            f"RETURNING {_COLUMNS}",
            here=conversation_id,
            reason=reason,
            now=now,
            budget=budget,
            overhead=overhead,
            model=model,
            window=window,
        )
        return Debt(*row)

    def claim_debt(self, conversation_id: int, owner: str, now: int, lease_ms: int) -> Debt | None:
        self.run(
            "INSERT INTO compaction_debt (conversation_id, state, requested_at) VALUES (:here, 'pending', :now) "
            "ON CONFLICT DO NOTHING",
            here=conversation_id,
            now=now,
        )
        row = self.one(
            "UPDATE compaction_debt SET state = 'running', owner = :owner, lease_until = :until, "
            "attempts = attempts + 1 WHERE conversation_id = (SELECT conversation_id FROM compaction_debt "
            "WHERE conversation_id = :here AND (state <> 'running' OR lease_until < :now)"
            f"{self.sql.skip_locked}) RETURNING {_COLUMNS}",
            owner=owner,
            until=now + lease_ms,
            here=conversation_id,
            now=now,
        )
        return Debt(*row) if row else None

    def renew_lease(self, conversation_id: int, owner: str, now: int, lease_ms: int) -> bool:
        changed = self.run(
            "UPDATE compaction_debt SET lease_until = :until "
            "WHERE conversation_id = :here AND owner = :owner AND state = 'running'",
            until=now + lease_ms,
            here=conversation_id,
            owner=owner,
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
        state_given = self.sql.enum(":state", "debt_state")
        self.run(
            f"UPDATE compaction_debt AS d SET state = {state_given}, owner = NULL, lease_until = 0, "
            "last_error = :error, next_attempt_at = :next, "
            f"reason = CASE WHEN :reason = '' OR d.reason = '{Reason.HOST_COMPACTS}' THEN d.reason ELSE :reason END, "
            f"attempts = CASE WHEN {state_given} = 'done' THEN 0 ELSE d.attempts END, "
            "revision = c.revision, next_seq = c.next_seq FROM conversations c "
            "WHERE c.conversation_id = d.conversation_id AND d.conversation_id = :here AND d.owner = :owner",
            state=state,
            error=error,
            next=next_attempt_at,
            reason=reason,
            here=conversation_id,
            owner=owner,
        )
