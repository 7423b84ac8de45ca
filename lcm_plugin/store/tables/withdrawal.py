"""Messages that a host took back, and the summaries that covered them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from lcm_plugin.store.records import Reopening
from lcm_plugin.store.tables.messages import MessageTable
from lcm_plugin.store.tables.repair import RepairTable


class WithdrawalTable(MessageTable, RepairTable):
    """Changes of what a conversation's context leaves out."""

    def release_host_ids(self, conversation_id: int, host_ids: Sequence[str]) -> None:
        if host_ids:
            self.lock_conversation(conversation_id)
            self.run(
                f"UPDATE messages SET host_id = NULL WHERE conversation_id = :here AND host_id {self.sql.any_of('ids')}",
                here=conversation_id,
                ids=self.sql.array(host_ids),
            )

    def withdraw(self, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        self.lock_conversation(conversation_id)
        fresh = self._in_state(conversation_id, message_ids, "withdrawn_at IS NULL")
        if not fresh:
            return
        self.hide(conversation_id, fresh, now)
        self.run(
            f"UPDATE messages SET withdrawn_at = :now WHERE {self.sql.ids_here('message_id')}",
            now=now,
            here=conversation_id,
            ids=self.sql.array(fresh),
        )
        self._bump_with_snapshots(conversation_id)

    def bring_back(self, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        self.lock_conversation(conversation_id)
        withdrawn = self._in_state(conversation_id, message_ids, "withdrawn_at IS NOT NULL")
        if not withdrawn:
            return
        self.show(conversation_id, withdrawn, now)
        self._bump_with_snapshots(conversation_id)

    def reopen(self, conversation_id: int, reopening: Reopening, now: int) -> None:
        self.lock_conversation(conversation_id)
        here = {"here": conversation_id, "ids": self.sql.array(reopening.summary_ids)}
        chosen = self.sql.ids_here("summary_id", "text")
        self.run(f"DELETE FROM context_items WHERE {chosen}", **here)
        self.run(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, tokens) "
            "SELECT m.conversation_id, m.seq, 'message', m.message_id, CASE WHEN m.hidden OR m.role = 'system' "
            "THEN 0 ELSE m.tokens END FROM summary_messages l JOIN messages m ON m.message_id = l.message_id"
            f"{self.sql.same_owner('l', 'm')} WHERE m.conversation_id = :here AND l.summary_id {self.sql.any_of('ids')}",
            **here,
        )
        self.run_many(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id, tokens) "
            "VALUES (:here, :ordinal, 'summary', :summary, :tokens)",
            [
                {"here": conversation_id, "ordinal": ordinal, "summary": ref, "tokens": tokens}
                for ref, ordinal, tokens in reopening.kept
            ],
        )
        self._drop_notes(conversation_id, reopening.summary_ids)
        self.unindex_summaries(reopening.summary_ids)
        for table in ("summary_parents", "summary_messages", "summaries"):
            self.run(f"DELETE FROM {table} WHERE {chosen}", **here)
        self.recount(conversation_id)
        self.carry_snapshots(conversation_id)

    def _drop_notes(self, conversation_id: int, summary_ids: Sequence[str]) -> None:
        """Deletes the ``compaction`` parts that name summaries on the newest messages these cover."""
        notes = self.all(
            f"SELECT p.message_id, p.ordinal, p.metadata FROM {self.sql.given('ids', 'text')} CROSS JOIN summaries s "
            "CROSS JOIN messages m CROSS JOIN message_parts p WHERE s.summary_id = ids.value "
            "AND m.conversation_id = s.conversation_id AND m.seq = s.last_seq "
            f"AND {self.sql.parts_of('m.conversation_id', 'm.message_id')} AND p.type = 'compaction'",
            ids=self.sql.array(summary_ids),
        )
        self.run_many(
            f"DELETE FROM message_parts AS p WHERE {self.sql.parts_of(':here', ':message')} AND p.ordinal = :ordinal",
            [
                {"here": conversation_id, "message": message_id, "ordinal": ordinal}
                for message_id, ordinal, note in set(notes)
                if json.loads(note).get("summary_id") in summary_ids
            ],
        )

    def _in_state(self, conversation_id: int, message_ids: Sequence[int], state: str) -> list[int]:
        rows = self.all(
            f"SELECT message_id FROM messages WHERE {self.sql.ids_here('message_id')} AND {state}",
            here=conversation_id,
            ids=self.sql.array(message_ids),
        )
        return [row[0] for row in rows]
