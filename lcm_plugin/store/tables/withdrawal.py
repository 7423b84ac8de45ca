"""Messages that a host took back, and the summaries that covered them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from lcm_plugin.store.records import Reopening
from lcm_plugin.store.tables.indexes import DerivedIndexes
from lcm_plugin.store.tables.messages import MessageTable, item_tokens
from lcm_plugin.store.tables.repair import RepairTable

# An insertion moves the spans of the summaries behind it, which are few where it stands near the end.
SPANS_SCHEMA = "CREATE INDEX summaries_last_seq ON summaries (conversation_id, last_seq);"


class WithdrawalTable(MessageTable, RepairTable, DerivedIndexes):
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

    def insert_before(self, conversation_id: int, message_ids: Sequence[int], follower: int) -> None:
        self.lock_conversation(conversation_id)
        rows = self.messages_by_id([*message_ids, follower])
        place, before = rows[follower].head.seq, rows[follower].head.before
        first = min(rows[message_id].head.seq for message_id in message_ids)
        moved = "CASE WHEN {0} >= :first THEN {0} - :back WHEN {0} >= :place THEN {0} + :count ELSE {0} END".format
        values = {
            "here": conversation_id,
            "place": place,
            "first": first,
            "back": first - place,
            "count": len(message_ids),
        }
        # They are moved away first: two rows never have one place.
        self.run(
            f"UPDATE messages SET seq = -({moved('seq')}), group_seq = {moved('group_seq')}, follows = {moved('follows')} "
            "WHERE conversation_id = :here AND seq >= :place",
            **values,
        )
        self.run(
            f"UPDATE context_items SET ordinal = -({moved('ordinal')}) WHERE conversation_id = :here AND ordinal >= :place",
            **values,
        )
        for table, column in (("messages", "seq"), ("context_items", "ordinal")):
            self.run(
                f"UPDATE {table} SET {column} = -{column} WHERE conversation_id = :here AND {column} < 0",
                here=conversation_id,
            )
        self.run(
            f"UPDATE summaries SET first_seq = {moved('first_seq')}, last_seq = {moved('last_seq')} "
            "WHERE conversation_id = :here AND last_seq >= :place",
            **values,
        )
        # What stands elsewhere than it came has the row before it written down.
        self.run(
            "UPDATE messages SET follows = CASE WHEN seq = :place THEN :before ELSE seq - 1 END "
            "WHERE conversation_id = :here AND seq >= :place AND seq < :end "
            "OR conversation_id = :here AND seq = :end AND follows IS NOT NULL",
            here=conversation_id,
            place=place,
            end=place + len(message_ids),
            before=before,
        )
        self._move_marks(conversation_id, place, len(message_ids))
        self._bump_with_snapshots(conversation_id)

    def _move_marks(self, conversation_id: int, place: int, count: int) -> None:
        """Moves what names rows by their seq outside their tables: the restart, instructions, what ``/new`` took out."""
        self.run(
            "UPDATE conversations SET restart_seq = restart_seq + :count "
            "WHERE conversation_id = :here AND restart_seq > :place",
            here=conversation_id,
            place=place,
            count=count,
        )
        [(instructions,)] = self.all(
            "SELECT instructions FROM conversations WHERE conversation_id = :here", here=conversation_id
        )
        seqs = [seq + count if seq >= place else seq for seq in map(int, (instructions or "").split())]
        self.run(
            "UPDATE conversations SET instructions = :seqs WHERE conversation_id = :here",
            here=conversation_id,
            seqs=" ".join(map(str, seqs)),
        )
        taken_out = self.all(
            "SELECT snapshot_id, items FROM context_snapshots WHERE conversation_id = :here AND restored_at IS NULL",
            here=conversation_id,
        )
        for snapshot_id, stored in taken_out:
            items = json.loads(stored) if isinstance(stored, str) else stored
            moved = [[at + count if at >= place else at, *rest] for at, *rest in items]
            if moved != items:
                self.run(
                    "UPDATE context_snapshots SET items = :items WHERE conversation_id = :here AND snapshot_id = :id",
                    here=conversation_id,
                    id=snapshot_id,
                    items=json.dumps(moved, separators=(",", ":")),
                )

    def reopen(self, conversation_id: int, reopening: Reopening, now: int) -> None:
        self.lock_conversation(conversation_id)
        here = {"here": conversation_id, "ids": self.sql.array(reopening.summary_ids)}
        chosen = self.sql.ids_here("summary_id", "text")
        self.run(f"DELETE FROM context_items WHERE {chosen}", **here)
        self.run(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, tokens) "
            "SELECT m.conversation_id, m.seq, 'message', m.message_id, "
            f"{item_tokens('m.')} FROM summary_messages l JOIN messages m ON m.message_id = l.message_id"
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
        for table in ("summary_parents", "summary_messages", "summary_texts", "summaries"):
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
