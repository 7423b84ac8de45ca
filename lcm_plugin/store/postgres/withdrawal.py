"""Messages that a host took back, and the summaries that covered them."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_plugin.store.postgres.messages import MessageChanges
from lcm_plugin.store.postgres.repair import RepairChanges
from lcm_plugin.store.records import Reopening


class WithdrawalChanges(MessageChanges, RepairChanges):
    """Changes of what a conversation's context leaves out."""

    def withdraw(self, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        self.lock_conversation(conversation_id)
        fresh = self._of(conversation_id, message_ids, "NOT hidden")
        if not fresh:
            return
        self.hide(conversation_id, fresh, now)
        self._run(
            "UPDATE messages SET withdrawn_at = %s WHERE conversation_id = %s AND message_id = ANY(%s)",
            (now, conversation_id, fresh),
        )
        self._run(
            "UPDATE conversations SET revision = revision + 1 WHERE conversation_id = %s", (conversation_id,)
        )
        self._carry_snapshots(conversation_id)

    def bring_back(self, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        self.lock_conversation(conversation_id)
        withdrawn = self._of(conversation_id, message_ids, "withdrawn_at IS NOT NULL")
        if not withdrawn:
            return
        self.show(conversation_id, withdrawn, now)
        self._run(
            "UPDATE conversations SET revision = revision + 1 WHERE conversation_id = %s", (conversation_id,)
        )
        self._carry_snapshots(conversation_id)

    def reopen(self, conversation_id: int, reopening: Reopening, now: int) -> None:
        self.lock_conversation(conversation_id)
        here = (conversation_id, list(reopening.summary_ids))
        self._run("DELETE FROM context_items WHERE conversation_id = %s AND summary_id = ANY(%s)", here)
        self._run(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, tokens) "
            "SELECT m.conversation_id, m.seq, 'message', m.message_id, CASE WHEN m.hidden OR m.role = 'system' "
            "THEN 0 ELSE m.tokens END FROM summary_messages l JOIN messages m USING (conversation_id, message_id) "
            "WHERE l.conversation_id = %s AND l.summary_id = ANY(%s)",
            here,
        )
        self._many(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id, tokens) "
            "VALUES (%s, %s, 'summary', %s, %s)",
            [(conversation_id, ordinal, ref, tokens) for ref, ordinal, tokens in reopening.kept],
        )
        self._run(
            "DELETE FROM message_parts p USING summaries s, messages m WHERE s.conversation_id = %s "
            "AND s.summary_id = ANY(%s) AND m.conversation_id = s.conversation_id AND m.seq = s.last_seq "
            "AND p.conversation_id = m.conversation_id AND p.message_id = m.message_id AND p.type = 'compaction' "
            "AND p.metadata ->> 'summary_id' = s.summary_id",
            here,
        )
        self.unindex_summaries(reopening.summary_ids)
        for table in ("summary_parents", "summary_messages", "summaries"):
            self._run(f"DELETE FROM {table} WHERE conversation_id = %s AND summary_id = ANY(%s)", here)
        self.recount(conversation_id)
        self._carry_snapshots(conversation_id)

    def _of(self, conversation_id: int, message_ids: Sequence[int], state: str) -> list[int]:
        rows = self._all(
            f"SELECT message_id FROM messages WHERE conversation_id = %s AND {state} AND message_id = ANY(%s)",
            (conversation_id, list(message_ids)),
        )
        return [row[0] for row in rows]

    def _carry_snapshots(self, conversation_id: int) -> None:
        """What ``/new`` pruned lies before all that a host can take back: the new revision is no hindrance."""
        self._run(
            "UPDATE context_snapshots SET revision = revision + 1 WHERE conversation_id = %s "
            "AND restored_at IS NULL",
            (conversation_id,),
        )
