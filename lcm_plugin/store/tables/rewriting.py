"""Giving stored messages and summaries other texts, as a redaction does. Places and links stay."""

from __future__ import annotations

import json
from collections.abc import Mapping

from lcm_plugin.errors import NotFound
from lcm_plugin.store.insight.texts import MAKING, EarlierTextTable
from lcm_plugin.store.records import FileRecord, MessageHead, NewMessage, Summary, message_ref
from lcm_plugin.store.tables.indexes import DerivedIndexes
from lcm_plugin.store.tables.messages import MessageTable

# What is left of a cleared result in contexts does not depend on its length.
_UNCOUNTED = "m.hidden OR m.cleared_tokens IS NOT NULL"
_ABOVE = (
    "WITH RECURSIVE above (id) AS (SELECT summary_id FROM summary_messages WHERE message_id = :message "
    "UNION SELECT l.summary_id FROM above JOIN summary_parents l ON l.parent_summary_id = above.id) "
)


class RewritingTable(MessageTable, DerivedIndexes, EarlierTextTable):
    """Changes of texts, with everything that is counted from them."""

    def replace_message(self, message_id: int, message: NewMessage, removal_id: int) -> None:
        row = self.one("SELECT conversation_id FROM messages WHERE message_id = :message", message=message_id)
        if row is None:
            raise NotFound(f"no message {message_ref(message_id)}")
        here = {"here": row[0], "message": message_id}
        self.lock_conversation(row[0])
        tokens, identity, uncounted, emptied = self.one(
            f"SELECT m.tokens, m.identity, {_UNCOUNTED}, t.message_id FROM messages m LEFT JOIN removed_messages t "
            "ON t.conversation_id = m.conversation_id AND t.message_id = m.message_id AND t.whole "
            "WHERE m.conversation_id = :here AND m.message_id = :message",
            **here,
        )
        if emptied is not None:
            return
        self.unindex_messages([message_id])
        self.run(
            "UPDATE messages SET skeleton = :skeleton, tokens = :tokens, identity = :identity, sender = :sender, "
            "channel = :channel WHERE conversation_id = :here AND message_id = :message",
            skeleton=message.skeleton,
            tokens=message.tokens,
            identity=message.identity,
            sender=message.sender,
            channel=message.channel,
            **here,
        )
        self._replace_parts(row[0], message_id, message)
        self.reindex_messages([message_id])
        self.run(
            "INSERT INTO removed_messages AS t (conversation_id, message_id, removal_id, whole, former_identity) "
            f"VALUES (:here, :message, :removal, false, :former) ON CONFLICT ({self.sql.owner}message_id) DO UPDATE SET "
            "removal_id = excluded.removal_id, former_identity = coalesce(t.former_identity, excluded.former_identity)",
            removal=removal_id,
            former=identity if identity != message.identity else None,
            **here,
        )
        costs = not uncounted and message.role != "system"
        self._shift_message(row[0], message_id, message.tokens - tokens, costs=costs)

    def recount_message(self, head: MessageHead, tokens: int) -> None:
        here = {"here": head.conversation_id, "message": head.message_id}
        self.lock_conversation(head.conversation_id)
        row = self.one(
            f"SELECT {_UNCOUNTED} FROM messages m "
            "WHERE conversation_id = :here AND message_id = :message AND tokens = :tokens",
            tokens=head.tokens,
            **here,
        )
        if row is None:
            return
        self.run(
            "UPDATE messages SET tokens = :tokens WHERE conversation_id = :here AND message_id = :message",
            tokens=tokens,
            **here,
        )
        costs = not row[0] and head.role != "system"
        self._shift_message(head.conversation_id, head.message_id, tokens - head.tokens, costs=costs)

    def change_text(
        self, old: Summary, new: Summary, item_tokens: int, token_change: int, by: str, now: int
    ) -> bool:
        self.lock_conversation(old.conversation_id)
        row = self.one(
            "SELECT content FROM summaries WHERE conversation_id = :here AND summary_id = :summary",
            here=old.conversation_id,
            summary=old.summary_id,
        )
        if row is None or row[0] != old.content:
            return False
        self.keep_text(old, by, now)
        self.replace_summary(new, item_tokens, token_change)
        return True

    def replace_summary(self, summary: Summary, item_tokens: int, token_change: int) -> None:
        here = {"here": summary.conversation_id, "summary": summary.summary_id}
        self.lock_conversation(summary.conversation_id)
        self.unindex_summaries([summary.summary_id])
        self.run(
            f"UPDATE summaries SET {', '.join(f'{name} = :{name}' for name in MAKING)} "
            "WHERE conversation_id = :here AND summary_id = :summary",
            **{name: getattr(summary, name) for name in MAKING},
            **here,
        )
        self.reindex_summaries([summary.summary_id])
        self.run(
            "UPDATE summaries SET source_tokens = source_tokens + :change WHERE summary_id IN "
            "(SELECT summary_id FROM summary_parents WHERE parent_summary_id = :summary)",
            change=token_change,
            summary=summary.summary_id,
        )
        standing = self.one(
            "SELECT tokens FROM context_items WHERE conversation_id = :here AND summary_id = :summary", **here
        )
        if standing is not None:
            change = item_tokens - standing[0]
            self._shift_item(
                "summary_id", summary.summary_id, summary.conversation_id, "summary_tokens", change
            )
        self._bump_with_snapshots(summary.conversation_id)

    def rename_files(self, conversation_id: int, names: Mapping[str, str]) -> None:
        self.lock_conversation(conversation_id)
        rows = self.all(
            "SELECT summary_id, file_ids FROM summaries WHERE conversation_id = :here AND file_ids IS NOT NULL",
            here=conversation_id,
        )
        for summary_id, listed in rows:
            before = json.loads(listed)
            after = [new for name in before if (new := names.get(name, name))]
            if after != before:
                self.run(
                    "UPDATE summaries SET file_ids = :files WHERE conversation_id = :here AND summary_id = :summary",
                    files=json.dumps(after) if after else None,
                    here=conversation_id,
                    summary=summary_id,
                )

    def replace_file(self, record: FileRecord) -> None:
        self.run(
            "UPDATE large_files SET sha256 = :digest, storage_uri = :uri, byte_size = :size, line_count = :lines, "
            "file_name = :name, exploration_summary = :exploration WHERE file_id = :file",
            digest=record.sha256,
            uri=record.uri,
            size=record.byte_size,
            lines=record.line_count,
            name=record.name,
            exploration=record.exploration,
            file=record.file_id,
        )

    def scrub_debt(self, conversation_id: int) -> None:
        self.run(
            "UPDATE compaction_debt SET last_error = '' WHERE conversation_id = :here", here=conversation_id
        )

    def _replace_parts(self, conversation_id: int, message_id: int, message: NewMessage) -> None:
        here = {"here": conversation_id, "message": message_id}
        mine = self.sql.parts_of(":here", ":message")
        notes = self.all(
            f"SELECT p.metadata FROM message_parts p WHERE {mine} AND p.type = 'compaction' ORDER BY p.ordinal",
            **here,
        )
        self.run(f"DELETE FROM message_parts AS p WHERE {mine}", **here)
        self.insert_parts(conversation_id, message_id, message.parts)
        after = max((part.ordinal for part in message.parts), default=-1) + 1
        self.insert_notes(conversation_id, message_id, after, [row[0] for row in notes])

    def _shift_message(self, conversation_id: int, message_id: int, change: int, *, costs: bool) -> None:
        """A message's count changed: so does all that is made from it, and the conversation's revision."""
        self._shift_message_sums(message_id, change, change if costs else 0)
        if costs:
            self._shift_item("message_id", message_id, conversation_id, "raw_tokens", change)
        self._bump_with_snapshots(conversation_id)

    def _shift_message_sums(self, message_id: int, change: int, item_change: int) -> None:
        self.run(
            "UPDATE summaries SET source_tokens = source_tokens + :change WHERE summary_id IN "
            "(SELECT summary_id FROM summary_messages WHERE message_id = :message)",
            change=item_change,
            message=message_id,
        )
        self.run(
            f"{_ABOVE}UPDATE summaries SET message_tokens = message_tokens + :change WHERE summary_id IN "
            "(SELECT id FROM above)",
            change=change,
            message=message_id,
        )

    def _shift_item(self, column: str, ref: int | str, conversation_id: int, total: str, change: int) -> None:
        found = self.run(
            f"UPDATE context_items SET tokens = tokens + :change WHERE conversation_id = :here AND {column} = :ref",
            change=change,
            here=conversation_id,
            ref=ref,
        )
        if found:
            self.run(
                f"UPDATE conversations SET {total} = {total} + :change WHERE conversation_id = :here",
                change=change,
                here=conversation_id,
            )
