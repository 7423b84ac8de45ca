"""The active context: ordered pointers, their atomic replacement, and what ``/new`` took out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lcm_plugin.errors import StoreConflict
from lcm_plugin.store.records import Item, Publication, Snapshot
from lcm_plugin.store.sqlite.conversations import Handle
from lcm_plugin.store.sqlite.messages import HEAD_COLUMNS, HEAD_WIDTH, message_head
from lcm_plugin.store.sqlite.schema import PART_ID_SHIFT
from lcm_plugin.store.sqlite.summaries import insert_summary

_END = 1 << 62
_ITEMS = (
    f"SELECT {HEAD_COLUMNS}, c.ordinal, c.tokens, c.summary_id, s.depth, s.fallback FROM context_items c "
    "LEFT JOIN messages m ON m.message_id = c.message_id LEFT JOIN summaries s ON s.summary_id = c.summary_id "
    "WHERE c.conversation_id = ? "
)


class ContextQueries(Handle):
    """Reads of context items."""

    def newest_items(self, conversation_id: int, *, before: int | None = None, limit: int) -> list[Item]:
        rows = self._all(
            f"{_ITEMS} AND c.ordinal < ? ORDER BY c.ordinal DESC LIMIT ?",
            (conversation_id, _END if before is None else before, limit),
        )
        return [_item(row) for row in reversed(rows)]

    def oldest_items(self, conversation_id: int, *, after: int = 0, limit: int) -> list[Item]:
        rows = self._all(
            f"{_ITEMS} AND c.ordinal > ? ORDER BY c.ordinal LIMIT ?", (conversation_id, after, limit)
        )
        return [_item(row) for row in rows]

    def oldest_raw_items(self, conversation_id: int, *, after: int = 0, limit: int) -> list[Item]:
        rows = self._all(
            f"{_ITEMS} AND c.ordinal > ? AND c.message_id IS NOT NULL ORDER BY c.ordinal LIMIT ?",
            (conversation_id, after, limit),
        )
        return [_item(row) for row in rows]

    def summary_items(self, conversation_id: int, *, limit: int) -> list[Item]:
        rows = self._all(
            f"{_ITEMS} AND c.summary_id IS NOT NULL ORDER BY c.ordinal LIMIT ?", (conversation_id, limit)
        )
        return [_item(row) for row in rows]

    def raw_ordinals(self, conversation_id: int, low: int, high: int, *, limit: int) -> list[int]:
        rows = self._all(
            "SELECT ordinal FROM context_items WHERE conversation_id = ? AND ordinal > ? AND ordinal < ? "
            "AND message_id IS NOT NULL ORDER BY ordinal LIMIT ?",
            (conversation_id, low, high, limit),
        )
        return [row[0] for row in rows]

    def snapshot(self, conversation_id: int) -> Snapshot | None:
        row = self._one(
            "SELECT snapshot_id, conversation_id, created_at, cause, revision, items FROM context_snapshots "
            "WHERE conversation_id = ? AND restored_at IS NULL ORDER BY snapshot_id DESC LIMIT 1",
            (conversation_id,),
        )
        if row is None:
            return None
        values = [*row[:5], tuple(tuple(item) for item in json.loads(row[5]))]
        return Snapshot(*values)


class ContextChanges(ContextQueries):
    """Changes of the context. Each is a whole: rows, links, counters, revision."""

    def publish(self, publication: Publication, now: int) -> None:
        summary, replaced = publication.summary, publication.replaces
        conversation_id = summary.conversation_id
        low, high = replaced[0].ordinal, replaced[-1].ordinal
        self._check_still_stands(publication, low, high)
        insert_summary(self.db, summary, replaced)
        self.db.execute(
            "DELETE FROM context_items WHERE conversation_id = ? AND ordinal BETWEEN ? AND ?",
            (conversation_id, low, high),
        )
        self.db.execute(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id, tokens) "
            "VALUES (?, ?, 'summary', ?, ?)",
            (conversation_id, low, summary.summary_id, publication.item_tokens),
        )
        self._mark_compaction(publication)
        self._count(conversation_id, replaced, -1, now)
        self.db.execute(
            "UPDATE conversations SET summary_items = summary_items + 1, summary_tokens = summary_tokens + ?, "
            "revision = revision + 1 WHERE conversation_id = ?",
            (publication.item_tokens, conversation_id),
        )

    def remove_items(self, conversation_id: int, ordinals: Sequence[int], cause: str, now: int) -> int:
        rows = self._all(
            f"{_ITEMS} AND c.ordinal IN (SELECT value FROM json_each(?)) ORDER BY c.ordinal",
            (conversation_id, json.dumps(list(ordinals))),
        )
        items = [_item(row) for row in rows]
        self.db.execute(
            "DELETE FROM context_items WHERE conversation_id = ? AND ordinal IN (SELECT value FROM json_each(?))",
            (conversation_id, json.dumps(list(ordinals))),
        )
        self._count(conversation_id, items, -1, now)
        revision = self._bump(conversation_id)
        kept = [
            (
                item.ordinal,
                item.kind,
                item.message.message_id if item.message else item.summary_id,
                item.tokens,
            )
            for item in items
        ]
        cursor = self.db.execute(
            "INSERT INTO context_snapshots (conversation_id, created_at, cause, revision, items) VALUES (?, ?, ?, ?, ?)",
            (conversation_id, now, cause, revision, json.dumps(kept)),
        )
        return int(cursor.lastrowid or 0)

    def restore_snapshot(self, conversation_id: int, now: int) -> int:
        snapshot = self.snapshot(conversation_id)
        if snapshot is None or snapshot.revision != self._revision(conversation_id):
            return 0
        self.db.executemany(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, summary_id, tokens) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            [
                (conversation_id, ordinal, kind, ref if kind == "message" else None,
                 ref if kind == "summary" else None, tokens)
                for ordinal, kind, ref, tokens in snapshot.items
            ],
        )  # fmt: skip
        self.db.execute(
            "UPDATE context_snapshots SET restored_at = ? WHERE snapshot_id = ?", (now, snapshot.snapshot_id)
        )
        raw = [tokens for _, kind, _, tokens in snapshot.items if kind == "message"]
        summaries = [tokens for _, kind, _, tokens in snapshot.items if kind == "summary"]
        self._add_totals(conversation_id, len(raw), sum(raw), len(summaries), sum(summaries), now)
        # What was pruned just before this snapshot was taken can now be undone in its turn.
        self.db.execute(
            "UPDATE context_snapshots SET revision = ? WHERE conversation_id = ? AND restored_at IS NULL "
            "AND revision = ?",
            (self._bump(conversation_id), conversation_id, snapshot.revision - 1),
        )
        return len(snapshot.items)

    def _check_still_stands(self, publication: Publication, low: int, high: int) -> None:
        conversation_id = publication.summary.conversation_id
        if self._revision(conversation_id) != publication.revision:
            raise StoreConflict(f"conversation {conversation_id} was compacted or reset meanwhile")
        rows = self._all(
            "SELECT ordinal, message_id, summary_id FROM context_items "
            "WHERE conversation_id = ? AND ordinal BETWEEN ? AND ? ORDER BY ordinal",
            (conversation_id, low, high),
        )
        expected = [
            (item.ordinal, item.message.message_id if item.message else None, item.summary_id)
            for item in publication.replaces
        ]
        if rows != expected:
            raise StoreConflict(
                f"the chunk of conversation {conversation_id} no longer stands as it was chosen"
            )

    def _mark_compaction(self, publication: Publication) -> None:
        """Leaves a ``compaction`` part on the newest message that the summary covers."""
        summary = publication.summary
        row = self._one(
            "SELECT m.message_id, (SELECT max(p.ordinal) FROM message_parts p WHERE p.part_id >= m.message_id * 65536 "
            "AND p.part_id < (m.message_id + 1) * 65536) FROM messages m WHERE m.conversation_id = ? AND m.seq = ?",
            (summary.conversation_id, summary.last_seq),
        )
        if row is None:
            return
        ordinal = (row[1] if row[1] is not None else -1) + 1
        self.db.execute(
            "INSERT INTO message_parts (part_id, message_id, ordinal, type, path, text, metadata) "
            "VALUES (?, ?, ?, 'compaction', '', '', ?)",
            (
                (row[0] << PART_ID_SHIFT) + ordinal,
                row[0],
                ordinal,
                json.dumps({"summary_id": summary.summary_id, "reason": publication.reason}),
            ),
        )

    def _count(self, conversation_id: int, items: Sequence[Item], sign: int, now: int) -> None:
        raw = [item.tokens for item in items if item.message]
        summaries = [item.tokens for item in items if not item.message]
        self._add_totals(
            conversation_id,
            sign * len(raw),
            sign * sum(raw),
            sign * len(summaries),
            sign * sum(summaries),
            now,
        )

    def _add_totals(
        self,
        conversation_id: int,
        raw_items: int,
        raw_tokens: int,
        summary_items: int,
        summary_tokens: int,
        now: int,
    ) -> None:
        self.db.execute(
            "UPDATE conversations SET raw_items = raw_items + ?, raw_tokens = raw_tokens + ?, "
            "summary_items = summary_items + ?, summary_tokens = summary_tokens + ?, updated_at = ? "
            "WHERE conversation_id = ?",
            (raw_items, raw_tokens, summary_items, summary_tokens, now, conversation_id),
        )

    def _revision(self, conversation_id: int) -> int:
        row = self._one("SELECT revision FROM conversations WHERE conversation_id = ?", (conversation_id,))
        return int(row[0]) if row else -1

    def _bump(self, conversation_id: int) -> int:
        row = self._one(
            "UPDATE conversations SET revision = revision + 1 WHERE conversation_id = ? RETURNING revision",
            (conversation_id,),
        )
        return int(row[0])


def _item(row: Any) -> Item:
    ordinal, tokens, summary_id, depth, fallback = row[HEAD_WIDTH:]
    if summary_id is not None:
        return Item(ordinal, "summary", tokens, depth, None, summary_id, bool(fallback))
    return Item(ordinal, "message", tokens, -1, message_head(row))
