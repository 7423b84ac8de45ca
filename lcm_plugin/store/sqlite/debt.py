"""Compaction debt with its lease, and the guards' state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lcm_plugin.store.records import Debt
from lcm_plugin.store.sqlite.conversations import Handle

_COLUMNS = (
    "conversation_id, state, reason, requested_at, budget, attempts, next_attempt_at, owner, lease_until, "
    "last_error, revision, next_seq, overhead, model, context_window"
)


class DebtQueries(Handle):
    """Reads of debt and guards."""

    def debt(self, conversation_id: int) -> Debt | None:
        row = self._one(
            f"SELECT {_COLUMNS} FROM compaction_debt WHERE conversation_id = ?", (conversation_id,)
        )
        return Debt(*row) if row else None

    def due_debts(self, now: int, *, limit: int = 100) -> list[Debt]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM compaction_debt WHERE state <> 'done' AND next_attempt_at <= ? "
            "AND (state <> 'running' OR lease_until < ?) ORDER BY next_attempt_at, conversation_id LIMIT ?",
            (now, now, limit),
        )
        return [Debt(*row) for row in rows]

    def held_debts(self, *, limit: int = 100) -> list[Debt]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM compaction_debt WHERE state = 'running' ORDER BY lease_until LIMIT ?",
            (limit,),
        )
        return [Debt(*row) for row in rows]

    def guard(self, key: str) -> dict[str, Any] | None:
        row = self._one("SELECT state FROM guards WHERE guard_key = ?", (key,))
        return dict(json.loads(row[0])) if row else None

    def guards(self) -> dict[str, dict[str, Any]]:
        return {key: json.loads(state) for key, state in self._all("SELECT guard_key, state FROM guards")}


class DebtChanges(DebtQueries):
    """Changes of debt and guards."""

    def save_guard(self, key: str, state: Mapping[str, Any]) -> None:
        self.db.execute(
            "INSERT INTO guards (guard_key, state) VALUES (?, ?) ON CONFLICT DO UPDATE SET state = excluded.state",
            (key, json.dumps(dict(state), sort_keys=True)),
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
        self.db.execute(
            "INSERT INTO compaction_debt (conversation_id, state, reason, requested_at, budget, overhead, model, "
            "context_window) VALUES (?, 'pending', ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "reason = excluded.reason, budget = excluded.budget, overhead = excluded.overhead, "
            "model = excluded.model, context_window = excluded.context_window, "
            "requested_at = CASE state WHEN 'done' THEN excluded.requested_at ELSE requested_at END, "
            "next_attempt_at = CASE state WHEN 'done' THEN 0 ELSE next_attempt_at END, "
            "state = CASE state WHEN 'done' THEN 'pending' ELSE state END",
            (conversation_id, reason, now, budget, overhead, model, window),
        )
        debt = self.debt(conversation_id)
        assert debt is not None
        return debt

    def claim_debt(self, conversation_id: int, owner: str, now: int, lease_ms: int) -> Debt | None:
        self.db.execute(
            "INSERT INTO compaction_debt (conversation_id, state, requested_at) VALUES (?, 'pending', ?) "
            "ON CONFLICT DO NOTHING",
            (conversation_id, now),
        )
        row = self._one(
            "UPDATE compaction_debt SET state = 'running', owner = ?, lease_until = ?, attempts = attempts + 1 "
            f"WHERE conversation_id = ? AND (state <> 'running' OR lease_until < ?) RETURNING {_COLUMNS}",
            (owner, now + lease_ms, conversation_id, now),
        )
        return Debt(*row) if row else None

    def renew_lease(self, conversation_id: int, owner: str, now: int, lease_ms: int) -> bool:
        cursor = self.db.execute(
            "UPDATE compaction_debt SET lease_until = ? WHERE conversation_id = ? AND owner = ? AND state = 'running'",
            (now + lease_ms, conversation_id, owner),
        )
        return cursor.rowcount == 1

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
        self.db.execute(
            "UPDATE compaction_debt SET state = ?, owner = NULL, lease_until = 0, last_error = ?, "
            "next_attempt_at = ?, reason = CASE WHEN ? = '' THEN reason ELSE ? END, "
            "attempts = CASE WHEN ? = 'done' THEN 0 ELSE attempts END, "
            "revision = (SELECT revision FROM conversations c WHERE c.conversation_id = compaction_debt.conversation_id), "
            "next_seq = (SELECT next_seq FROM conversations c WHERE c.conversation_id = compaction_debt.conversation_id) "
            "WHERE conversation_id = ? AND owner = ?",
            (state, error, next_attempt_at, reason, reason, state, conversation_id, owner),
        )
