"""Messages that a host took back, and the summaries that covered them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

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

    def name_messages(self, conversation_id: int, names: Mapping[int, str]) -> None:
        if not names:
            return
        self.release_host_ids(conversation_id, list(names.values()))
        self.run_many(
            "UPDATE messages SET host_id = :name WHERE conversation_id = :here AND message_id = :message",
            [{"here": conversation_id, "message": one, "name": name} for one, name in names.items()],
        )

    def take_place(self, conversation_id: int, message_id: int, instead_of: int, now: int) -> None:
        self.withdraw(conversation_id, [instead_of], now)
        self.bring_back(conversation_id, [message_id], now)
        old, new = self.messages_by_id([instead_of, message_id]).values()
        place, end = old.head, new.head.seq
        same_calls = (place.calls, place.answers) == (new.head.calls, new.head.answers)
        here = {"here": conversation_id, "old": instead_of, "new": message_id}
        for table, column in (("messages", "seq"), ("context_items", "ordinal")):
            # One is moved away first: two rows never have one place.
            for row, value in (("old", -end), ("new", place.seq), ("old", end)):
                self.run(
                    f"UPDATE {table} SET {column} = :value WHERE conversation_id = :here AND message_id = :{row}",
                    **here,
                    value=value,
                )
        change = "UPDATE messages SET follows = :before, group_seq = :group WHERE conversation_id = :here AND message_id ="
        self.run(f"{change} :old", **here, before=place.before, group=end)
        self.run(
            f"{change} :new", **here, before=place.before, group=place.group_seq if same_calls else place.seq
        )
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
