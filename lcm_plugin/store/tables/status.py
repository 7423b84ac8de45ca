"""Totals of the whole database."""

from __future__ import annotations

from lcm_plugin.store.records import StoreStatus
from lcm_plugin.store.transaction import Transaction


class StatusTable(Transaction):
    """Totals from the running counters, less the records beside the talk, which an index counts."""

    def status(self) -> StoreStatus:
        conversations, active, messages, last = self.one(
            "SELECT count(*), count(*) FILTER (WHERE active), CAST(coalesce(sum(message_count), 0) AS bigint), "
            "max(updated_at) FROM conversations"
        )
        records = self.one("SELECT count(*) FROM messages WHERE hidden")[0]
        depths = dict(self.all("SELECT depth, count(*) FROM summaries GROUP BY depth ORDER BY depth"))
        return StoreStatus(
            self.location, self.size_bytes(), conversations, active, messages - records, depths, last
        )
