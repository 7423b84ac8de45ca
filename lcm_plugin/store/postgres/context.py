"""The active context: ordered pointers, their atomic replacement, and what ``/new`` took out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lcm_plugin.errors import StoreBusy, StoreConflict
from lcm_plugin.store.postgres.messages import HEAD_COLUMNS, HEAD_WIDTH, message_head
from lcm_plugin.store.postgres.transaction import PostgresStatements
from lcm_plugin.store.records import Item, Publication, Snapshot
from lcm_plugin.store.tables.summaries import SummaryTable

_END = 1 << 62
_SNAPSHOT_ITEMS = (
    "SELECT n.conversation_id, (e.value ->> 0)::bigint AS ordinal, (e.value ->> 1)::item_type AS kind, "
    "CASE e.value ->> 1 WHEN 'message' THEN (e.value ->> 2)::bigint END AS message_id, "
    "CASE e.value ->> 1 WHEN 'summary' THEN e.value ->> 2 END AS summary_id, (e.value ->> 3)::bigint AS tokens "
    "FROM context_snapshots n CROSS JOIN LATERAL jsonb_array_elements(n.items) AS e (value) "
    "WHERE n.conversation_id = %(id)s AND n.snapshot_id = %(value)s"
)
_ITEMS = (
    f"SELECT {HEAD_COLUMNS}, c.ordinal, c.tokens, c.summary_id, s.depth, s.fallback FROM context_items c "
    "LEFT JOIN messages m ON m.conversation_id = c.conversation_id AND m.message_id = c.message_id "
    "LEFT JOIN summaries s ON s.conversation_id = c.conversation_id AND s.summary_id = c.summary_id "
    "WHERE c.conversation_id = %s "
)


class ContextQueries(SummaryTable, PostgresStatements):
    """Reads of context items."""

    def newest_items(self, conversation_id: int, *, before: int | None = None, limit: int) -> list[Item]:
        rows = self._all(
            f"{_ITEMS} AND c.ordinal < %s ORDER BY c.ordinal DESC LIMIT %s",
            (conversation_id, _END if before is None else before, limit),
        )
        return [_item(row) for row in reversed(rows)]

    def oldest_items(self, conversation_id: int, *, after: int = 0, limit: int) -> list[Item]:
        rows = self._all(
            f"{_ITEMS} AND c.ordinal > %s ORDER BY c.ordinal LIMIT %s", (conversation_id, after, limit)
        )
        return [_item(row) for row in rows]

    def oldest_raw_items(self, conversation_id: int, *, after: int = 0, limit: int) -> list[Item]:
        rows = self._all(
            f"{_ITEMS} AND c.ordinal > %s AND c.message_id IS NOT NULL ORDER BY c.ordinal LIMIT %s",
            (conversation_id, after, limit),
        )
        return [_item(row) for row in rows]

    def summary_items(self, conversation_id: int, *, after: int = 0, limit: int) -> list[Item]:
        rows = self._all(
            f"{_ITEMS} AND c.ordinal > %s AND c.summary_id IS NOT NULL ORDER BY c.ordinal LIMIT %s",
            (conversation_id, after, limit),
        )
        return [_item(row) for row in rows]

    def newest_summary_items(self, conversation_id: int, *, before: int, limit: int) -> list[Item]:
        rows = self._all(
            f"{_ITEMS} AND c.ordinal < %s AND c.summary_id IS NOT NULL ORDER BY c.ordinal DESC LIMIT %s",
            (conversation_id, before, limit),
        )
        return [_item(row) for row in reversed(rows)]

    def follow_raw(self, conversation_id: int, ordinals: Sequence[int]) -> set[int]:
        rows = self._all(
            "SELECT o.ordinal FROM unnest(%s::bigint[]) AS o (ordinal) WHERE (SELECT p.message_id "
            "FROM context_items p WHERE p.conversation_id = %s AND p.ordinal < o.ordinal "
            "ORDER BY p.ordinal DESC LIMIT 1) IS NOT NULL",
            (list(ordinals), conversation_id),
        )
        return {row[0] for row in rows}

    def context_depths(self, conversation_id: int) -> dict[int, tuple[int, int]]:
        rows = self._all(
            "SELECT s.depth, count(*), sum(c.tokens)::bigint FROM context_items c JOIN summaries s "
            "USING (conversation_id, summary_id) WHERE c.conversation_id = %s AND c.summary_id IS NOT NULL "
            "GROUP BY s.depth ORDER BY s.depth",
            (conversation_id,),
        )
        return {depth: (count, tokens) for depth, count, tokens in rows}

    def undoable(self, conversation_id: int) -> bool:
        row = self._one(
            "SELECT s.revision = c.revision FROM context_snapshots s JOIN conversations c USING (conversation_id) "
            "WHERE s.conversation_id = %s AND s.restored_at IS NULL ORDER BY s.snapshot_id DESC LIMIT 1",
            (conversation_id,),
        )
        return bool(row and row[0])

    def snapshot(self, conversation_id: int) -> Snapshot | None:
        row = self._one(
            "SELECT snapshot_id, conversation_id, created_at, cause, revision, items FROM context_snapshots "
            "WHERE conversation_id = %s AND restored_at IS NULL ORDER BY snapshot_id DESC LIMIT 1",
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
        self._require_alone(conversation_id)
        self._check_still_stands(publication, low, high)
        self._insert_summary(summary, replaced)
        self._run(
            "DELETE FROM context_items WHERE conversation_id = %s AND ordinal BETWEEN %s AND %s",
            (conversation_id, low, high),
        )
        self._run(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id, tokens) "
            "VALUES (%s, %s, 'summary', %s, %s)",
            (conversation_id, low, summary.summary_id, publication.item_tokens),
        )
        self._mark_compaction(publication)
        self._count(conversation_id, replaced, -1, now)
        self._run(
            "UPDATE conversations SET summary_items = summary_items + 1, summary_tokens = summary_tokens + %s, "
            "revision = revision + 1 WHERE conversation_id = %s",
            (publication.item_tokens, conversation_id),
        )

    def remove_items(self, conversation_id: int, ordinals: Sequence[int], cause: str, now: int) -> int:
        return self._take_out(conversation_id, "ordinal = ANY(%(value)s)", list(ordinals), cause, now)

    def prune(self, conversation_id: int, retain_depth: int, cause: str, now: int) -> None:
        self._run(
            "UPDATE conversations SET restart_seq = next_seq, updated_at = %s WHERE conversation_id = %s",
            (now, conversation_id),
        )
        chosen = (
            "(message_id IS NOT NULL OR (SELECT s.depth FROM summaries s WHERE s.conversation_id = "
            "context_items.conversation_id AND s.summary_id = context_items.summary_id) < %(value)s)"
        )
        if retain_depth >= 0 and self._one(
            f"SELECT 1 FROM context_items WHERE conversation_id = %(id)s AND {chosen} LIMIT 1",
            {"id": conversation_id, "value": retain_depth},
        ):
            self._take_out(conversation_id, chosen, retain_depth, cause, now)

    def restore_snapshot(self, conversation_id: int, now: int) -> int:
        revision = self._revision(conversation_id)
        row = self._one(
            "SELECT snapshot_id, revision FROM context_snapshots WHERE conversation_id = %s AND restored_at IS NULL "
            "ORDER BY snapshot_id DESC LIMIT 1",
            (conversation_id,),
        )
        if row is None or row[1] != revision:
            return 0
        self._run(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, summary_id, tokens) "
            "SELECT i.conversation_id, i.ordinal, i.kind, i.message_id, i.summary_id, "
            "CASE WHEN m.hidden THEN 0 ELSE i.tokens END "
            f"FROM ({_SNAPSHOT_ITEMS}) i LEFT JOIN messages m ON m.conversation_id = i.conversation_id "
            "AND m.message_id = i.message_id",
            {"id": conversation_id, "value": row[0]},
        )
        chosen = f"ordinal IN (SELECT ordinal FROM ({_SNAPSHOT_ITEMS}) i)"
        totals = self._totals(conversation_id, chosen, row[0])
        self._add_totals(conversation_id, *totals, now)
        self._run(
            "UPDATE context_snapshots SET restored_at = %s WHERE conversation_id = %s AND snapshot_id = %s",
            (now, conversation_id, row[0]),
        )
        # The context is again what it was one revision before the snapshot, under a new number: what was
        # pruned earlier moves along and can be undone in its turn.
        self._run(
            "UPDATE context_snapshots SET revision = revision + %s WHERE conversation_id = %s "
            "AND restored_at IS NULL",
            (self._bump(conversation_id) - (revision - 1), conversation_id),
        )
        return totals[0] + totals[2]

    def _take_out(self, conversation_id: int, chosen: str, value: Any, cause: str, now: int) -> int:
        """Moves the items that a condition with one value chooses into a snapshot, within the database."""
        revision = self._bump(conversation_id)
        raw_items, raw_tokens, summary_items, summary_tokens = self._totals(conversation_id, chosen, value)
        row = self._one(
            "INSERT INTO context_snapshots (conversation_id, created_at, cause, revision, items) "
            "SELECT %(id)s, %(now)s, %(cause)s, %(revision)s, coalesce(jsonb_agg(jsonb_build_array(ordinal, item_type, "
            "CASE WHEN message_id IS NULL THEN to_jsonb(summary_id) ELSE to_jsonb(message_id) END, tokens) "
            f"ORDER BY ordinal), '[]'::jsonb) FROM context_items WHERE conversation_id = %(id)s AND {chosen} "
            "RETURNING snapshot_id",
            {
                "id": conversation_id,
                "now": now,
                "cause": cause,
                "revision": revision,
                "value": value,
            },
        )
        self._run(
            f"DELETE FROM context_items WHERE conversation_id = %(id)s AND {chosen}",
            {"id": conversation_id, "value": value},
        )
        self._add_totals(conversation_id, -raw_items, -raw_tokens, -summary_items, -summary_tokens, now)
        return int(row[0])

    def _totals(self, conversation_id: int, chosen: str, value: Any) -> tuple[int, int, int, int]:
        """Count and tokens of the chosen raw items, then of the chosen summaries."""
        row = self._one(
            "SELECT count(message_id), coalesce(sum(tokens) FILTER (WHERE message_id IS NOT NULL), 0)::bigint, "
            "count(summary_id), coalesce(sum(tokens) FILTER (WHERE summary_id IS NOT NULL), 0)::bigint "
            f"FROM context_items WHERE conversation_id = %(id)s AND {chosen}",
            {"id": conversation_id, "value": value},
        )
        return (row[0], row[1], row[2], row[3])

    def _require_alone(self, conversation_id: int) -> None:
        """Of two that publish at one moment the second need not wait for rows that the first is about to change."""
        (alone,) = self._one(
            "SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' publishes', %s))",
            (conversation_id,),
        )
        if not alone:
            raise StoreBusy(
                f"another compaction publishes in conversation {conversation_id} just now; nothing was written, "
                "try again"
            )

    def _check_still_stands(self, publication: Publication, low: int, high: int) -> None:
        conversation_id = publication.summary.conversation_id
        if self._revision(conversation_id) != publication.revision:
            raise StoreConflict(f"conversation {conversation_id} was compacted or reset meanwhile")
        rows = self._all(
            "SELECT ordinal, message_id, summary_id, tokens FROM context_items "
            "WHERE conversation_id = %s AND ordinal BETWEEN %s AND %s ORDER BY ordinal",
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
        self._run(
            "INSERT INTO message_parts (conversation_id, message_id, ordinal, type, path, text, metadata) "
            "SELECT m.conversation_id, m.message_id, coalesce((SELECT max(p.ordinal) FROM message_parts p "
            "WHERE p.conversation_id = m.conversation_id AND p.message_id = m.message_id), -1) + 1, 'compaction', '', '', "
            "%s FROM messages m WHERE m.conversation_id = %s AND m.seq = %s",
            (
                json.dumps({"summary_id": summary.summary_id, "reason": publication.reason}),
                summary.conversation_id,
                summary.last_seq,
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
        self._run(
            "UPDATE conversations SET raw_items = raw_items + %s, raw_tokens = raw_tokens + %s, "
            "summary_items = summary_items + %s, summary_tokens = summary_tokens + %s, updated_at = %s "
            "WHERE conversation_id = %s",
            (raw_items, raw_tokens, summary_items, summary_tokens, now, conversation_id),
        )

    def _revision(self, conversation_id: int) -> int:
        row = self._one(
            "SELECT revision FROM conversations WHERE conversation_id = %s FOR NO KEY UPDATE",
            (conversation_id,),
        )
        return int(row[0]) if row else -1

    def _bump(self, conversation_id: int) -> int:
        row = self._one(
            "UPDATE conversations SET revision = revision + 1 WHERE conversation_id = %s RETURNING revision",
            (conversation_id,),
        )
        return int(row[0])


def _item(row: Any) -> Item:
    ordinal, tokens, summary_id, depth, fallback = row[HEAD_WIDTH:]
    if summary_id is not None:
        return Item(ordinal, "summary", tokens, depth, None, summary_id, bool(fallback))
    return Item(ordinal, "message", tokens, -1, message_head(row))
