"""The statements of `InsightReader` that no other table has."""

from __future__ import annotations

from lcm_plugin.store.insight.records import SummaryBill
from lcm_plugin.store.records import Conversation
from lcm_plugin.store.tables.conversations import SELECT, conversation_of
from lcm_plugin.store.transaction import Transaction


class InsightTable(Transaction):
    """Reads for people."""

    def conversations_used_since(self, since: int, *, limit: int) -> list[Conversation]:
        rows = self.all(
            f"{SELECT} WHERE updated_at >= :since ORDER BY updated_at DESC, conversation_id DESC LIMIT :limit",
            since=since,
            limit=limit,
        )
        return [conversation_of(row) for row in rows]

    def summary_bill(self, conversation_id: int | None) -> list[SummaryBill]:
        chosen = "" if conversation_id is None else "WHERE conversation_id = :here "
        rows = self.all(
            "SELECT model, level, count(*), CAST(sum(source_tokens) AS bigint), CAST(sum(tokens) AS bigint), "
            f"max(created_at) FROM summaries {chosen}GROUP BY model, level ORDER BY model, level",
            here=conversation_id,
        )
        return [SummaryBill(*row) for row in rows]
