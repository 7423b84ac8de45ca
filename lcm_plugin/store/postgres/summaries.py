"""Summaries and their links."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lcm_plugin.store.postgres.conversations import Handle
from lcm_plugin.store.records import Item, Summary

_COLUMNS = (
    "summary_id, conversation_id, depth, content, tokens, earliest_at, latest_at, first_seq, last_seq, "
    "descendant_count, message_count, source_tokens, message_tokens, level, model, prompt_version, fallback, capped, "
    "created_at, file_ids"
)


class SummaryQueries(Handle):
    """Reads of the DAG."""

    def summaries(self, summary_ids: Sequence[str]) -> dict[str, Summary]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM summaries WHERE summary_id = ANY(%s) "
            "ORDER BY array_position(%s::text[], summary_id)",
            (list(summary_ids), list(summary_ids)),
        )
        return {row[0]: _summary(row) for row in rows}

    def list_summaries(
        self, conversation_id: int, *, after: str | None = None, limit: int = 100, depth: int | None = None
    ) -> list[Summary]:
        begin = None
        if after is not None:
            begin = self._one(
                "SELECT summary_rowid FROM summaries WHERE conversation_id = %s AND summary_id = %s",
                (conversation_id, after),
            )
        rows = self._all(
            f"SELECT {_COLUMNS} FROM summaries WHERE conversation_id = %(conversation)s "
            f"{'' if depth is None else 'AND depth = %(depth)s '}"
            # Both columns, so that no other index than that of the conversation's own order will do.
            "AND (conversation_id, summary_rowid) > (%(conversation)s, %(after)s) "
            "ORDER BY summary_rowid LIMIT %(limit)s",
            {
                "conversation": conversation_id,
                "depth": depth,
                "after": begin[0] if begin else 0,
                "limit": limit,
            },
        )
        return [_summary(row) for row in rows]

    def source_summaries(self, summary_id: str) -> list[str]:
        rows = self._all(
            "SELECT parent_summary_id FROM summary_parents WHERE summary_id = %s ORDER BY ordinal",
            (summary_id,),
        )
        return [row[0] for row in rows]

    def source_messages(self, summary_id: str) -> list[int]:
        rows = self._all(
            "SELECT message_id FROM summary_messages WHERE summary_id = %s ORDER BY ordinal", (summary_id,)
        )
        return [row[0] for row in rows]

    def sources_of(self, summary_ids: Sequence[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for summary_id, ref in self._all(
            "SELECT summary_id, ref FROM ("
            "SELECT summary_id, ordinal, 'msg_' || message_id AS ref FROM summary_messages "
            "WHERE summary_id = ANY(%(ids)s) UNION ALL "
            "SELECT summary_id, ordinal, parent_summary_id FROM summary_parents WHERE summary_id = ANY(%(ids)s)) links "
            "ORDER BY summary_id, ordinal",
            {"ids": list(summary_ids)},
        ):
            found.setdefault(summary_id, []).append(ref)
        return found

    def derived_from(self, summary_id: str) -> list[str]:
        rows = self._all(
            "SELECT summary_id FROM summary_parents WHERE parent_summary_id = %s ORDER BY summary_id",
            (summary_id,),
        )
        return [row[0] for row in rows]

    def covering_leaf(self, message_ids: Sequence[int]) -> dict[int, str]:
        return dict(
            self._all(
                "SELECT message_id, summary_id FROM summary_messages WHERE message_id = ANY(%s)",
                (list(message_ids),),
            )
        )

    def fallback_count(self, conversation_id: int) -> int:
        row = self._one(
            "SELECT count(*) FROM summaries WHERE conversation_id = %s AND fallback", (conversation_id,)
        )
        return int(row[0])

    def summary_counts(self, conversation_id: int) -> dict[int, int]:
        return dict(
            self._all(
                "SELECT depth, count(*) FROM summaries WHERE conversation_id = %s GROUP BY depth ORDER BY depth",
                (conversation_id,),
            )
        )


class SummaryChanges(SummaryQueries):
    """Storing nodes."""

    def _insert_summary(self, summary: Summary, sources: Sequence[Item]) -> None:
        """Stores a node and its links to the items it replaces."""
        conversation_id, summary_id = summary.conversation_id, summary.summary_id
        places = ", ".join(["%s"] * 21)
        self._run(
            f"INSERT INTO summaries (kind, {_COLUMNS}) VALUES ({places})",
            (
                summary.kind,
                summary_id,
                conversation_id,
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
                summary.fallback,
                summary.capped,
                summary.created_at,
                json.dumps(summary.file_ids) if summary.file_ids else None,
            ),
        )
        self._many(
            "INSERT INTO summary_messages (conversation_id, summary_id, ordinal, message_id) VALUES (%s, %s, %s, %s)",
            [
                (conversation_id, summary_id, n, item.message.message_id)
                for n, item in enumerate(sources)
                if item.message
            ],
        )
        self._many(
            "INSERT INTO summary_parents (conversation_id, summary_id, ordinal, parent_summary_id) "
            "VALUES (%s, %s, %s, %s)",
            [
                (conversation_id, summary_id, n, item.summary_id)
                for n, item in enumerate(sources)
                if item.summary_id
            ],
        )


def _summary(row: Any) -> Summary:
    values = list(row)
    values[19] = tuple(values[19] or ())
    return Summary(*values)
