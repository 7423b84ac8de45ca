"""The active context: ordered pointers, their atomic replacement, and what ``/new`` took out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lcm_plugin.errors import StoreConflict
from lcm_plugin.store.records import Item, Publication, Snapshot
from lcm_plugin.store.tables.messages import END, HEAD_COLUMNS, HEAD_WIDTH, item_tokens, message_head
from lcm_plugin.store.tables.summaries import SummaryTable

_NEWEST_SNAPSHOT = (
    "FROM context_snapshots s WHERE s.conversation_id = :here AND s.restored_at IS NULL "
    "ORDER BY s.snapshot_id DESC LIMIT 1"
)


class ContextTable(SummaryTable):
    """Reads and changes of the context. Each change is a whole: rows, links, counters, revision."""

    def newest_items(self, conversation_id: int, *, before: int | None = None, limit: int) -> list[Item]:
        return self._newest_items("", conversation_id, END if before is None else before, limit)

    def oldest_items(self, conversation_id: int, *, after: int = 0, limit: int) -> list[Item]:
        return self._oldest_items("", conversation_id, after, limit)

    def oldest_raw_items(self, here: int, *, after: int = 0, limit: int, over: int = -1) -> list[Item]:
        if over < 0:
            return self._oldest_items("message_id", here, after, limit)
        long = "AND m.answers IS NOT NULL AND NOT m.hidden AND m.cleared_tokens IS NULL AND m.tokens > :over"
        rows = self.all(
            f"{self._items('message_id')} {long} AND c.ordinal > :after ORDER BY c.ordinal LIMIT :limit",
            here=here,
            after=after,
            limit=limit,
            over=over,
        )
        return [_item(row) for row in rows]

    def summary_items(self, conversation_id: int, *, after: int = 0, limit: int) -> list[Item]:
        return self._oldest_items("summary_id", conversation_id, after, limit)

    def newest_summary_items(self, conversation_id: int, *, before: int, limit: int) -> list[Item]:
        return self._newest_items("summary_id", conversation_id, before, limit)

    def follow_raw(self, conversation_id: int, ordinals: Sequence[int]) -> set[int]:
        rows = self.all(
            f"SELECT value FROM {self.sql.given('ordinals')} WHERE (SELECT p.message_id FROM context_items p "
            "WHERE p.conversation_id = :here AND p.ordinal < value ORDER BY p.ordinal DESC LIMIT 1) IS NOT NULL",
            here=conversation_id,
            ordinals=self.sql.array(ordinals),
        )
        return {row[0] for row in rows}

    def context_depths(self, conversation_id: int) -> dict[int, tuple[int, int]]:
        rows = self.all(
            "SELECT s.depth, count(*), CAST(sum(c.tokens) AS bigint) FROM context_items c"
            f"{self.sql.indexed_by('context_items_summary')} CROSS JOIN summaries s "
            "WHERE c.conversation_id = :here AND c.summary_id IS NOT NULL AND s.conversation_id = c.conversation_id "
            "AND s.summary_id = c.summary_id GROUP BY s.depth ORDER BY s.depth",
            here=conversation_id,
        )
        return {depth: (count, tokens) for depth, count, tokens in rows}

    def undoable(self, conversation_id: int) -> bool:
        row = self.one(
            "SELECT (SELECT revision FROM conversations WHERE conversation_id = :here) = s.revision "
            f"{_NEWEST_SNAPSHOT}",
            here=conversation_id,
        )
        return bool(row and row[0])

    def snapshot(self, conversation_id: int) -> Snapshot | None:
        row = self.one(
            f"SELECT snapshot_id, conversation_id, created_at, cause, revision, items {_NEWEST_SNAPSHOT}",
            here=conversation_id,
        )
        if row is None:
            return None
        values = [*row[:5], tuple(tuple(item) for item in json.loads(row[5]))]
        return Snapshot(*values)

    def publish(self, publication: Publication, now: int) -> None:
        summary, replaced = publication.summary, publication.replaces
        here = summary.conversation_id
        low, high = replaced[0].ordinal, replaced[-1].ordinal
        self.require_only_publisher(here)
        self._check_still_stands(publication, low, high)
        self._insert_summary(summary, replaced)
        self.run(
            "DELETE FROM context_items WHERE conversation_id = :here AND ordinal BETWEEN :low AND :high",
            here=here,
            low=low,
            high=high,
        )
        self.run(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id, tokens) "
            "VALUES (:here, :low, 'summary', :summary, :tokens)",
            here=here,
            low=low,
            summary=summary.summary_id,
            tokens=publication.item_tokens,
        )
        self._mark_compaction(publication)
        raw = [item.tokens for item in replaced if item.message]
        condensed = [item.tokens for item in replaced if not item.message]
        added = publication.item_tokens - sum(condensed)
        self._add_totals(here, (-len(raw), -sum(raw), 1 - len(condensed), added), now)
        self._bump(here)

    def remove_items(self, conversation_id: int, ordinals: Sequence[int], cause: str, now: int) -> int:
        chosen = f"ordinal {self.sql.any_of('value')}"
        return self._take_out(conversation_id, chosen, self.sql.array(ordinals), cause, now)

    def prune(self, conversation_id: int, retain_depth: int, cause: str, now: int) -> None:
        self.run(
            "UPDATE conversations SET restart_seq = next_seq, updated_at = :now WHERE conversation_id = :here",
            now=now,
            here=conversation_id,
        )
        chosen = (
            "(message_id IS NOT NULL OR (SELECT s.depth FROM summaries s WHERE s.conversation_id = "
            "context_items.conversation_id AND s.summary_id = context_items.summary_id) < :value)"
        )
        if retain_depth >= 0 and self.one(
            f"SELECT 1 FROM context_items WHERE conversation_id = :here AND {chosen} LIMIT 1",
            here=conversation_id,
            value=retain_depth,
        ):
            self._take_out(conversation_id, chosen, retain_depth, cause, now)

    def restore_snapshot(self, conversation_id: int, now: int) -> int:
        revision = self._revision(conversation_id)
        row = self.one(f"SELECT snapshot_id, revision {_NEWEST_SNAPSHOT}", here=conversation_id)
        if row is None or row[1] != revision:
            return 0
        here = {"here": conversation_id, "value": row[0]}
        taken_out = self._snapshot_items()
        self.run(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, summary_id, tokens) "
            "SELECT i.conversation_id, i.ordinal, i.kind, i.message_id, i.summary_id, "
            f"CASE WHEN m.message_id IS NULL THEN i.tokens ELSE {item_tokens('m.')} END FROM ({taken_out}) i "
            "LEFT JOIN messages m ON m.conversation_id = i.conversation_id AND m.message_id = i.message_id",
            **here,
        )
        totals = self._totals(f"ordinal IN (SELECT ordinal FROM ({taken_out}) i)", here)
        self._add_totals(conversation_id, totals, now)
        self.run(
            "UPDATE context_snapshots SET restored_at = :now WHERE conversation_id = :here AND snapshot_id = :value",
            now=now,
            **here,
        )
        # The context is again what it was one revision before the snapshot, under a new number: what was
        # pruned earlier moves along and can be undone in its turn.
        self.run(
            "UPDATE context_snapshots SET revision = revision + :change "
            "WHERE conversation_id = :here AND restored_at IS NULL",
            change=self._bump(conversation_id) - (revision - 1),
            here=conversation_id,
        )
        return totals[0] + totals[2]

    def _oldest_items(self, column: str, conversation_id: int, after: int, limit: int) -> list[Item]:
        rows = self.all(
            f"{self._items(column)} AND c.ordinal > :after ORDER BY c.ordinal LIMIT :limit",
            here=conversation_id,
            after=after,
            limit=limit,
        )
        return [_item(row) for row in rows]

    def _newest_items(self, column: str, conversation_id: int, before: int, limit: int) -> list[Item]:
        rows = self.all(
            f"{self._items(column)} AND c.ordinal < :before ORDER BY c.ordinal DESC LIMIT :limit",
            here=conversation_id,
            before=before,
            limit=limit,
        )
        return [_item(row) for row in reversed(rows)]

    def _items(self, column: str) -> str:
        """The context items, or those of them that have a value in a column."""
        # The planner would walk the primary key over a long stretch of raw items.
        index = self.sql.indexed_by("context_items_summary") if column == "summary_id" else ""
        return (
            f"SELECT {HEAD_COLUMNS}, c.ordinal, c.tokens, c.summary_id, s.depth, s.fallback FROM context_items c{index} "
            "LEFT JOIN messages m ON m.conversation_id = c.conversation_id AND m.message_id = c.message_id "
            "LEFT JOIN summaries s ON s.conversation_id = c.conversation_id AND s.summary_id = c.summary_id "
            f"WHERE c.conversation_id = :here{f' AND c.{column} IS NOT NULL' if column else ''}"
        )

    def _snapshot_items(self) -> str:
        """The items of a snapshot (``:value``) as rows."""
        place, kind = self.sql.json_item("e.value", 0), self.sql.json_item("e.value", 1, "text")
        message, summary = self.sql.json_item("e.value", 2), self.sql.json_item("e.value", 2, "text")
        return (
            f"SELECT n.conversation_id, {place} AS ordinal, {self.sql.enum(kind, 'item_type')} AS kind, "
            f"CASE WHEN {kind} = 'message' THEN {message} END AS message_id, "
            f"CASE WHEN {kind} = 'summary' THEN {summary} END AS summary_id, "
            f"{self.sql.json_item('e.value', 3)} AS tokens "
            f"FROM context_snapshots n CROSS JOIN {self.sql.json_items('n.items')} "
            "WHERE n.conversation_id = :here AND n.snapshot_id = :value"
        )

    def _take_out(self, conversation_id: int, chosen: str, value: Any, cause: str, now: int) -> int:
        """Moves the items that a condition with one ``:value`` chooses into a snapshot, within the database."""
        here = {"here": conversation_id, "value": value}
        revision = self._bump(conversation_id)
        totals = self._totals(chosen, here)
        item = self.sql.json_array(
            "ordinal", "item_type", self.sql.json_either("message_id", "summary_id"), "tokens"
        )
        row = self.one(
            "INSERT INTO context_snapshots (conversation_id, created_at, cause, revision, items) "
            f"SELECT :here, :now, :cause, :revision, {self.sql.json_list('item')} FROM (SELECT {item} AS item "
            f"FROM context_items WHERE conversation_id = :here AND {chosen} ORDER BY ordinal) chosen "
            "RETURNING snapshot_id",
            **here,
            now=now,
            cause=cause,
            revision=revision,
        )
        self.run(f"DELETE FROM context_items WHERE conversation_id = :here AND {chosen}", **here)
        raw_items, raw_tokens, summary_items, summary_tokens = totals
        self._add_totals(conversation_id, (-raw_items, -raw_tokens, -summary_items, -summary_tokens), now)
        return int(row[0])

    def _totals(self, chosen: str, here: Mapping[str, Any]) -> tuple[int, int, int, int]:
        """Count and tokens of the chosen raw items, then of the chosen summaries."""
        row = self.one(
            f"SELECT {TOTALS} FROM context_items WHERE conversation_id = :here AND {chosen}", **here
        )
        return (row[0], row[1], row[2], row[3])

    def _check_still_stands(self, publication: Publication, low: int, high: int) -> None:
        here = publication.summary.conversation_id
        if self._revision(here) != publication.revision:
            raise StoreConflict(f"conversation {here} was compacted or reset meanwhile")
        rows = self.all(
            "SELECT ordinal, message_id, summary_id, tokens FROM context_items "
            "WHERE conversation_id = :here AND ordinal BETWEEN :low AND :high ORDER BY ordinal",
            here=here,
            low=low,
            high=high,
        )
        expected = [
            (item.ordinal, item.message.message_id if item.message else None, item.summary_id, item.tokens)
            for item in publication.replaces
        ]
        if rows != expected:
            raise StoreConflict(f"the chunk of conversation {here} no longer stands as it was chosen")

    def _mark_compaction(self, publication: Publication) -> None:
        """Leaves a ``compaction`` part on the newest message that the summary covers."""
        summary = publication.summary
        parts = self.sql.parts_of("m.conversation_id", "m.message_id")
        key, value = self.sql.part_key("conversation_id", "message_id", "place")
        self.run(
            f"INSERT INTO message_parts ({key}, message_id, ordinal, type, path, text, metadata) "
            f"SELECT {value}, message_id, place, 'compaction', '', '', :note FROM "
            "(SELECT m.conversation_id, m.message_id, coalesce((SELECT max(p.ordinal) FROM message_parts p "
            f"WHERE {parts}), -1) + 1 AS place FROM messages m WHERE m.conversation_id = :here AND m.seq = :seq) newest",
            note=json.dumps({"summary_id": summary.summary_id, "reason": publication.reason}),
            here=summary.conversation_id,
            seq=summary.last_seq,
        )

    def _add_totals(self, conversation_id: int, totals: tuple[int, int, int, int], now: int) -> None:
        raw_items, raw_tokens, summary_items, summary_tokens = totals
        self.run(
            "UPDATE conversations SET raw_items = raw_items + :raw_items, raw_tokens = raw_tokens + :raw_tokens, "
            "summary_items = summary_items + :summary_items, summary_tokens = summary_tokens + :summary_tokens, "
            "updated_at = :now WHERE conversation_id = :here",
            raw_items=raw_items,
            raw_tokens=raw_tokens,
            summary_items=summary_items,
            summary_tokens=summary_tokens,
            now=now,
            here=conversation_id,
        )

    def _revision(self, conversation_id: int) -> int:
        row = self.one(
            f"SELECT revision FROM conversations WHERE conversation_id = :here{self.lock_row}",
            here=conversation_id,
        )
        return int(row[0]) if row else -1

    def _bump(self, conversation_id: int) -> int:
        row = self.one(
            "UPDATE conversations SET revision = revision + 1 WHERE conversation_id = :here RETURNING revision",
            here=conversation_id,
        )
        return int(row[0])


# Count and tokens of raw items, then of summaries.
TOTALS = (
    "count(message_id), CAST(coalesce(sum(tokens) FILTER (WHERE message_id IS NOT NULL), 0) AS bigint), "
    "count(summary_id), CAST(coalesce(sum(tokens) FILTER (WHERE summary_id IS NOT NULL), 0) AS bigint)"
)


def _item(row: Any) -> Item:
    ordinal, tokens, summary_id, depth, fallback = row[HEAD_WIDTH:]
    if summary_id is not None:
        return Item(ordinal, "summary", tokens, depth, None, summary_id, bool(fallback))
    return Item(ordinal, "message", tokens, -1, message_head(row))
