"""Giving stored messages and summaries other texts, as a redaction does. Places and links stay."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

from lcm_plugin.errors import NotFound
from lcm_plugin.store.records import FileRecord, NewMessage, Summary, message_ref
from lcm_plugin.store.sqlite.messages import insert_parts, part_rows
from lcm_plugin.store.sqlite.schema import PART_ID_SHIFT
from lcm_plugin.store.sqlite.search import SearchChanges

_ABOVE = (
    "WITH RECURSIVE above (id) AS (SELECT summary_id FROM {links} WHERE {source} = ? "
    "UNION SELECT l.summary_id FROM above JOIN summary_parents l ON l.parent_summary_id = above.id) "
)


class RewritingChanges(SearchChanges):
    """Changes of texts, with everything that is counted from them."""

    def replace_message(self, message_id: int, message: NewMessage, removal_id: int) -> None:
        row = self._one(
            "SELECT conversation_id, tokens, identity, hidden FROM messages WHERE message_id = ?",
            (message_id,),
        )
        if row is None:
            raise NotFound(f"no message {message_ref(message_id)}")
        conversation_id, tokens, identity, hidden = row
        if self._one("SELECT 1 FROM removed_messages WHERE message_id = ? AND whole = 1", (message_id,)):
            return
        self.unindex_messages([message_id])
        self.db.execute(
            "UPDATE messages SET skeleton = ?, tokens = ?, identity = ?, sender = ?, channel = ? WHERE message_id = ?",
            (
                message.skeleton,
                message.tokens,
                message.identity,
                message.sender,
                message.channel,
                message_id,
            ),
        )
        self._replace_parts(message_id, message)
        self.reindex_messages([message_id])
        self.db.execute(
            "INSERT INTO removed_messages (message_id, conversation_id, removal_id, whole, former_identity) "
            "VALUES (?, ?, ?, 0, ?) ON CONFLICT (message_id) DO UPDATE SET removal_id = excluded.removal_id, "
            "former_identity = coalesce(former_identity, excluded.former_identity)",
            (message_id, conversation_id, removal_id, identity if identity != message.identity else None),
        )
        change = message.tokens - tokens
        costs = not hidden and message.role != "system"
        self._shift_message_sums(message_id, change, change if costs else 0)
        if costs:
            self._shift_item("message_id", message_id, conversation_id, "raw_tokens", change)
        self._bump_with_snapshots(conversation_id)

    def replace_summary(self, summary: Summary, item_tokens: int, token_change: int) -> None:
        self.unindex_summaries([summary.summary_id])
        self.db.execute(
            "UPDATE summaries SET content = ?, tokens = ? WHERE summary_id = ?",
            (summary.content, summary.tokens, summary.summary_id),
        )
        self.reindex_summaries([summary.summary_id])
        self.db.execute(
            "UPDATE summaries SET source_tokens = source_tokens + ? WHERE summary_id IN "
            "(SELECT summary_id FROM summary_parents WHERE parent_summary_id = ?)",
            (token_change, summary.summary_id),
        )
        standing = self._one("SELECT tokens FROM context_items WHERE summary_id = ?", (summary.summary_id,))
        if standing is not None:
            change = item_tokens - standing[0]
            self._shift_item(
                "summary_id", summary.summary_id, summary.conversation_id, "summary_tokens", change
            )
        self._bump_with_snapshots(summary.conversation_id)

    def rename_files(self, conversation_id: int, names: Mapping[str, str]) -> None:
        rows = self._all(
            "SELECT summary_id, file_ids FROM summaries WHERE conversation_id = ? AND file_ids IS NOT NULL",
            (conversation_id,),
        )
        for summary_id, listed in rows:
            before = json.loads(listed)
            after = [new for name in before if (new := names.get(name, name))]
            if after != before:
                self.db.execute(
                    "UPDATE summaries SET file_ids = ? WHERE summary_id = ?",
                    (json.dumps(after) if after else None, summary_id),
                )

    def replace_file(self, record: FileRecord) -> None:
        self.db.execute(
            "UPDATE large_files SET sha256 = ?, storage_uri = ?, byte_size = ?, line_count = ?, file_name = ?, "
            "exploration_summary = ? WHERE file_id = ?",
            (
                record.sha256,
                record.uri,
                record.byte_size,
                record.line_count,
                record.name,
                record.exploration,
                record.file_id,
            ),
        )

    def scrub_debt(self, conversation_id: int) -> None:
        self.db.execute(
            "UPDATE compaction_debt SET last_error = '' WHERE conversation_id = ?", (conversation_id,)
        )

    def _replace_parts(self, message_id: int, message: NewMessage) -> None:
        first, end = message_id << PART_ID_SHIFT, (message_id + 1) << PART_ID_SHIFT
        notes = self._all(
            "SELECT metadata FROM message_parts WHERE part_id >= ? AND part_id < ? AND type = 'compaction' "
            "ORDER BY part_id",
            (first, end),
        )
        self.db.execute("DELETE FROM message_parts WHERE part_id >= ? AND part_id < ?", (first, end))
        insert_parts(self.db, part_rows(message_id, message.parts))
        after = max((part.ordinal for part in message.parts), default=-1) + 1
        insert_notes(self.db, message_id, after, [row[0] for row in notes])

    def _shift_message_sums(self, message_id: int, change: int, item_change: int) -> None:
        self.db.execute(
            "UPDATE summaries SET source_tokens = source_tokens + ? WHERE summary_id IN "
            "(SELECT summary_id FROM summary_messages WHERE message_id = ?)",
            (item_change, message_id),
        )
        self.db.execute(
            _ABOVE.format(links="summary_messages", source="message_id")
            + "UPDATE summaries SET message_tokens = message_tokens + ? WHERE summary_id IN (SELECT id FROM above)",
            (message_id, change),
        )

    def _shift_item(self, column: str, ref: int | str, conversation_id: int, total: str, change: int) -> None:
        found = self.db.execute(
            f"UPDATE context_items SET tokens = tokens + ? WHERE conversation_id = ? AND {column} = ?",
            (change, conversation_id, ref),
        ).rowcount
        if found:
            self.db.execute(
                f"UPDATE conversations SET {total} = {total} + ? WHERE conversation_id = ?",
                (change, conversation_id),
            )

    def _bump_with_snapshots(self, conversation_id: int) -> None:
        """A new revision, of which a ``/new`` that could be undone knows, so that it still can be."""
        self.db.execute(
            "UPDATE conversations SET revision = revision + 1 WHERE conversation_id = ?", (conversation_id,)
        )
        self.db.execute(
            "UPDATE context_snapshots SET revision = revision + 1 WHERE conversation_id = ? AND restored_at IS NULL",
            (conversation_id,),
        )


def insert_notes(db: sqlite3.Connection, message_id: int, first: int, notes: Sequence[str]) -> None:
    """Puts this package's own notes on a message back, as parts from an ordinal on."""
    db.executemany(
        "INSERT INTO message_parts (part_id, message_id, ordinal, type, path, text, metadata) "
        "VALUES (?, ?, ?, 'compaction', '', '', ?)",
        [
            ((message_id << PART_ID_SHIFT) + first + n, message_id, first + n, note)
            for n, note in enumerate(notes)
        ],
    )
