"""Totals of the whole database."""

from __future__ import annotations

from lcm_plugin.store.postgres.conversations import Handle
from lcm_plugin.store.records import StoreStatus


class StatusQueries(Handle):
    """Totals from the running counters: no scan of messages."""

    location = ""

    def status(self) -> StoreStatus:
        conversations, active, messages = self._one(
            "SELECT count(*), count(*) FILTER (WHERE active), coalesce(sum(message_count), 0) FROM conversations"
        )
        depths = dict(self._all("SELECT depth, count(*) FROM summaries GROUP BY depth ORDER BY depth"))
        size = self._one(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        )[0]
        return StoreStatus(self.location, int(size), conversations, active, int(messages), depths)
