"""Giving stored messages and summaries other texts, as a redaction does. Places and links stay."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from lcm_plugin.errors import NotFound
from lcm_plugin.store.postgres.appending import part_row
from lcm_plugin.store.postgres.search import SearchChanges
from lcm_plugin.store.records import FileRecord, NewMessage, Summary, message_ref

_ABOVE = (
    "WITH RECURSIVE above (id) AS (SELECT summary_id FROM summary_messages WHERE message_id = %s "
    "UNION SELECT l.summary_id FROM above JOIN summary_parents l ON l.parent_summary_id = above.id) "
)


class RewritingChanges(SearchChanges):
    """Changes of texts, with everything that is counted from them."""

    def replace_message(self, message_id: int, message: NewMessage, removal_id: int) -> None:
        conversation_id = self._conversation_of(message_id)
        self.lock_conversation(conversation_id)
        row = self._one(
            "SELECT tokens, identity, hidden FROM messages WHERE conversation_id = %s AND message_id = %s",
            (conversation_id, message_id),
        )
        if row is None:
            raise NotFound(f"no message {message_ref(message_id)}")
        tokens, identity, hidden = row
        if self._one("SELECT 1 FROM removed_messages WHERE message_id = %s AND whole", (message_id,)):
            return
        self.unindex_messages([message_id])
        self._run(
            "UPDATE messages SET skeleton = %s, tokens = %s, identity = %s, sender = %s, channel = %s "
            "WHERE conversation_id = %s AND message_id = %s",
            (
                message.skeleton,
                message.tokens,
                message.identity,
                message.sender,
                message.channel,
                conversation_id,
                message_id,
            ),
        )
        self._replace_parts(conversation_id, message_id, message)
        self._run(
            "INSERT INTO removed_messages AS t (conversation_id, message_id, removal_id, whole, former_identity) "
            "VALUES (%s, %s, %s, false, %s) ON CONFLICT (conversation_id, message_id) DO UPDATE SET "
            "removal_id = excluded.removal_id, former_identity = coalesce(t.former_identity, excluded.former_identity)",
            (
                conversation_id,
                message_id,
                removal_id,
                identity if identity != message.identity else None,
            ),
        )
        change = message.tokens - tokens
        costs = not hidden and message.role != "system"
        self._shift_message_sums(message_id, change, change if costs else 0)
        if costs:
            self._shift_item("message_id", message_id, conversation_id, "raw_tokens", change)
        self._bump_with_snapshots(conversation_id)

    def replace_summary(self, summary: Summary, item_tokens: int, token_change: int) -> None:
        self.lock_conversation(summary.conversation_id)
        self._run(
            "UPDATE summaries SET content = %s, tokens = %s WHERE conversation_id = %s AND summary_id = %s",
            (summary.content, summary.tokens, summary.conversation_id, summary.summary_id),
        )
        self._run(
            "UPDATE summaries SET source_tokens = source_tokens + %s WHERE summary_id IN "
            "(SELECT summary_id FROM summary_parents WHERE parent_summary_id = %s)",
            (token_change, summary.summary_id),
        )
        standing = self._one(
            "SELECT tokens FROM context_items WHERE conversation_id = %s AND summary_id = %s",
            (summary.conversation_id, summary.summary_id),
        )
        if standing is not None:
            change = item_tokens - standing[0]
            self._shift_item(
                "summary_id", summary.summary_id, summary.conversation_id, "summary_tokens", change
            )
        self._bump_with_snapshots(summary.conversation_id)

    def rename_files(self, conversation_id: int, names: Mapping[str, str]) -> None:
        self.lock_conversation(conversation_id)
        rows = self._all(
            "SELECT summary_id, file_ids FROM summaries WHERE conversation_id = %s AND file_ids IS NOT NULL",
            (conversation_id,),
        )
        for summary_id, before in rows:
            after = [new for name in before if (new := names.get(name, name))]
            if after != before:
                self._run(
                    "UPDATE summaries SET file_ids = %s WHERE conversation_id = %s AND summary_id = %s",
                    (json.dumps(after) if after else None, conversation_id, summary_id),
                )

    def replace_file(self, record: FileRecord) -> None:
        self._run(
            "UPDATE large_files SET sha256 = %s, storage_uri = %s, byte_size = %s, line_count = %s, file_name = %s, "
            "exploration_summary = %s WHERE file_id = %s",
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
        self._run("UPDATE compaction_debt SET last_error = '' WHERE conversation_id = %s", (conversation_id,))

    def _conversation_of(self, message_id: int) -> int:
        row = self._one("SELECT conversation_id FROM messages WHERE message_id = %s", (message_id,))
        if row is None:
            raise NotFound(f"no message {message_ref(message_id)}")
        return int(row[0])

    def _replace_parts(self, conversation_id: int, message_id: int, message: NewMessage) -> None:
        here = (conversation_id, message_id)
        notes = self._all(
            "SELECT metadata::text FROM message_parts WHERE conversation_id = %s AND message_id = %s "
            "AND type = 'compaction' ORDER BY ordinal",
            here,
        )
        self._run("DELETE FROM message_parts WHERE conversation_id = %s AND message_id = %s", here)
        self._many(
            "INSERT INTO message_parts (conversation_id, message_id, ordinal, type, path, text, exact, tool_name, "
            "tool_call_id, file_id, metadata) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [part_row(conversation_id, message_id, part) for part in message.parts],
        )
        after = max((part.ordinal for part in message.parts), default=-1) + 1
        self._many(INSERT_NOTE, note_rows(*here, after, [row[0] for row in notes]))

    def _shift_message_sums(self, message_id: int, change: int, item_change: int) -> None:
        self._run(
            "UPDATE summaries SET source_tokens = source_tokens + %s WHERE summary_id IN "
            "(SELECT summary_id FROM summary_messages WHERE message_id = %s)",
            (item_change, message_id),
        )
        self._run(
            f"{_ABOVE}UPDATE summaries SET message_tokens = message_tokens + %s WHERE summary_id IN "
            "(SELECT id FROM above)",
            (message_id, change),
        )

    def _shift_item(self, column: str, ref: int | str, conversation_id: int, total: str, change: int) -> None:
        found = self._run(
            f"UPDATE context_items SET tokens = tokens + %s WHERE conversation_id = %s AND {column} = %s",
            (change, conversation_id, ref),
        )
        if found:
            self._run(
                f"UPDATE conversations SET {total} = {total} + %s WHERE conversation_id = %s",
                (change, conversation_id),
            )

    def _bump_with_snapshots(self, conversation_id: int) -> None:
        """A new revision, of which a ``/new`` that could be undone knows, so that it still can be."""
        self._run(
            "UPDATE conversations SET revision = revision + 1 WHERE conversation_id = %s", (conversation_id,)
        )
        self._run(
            "UPDATE context_snapshots SET revision = revision + 1 WHERE conversation_id = %s AND restored_at IS NULL",
            (conversation_id,),
        )


INSERT_NOTE = (
    "INSERT INTO message_parts (conversation_id, message_id, ordinal, type, path, text, metadata) "
    "VALUES (%s, %s, %s, 'compaction', '', '', %s)"
)


def note_rows(
    conversation_id: int, message_id: int, first: int, notes: Sequence[str]
) -> list[tuple[int, int, int, str]]:
    """This package's own notes on a message as parts from an ordinal on, for `INSERT_NOTE`."""
    return [(conversation_id, message_id, first + n, note) for n, note in enumerate(notes)]
