"""Messages that a host took back, and the summaries that covered them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from lcm_plugin.store.records import Reopening
from lcm_plugin.store.sqlite.messages import MessageChanges
from lcm_plugin.store.sqlite.repair import RepairChanges

_AMONG = "IN (SELECT value FROM json_each(?))"


class WithdrawalChanges(MessageChanges, RepairChanges):
    """Changes of what a conversation's context leaves out."""

    def withdraw(self, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        fresh = self._of(conversation_id, message_ids, "hidden = 0")
        if not fresh:
            return
        self.hide(conversation_id, fresh, now)
        self.db.execute(
            f"UPDATE messages SET withdrawn_at = ? WHERE conversation_id = ? AND message_id {_AMONG}",
            (now, conversation_id, json.dumps(fresh)),
        )
        self.db.execute(
            "UPDATE conversations SET revision = revision + 1 WHERE conversation_id = ?", (conversation_id,)
        )
        self._carry_snapshots(conversation_id)

    def bring_back(self, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        withdrawn = self._of(conversation_id, message_ids, "withdrawn_at IS NOT NULL")
        if not withdrawn:
            return
        self.show(conversation_id, withdrawn, now)
        self.db.execute(
            "UPDATE conversations SET revision = revision + 1 WHERE conversation_id = ?", (conversation_id,)
        )
        self._carry_snapshots(conversation_id)

    def reopen(self, conversation_id: int, reopening: Reopening, now: int) -> None:
        ids = json.dumps(reopening.summary_ids)
        self.db.execute(
            f"DELETE FROM context_items WHERE conversation_id = ? AND summary_id {_AMONG}",
            (conversation_id, ids),
        )
        self.db.execute(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, tokens) "
            "SELECT m.conversation_id, m.seq, 'message', m.message_id, CASE WHEN m.hidden OR m.role = 'system' "
            "THEN 0 ELSE m.tokens END FROM summary_messages l JOIN messages m USING (message_id) "
            f"WHERE l.summary_id {_AMONG}",
            (ids,),
        )
        self.db.executemany(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id, tokens) "
            "VALUES (?, ?, 'summary', ?, ?)",
            [(conversation_id, ordinal, ref, tokens) for ref, ordinal, tokens in reopening.kept],
        )
        self.db.execute(
            "DELETE FROM message_parts WHERE part_id IN (SELECT p.part_id FROM summaries s CROSS JOIN messages m "
            "ON m.conversation_id = s.conversation_id AND m.seq = s.last_seq CROSS JOIN message_parts p "
            "ON p.part_id >= m.message_id * 65536 AND p.part_id < (m.message_id + 1) * 65536 "
            f"WHERE s.summary_id {_AMONG} AND p.type = 'compaction' "
            "AND json_extract(p.metadata, '$.summary_id') = s.summary_id)",
            (ids,),
        )
        self.unindex_summaries(reopening.summary_ids)
        for table in ("summary_parents", "summary_messages", "summaries"):
            self.db.execute(f"DELETE FROM {table} WHERE summary_id {_AMONG}", (ids,))
        self.recount(conversation_id)
        self._carry_snapshots(conversation_id)

    def _of(self, conversation_id: int, message_ids: Sequence[int], state: str) -> list[int]:
        rows = self._all(
            f"SELECT message_id FROM messages WHERE conversation_id = ? AND {state} AND message_id {_AMONG}",
            (conversation_id, json.dumps(list(message_ids))),
        )
        return [row[0] for row in rows]

    def _carry_snapshots(self, conversation_id: int) -> None:
        """What ``/new`` pruned lies before all that a host can take back: the new revision is no hindrance."""
        self.db.execute(
            "UPDATE context_snapshots SET revision = revision + 1 WHERE conversation_id = ? "
            "AND restored_at IS NULL",
            (conversation_id,),
        )
