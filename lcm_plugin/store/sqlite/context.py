"""The active context: ordered pointers, their atomic replacement, and what ``/new`` took out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lcm_plugin.errors import StoreConflict
from lcm_plugin.store.records import Item, Publication, Snapshot
from lcm_plugin.store.sqlite.messages import HEAD_COLUMNS, HEAD_WIDTH, message_head
from lcm_plugin.store.sqlite.schema import PART_ID_SHIFT
from lcm_plugin.store.sqlite.transaction import SqliteStatements
from lcm_plugin.store.tables.summaries import SummaryTable

_END = 1 << 62
_SNAPSHOT_ITEMS = (
    "SELECT n.conversation_id, json_extract(e.value, '$[0]') AS ordinal, json_extract(e.value, '$[1]') AS kind, "
    "CASE json_extract(e.value, '$[1]') WHEN 'message' THEN json_extract(e.value, '$[2]') END AS message_id, "
    "CASE json_extract(e.value, '$[1]') WHEN 'summary' THEN json_extract(e.value, '$[2]') END AS summary_id, "
    "json_extract(e.value, '$[3]') AS tokens FROM context_snapshots n, json_each(n.items) e WHERE n.snapshot_id = ?"
)
_ITEMS = (
    f"SELECT {HEAD_COLUMNS}, c.ordinal, c.tokens, c.summary_id, s.depth, s.fallback FROM context_items c "
    "LEFT JOIN messages m ON m.message_id = c.message_id LEFT JOIN summaries s ON s.summary_id = c.summary_id "
    "WHERE c.conversation_id = ? "
)

# The planner prefers the primary key, and would walk over a long stretch of raw items.
_SUMMARY_ITEMS = _ITEMS.replace("context_items c", "context_items c INDEXED BY context_items_summary")


class ContextQueries(SummaryTable, SqliteStatements):
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

    def summary_items(self, conversation_id: int, *, after: int = 0, limit: int) -> list[Item]:
        rows = self._all(
            f"{_SUMMARY_ITEMS} AND c.ordinal > ? AND c.summary_id IS NOT NULL ORDER BY c.ordinal LIMIT ?",
            (conversation_id, after, limit),
        )
        return [_item(row) for row in rows]

    def follow_raw(self, conversation_id: int, ordinals: Sequence[int]) -> set[int]:
        rows = self._all(
            "SELECT value FROM json_each(?) WHERE (SELECT p.message_id FROM context_items p "
            "WHERE p.conversation_id = ? AND p.ordinal < value ORDER BY p.ordinal DESC LIMIT 1) IS NOT NULL",
            (json.dumps(list(ordinals)), conversation_id),
        )
        return {row[0] for row in rows}

    def context_depths(self, conversation_id: int) -> dict[int, tuple[int, int]]:
        rows = self._all(
            "SELECT s.depth, count(*), sum(c.tokens) FROM context_items c INDEXED BY context_items_summary "
            "JOIN summaries s USING (summary_id) "
            "WHERE c.conversation_id = ? AND c.summary_id IS NOT NULL GROUP BY s.depth ORDER BY s.depth",
            (conversation_id,),
        )
        return {depth: (count, tokens) for depth, count, tokens in rows}

    def newest_summary_items(self, conversation_id: int, *, before: int, limit: int) -> list[Item]:
        rows = self._all(
            f"{_SUMMARY_ITEMS} AND c.summary_id IS NOT NULL AND c.ordinal < ? ORDER BY c.ordinal DESC LIMIT ?",
            (conversation_id, before, limit),
        )
        return [_item(row) for row in reversed(rows)]

    def undoable(self, conversation_id: int) -> bool:
        row = self._one(
            "SELECT s.revision = c.revision FROM context_snapshots s JOIN conversations c USING (conversation_id) "
            "WHERE s.conversation_id = ? AND s.restored_at IS NULL ORDER BY s.snapshot_id DESC LIMIT 1",
            (conversation_id,),
        )
        return bool(row and row[0])

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
        self._insert_summary(summary, replaced)
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
        chosen = "ordinal IN (SELECT value FROM json_each(?))"
        return self._take_out(conversation_id, chosen, json.dumps(list(ordinals)), cause, now)

    def prune(self, conversation_id: int, retain_depth: int, cause: str, now: int) -> None:
        self.db.execute(
            "UPDATE conversations SET restart_seq = next_seq, updated_at = ? WHERE conversation_id = ?",
            (now, conversation_id),
        )
        chosen = (
            "(message_id IS NOT NULL OR (SELECT s.depth FROM summaries s WHERE s.summary_id = "
            "context_items.summary_id) < ?)"
        )
        if retain_depth >= 0 and self._one(
            f"SELECT 1 FROM context_items WHERE conversation_id = ? AND {chosen} LIMIT 1",
            (conversation_id, retain_depth),
        ):
            self._take_out(conversation_id, chosen, retain_depth, cause, now)

    def restore_snapshot(self, conversation_id: int, now: int) -> int:
        row = self._one(
            "SELECT snapshot_id, revision FROM context_snapshots WHERE conversation_id = ? AND restored_at IS NULL "
            "ORDER BY snapshot_id DESC LIMIT 1",
            (conversation_id,),
        )
        if row is None or row[1] != self._revision(conversation_id):
            return 0
        snapshot_id, revision = row
        self.db.execute(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, summary_id, tokens) "
            "SELECT i.conversation_id, i.ordinal, i.kind, i.message_id, i.summary_id, "
            "CASE WHEN m.hidden THEN 0 ELSE i.tokens END "
            f"FROM ({_SNAPSHOT_ITEMS}) i LEFT JOIN messages m ON m.message_id = i.message_id",
            (snapshot_id,),
        )
        totals = self._totals(
            conversation_id, f"ordinal IN (SELECT ordinal FROM ({_SNAPSHOT_ITEMS}))", snapshot_id
        )
        self._add_totals(conversation_id, *totals, now)
        self.db.execute(
            "UPDATE context_snapshots SET restored_at = ? WHERE snapshot_id = ?", (now, snapshot_id)
        )
        # The context is again what it was one revision before the snapshot, under a new number: what was
        # pruned earlier moves along and can be undone in its turn.
        self.db.execute(
            "UPDATE context_snapshots SET revision = revision + ? WHERE conversation_id = ? AND restored_at IS NULL",
            (self._bump(conversation_id) - (revision - 1), conversation_id),
        )
        return totals[0] + totals[2]

    def _take_out(self, conversation_id: int, chosen: str, value: Any, cause: str, now: int) -> int:
        """Moves the items that a condition with one value chooses into a snapshot, within the database."""
        raw_items, raw_tokens, summary_items, summary_tokens = self._totals(conversation_id, chosen, value)
        cursor = self.db.execute(
            "INSERT INTO context_snapshots (conversation_id, created_at, cause, revision, items) "
            "SELECT ?1, ?2, ?3, ?4, coalesce(json_group_array(json(item)), '[]') FROM (SELECT json_array(ordinal, "
            "item_type, coalesce(message_id, summary_id), tokens) AS item FROM context_items "
            f"WHERE conversation_id = ?1 AND {chosen.replace('?', '?5')} ORDER BY ordinal)",
            (conversation_id, now, cause, self._bump(conversation_id), value),
        )
        self.db.execute(
            f"DELETE FROM context_items WHERE conversation_id = ? AND {chosen}", (conversation_id, value)
        )
        self._add_totals(conversation_id, -raw_items, -raw_tokens, -summary_items, -summary_tokens, now)
        return int(cursor.lastrowid or 0)

    def _totals(self, conversation_id: int, chosen: str, value: Any) -> tuple[int, int, int, int]:
        """Count and tokens of the chosen raw items, then of the chosen summaries."""
        row = self._one(
            "SELECT count(message_id), coalesce(sum(tokens) FILTER (WHERE message_id IS NOT NULL), 0), "
            "count(summary_id), coalesce(sum(tokens) FILTER (WHERE summary_id IS NOT NULL), 0) "
            f"FROM context_items WHERE conversation_id = ? AND {chosen}",
            (conversation_id, value),
        )
        return (row[0], row[1], row[2], row[3])

    def _check_still_stands(self, publication: Publication, low: int, high: int) -> None:
        conversation_id = publication.summary.conversation_id
        if self._revision(conversation_id) != publication.revision:
            raise StoreConflict(f"conversation {conversation_id} was compacted or reset meanwhile")
        rows = self._all(
            "SELECT ordinal, message_id, summary_id, tokens FROM context_items "
            "WHERE conversation_id = ? AND ordinal BETWEEN ? AND ? ORDER BY ordinal",
            (conversation_id, low, high),
        )
        expected = [
            (item.ordinal, item.message.message_id if item.message else None, item.summary_id, item.tokens)
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
