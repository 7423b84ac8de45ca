"""Totals of the whole database."""

from __future__ import annotations

from lcm_plugin.store.records import StoreStatus
from lcm_plugin.store.sqlite.conversations import Handle


class StatusQueries(Handle):
    """Totals from the running counters: no scan of messages."""

    location = ""

    def status(self) -> StoreStatus:
        conversations, active, messages = self._one(
            "SELECT count(*), coalesce(sum(active), 0), coalesce(sum(message_count), 0) FROM conversations"
        )
        depths = dict(self._all("SELECT depth, count(*) FROM summaries GROUP BY depth ORDER BY depth"))
        return StoreStatus(self.location, self._size(), conversations, active, messages, depths)

    def _size(self) -> int:
        pages = int(self._one("PRAGMA page_count")[0])
        return pages * int(self._one("PRAGMA page_size")[0])
