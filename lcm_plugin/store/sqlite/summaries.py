"""Summaries and their links."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from lcm_plugin.store.records import Item, Summary
from lcm_plugin.store.sqlite.conversations import Handle

_COLUMNS = (
    "summary_id, conversation_id, depth, content, tokens, earliest_at, latest_at, first_seq, last_seq, "
    "descendant_count, message_count, source_tokens, message_tokens, level, model, prompt_version, fallback, capped, "
    "created_at, file_ids"
)


class SummaryQueries(Handle):
    """Reads of the DAG."""

    def summaries(self, summary_ids: Sequence[str]) -> dict[str, Summary]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM json_each(?) ids JOIN summaries ON summary_id = ids.value",
            (json.dumps(list(summary_ids)),),
        )
        return {row[0]: _summary(row) for row in rows}

    def list_summaries(
        self, conversation_id: int, *, after: str | None = None, limit: int = 100, depth: int | None = None
    ) -> list[Summary]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM summaries WHERE conversation_id = ? AND (? IS NULL OR depth = ?) "
            "AND summary_rowid > coalesce((SELECT summary_rowid FROM summaries WHERE summary_id = ?), 0) "
            "ORDER BY summary_rowid LIMIT ?",
            (conversation_id, depth, depth, after, limit),
        )
        return [_summary(row) for row in rows]

    def source_summaries(self, summary_id: str) -> list[str]:
        rows = self._all(
            "SELECT parent_summary_id FROM summary_parents WHERE summary_id = ? ORDER BY ordinal",
            (summary_id,),
        )
        return [row[0] for row in rows]

    def source_messages(self, summary_id: str) -> list[int]:
        rows = self._all(
            "SELECT message_id FROM summary_messages WHERE summary_id = ? ORDER BY ordinal", (summary_id,)
        )
        return [row[0] for row in rows]

    def sources_of(self, summary_ids: Sequence[str]) -> dict[str, list[str]]:
        ids = json.dumps(list(summary_ids))
        found: dict[str, list[str]] = {}
        for summary_id, ref in self.db.execute(
            "SELECT summary_id, 'msg_' || message_id FROM json_each(:ids) ids CROSS JOIN summary_messages "
            "WHERE summary_id = ids.value UNION ALL "
            "SELECT summary_id, parent_summary_id FROM json_each(:ids) ids CROSS JOIN summary_parents "
            "WHERE summary_id = ids.value",
            {"ids": ids},
        ):
            found.setdefault(summary_id, []).append(ref)
        return found

    def derived_from(self, summary_id: str) -> list[str]:
        rows = self._all(
            "SELECT summary_id FROM summary_parents WHERE parent_summary_id = ? ORDER BY summary_id",
            (summary_id,),
        )
        return [row[0] for row in rows]

    def covering_leaf(self, message_ids: Sequence[int]) -> dict[int, str]:
        rows = self._all(
            "SELECT message_id, summary_id FROM json_each(?) ids CROSS JOIN summary_messages "
            "WHERE message_id = ids.value",
            (json.dumps(list(message_ids)),),
        )
        return dict(rows)

    def fallback_count(self, conversation_id: int) -> int:
        row = self._one(
            "SELECT count(*) FROM summaries WHERE conversation_id = ? AND fallback = 1", (conversation_id,)
        )
        return int(row[0])

    def summary_counts(self, conversation_id: int) -> dict[int, int]:
        rows = self._all(
            "SELECT depth, count(*) FROM summaries WHERE conversation_id = ? GROUP BY depth ORDER BY depth",
            (conversation_id,),
        )
        return dict(rows)


def insert_summary(db: sqlite3.Connection, summary: Summary, sources: Sequence[Item]) -> None:
    """Stores a node and its links to the items it replaces."""
    db.execute(
        f"INSERT INTO summaries (kind, {_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        (
            summary.kind,
            summary.summary_id,
            summary.conversation_id,
            summary.depth,
            summary.content,
            summary.tokens,
            summary.earliest_at,
            summary.latest_at,
            summary.first_seq,
            summary.last_seq,
            summary.descendant_count,
            summary.message_count,
            summary.source_tokens,
            summary.message_tokens,
            summary.level,
            summary.model,
            summary.prompt_version,
            int(summary.fallback),
            int(summary.capped),
            summary.created_at,
            json.dumps(summary.file_ids) if summary.file_ids else None,
        ),
    )
    db.executemany(
        "INSERT INTO summary_messages (summary_id, ordinal, message_id) VALUES (?, ?, ?)",
        [(summary.summary_id, n, item.message.message_id) for n, item in enumerate(sources) if item.message],
    )
    db.executemany(
        "INSERT INTO summary_parents (summary_id, ordinal, parent_summary_id) VALUES (?, ?, ?)",
        [(summary.summary_id, n, item.summary_id) for n, item in enumerate(sources) if item.summary_id],
    )


def _summary(row: Any) -> Summary:
    values = list(row)
    values[16:18] = map(bool, values[16:18])
    values[19] = tuple(json.loads(values[19])) if values[19] else ()
    return Summary(*values)
