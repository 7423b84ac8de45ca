"""Summaries and their links."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lcm_plugin.store.records import Item, Summary
from lcm_plugin.store.transaction import Transaction

_COLUMNS = (
    "summary_id, conversation_id, depth, content, tokens, earliest_at, latest_at, first_seq, last_seq, "
    "descendant_count, message_count, source_tokens, message_tokens, level, model, prompt_version, fallback, "
    "fallback_cause, capped, created_at, file_ids, made_ms"
)
_INSERT = (
    f"INSERT INTO summaries (kind, {_COLUMNS}) VALUES (:kind, "
    + ", ".join(f":{column}" for column in _COLUMNS.split(", "))
    + ")"
)
FALLBACK_CAUSES_SCHEMA = """
ALTER TABLE summaries ADD COLUMN fallback_cause text NOT NULL DEFAULT '';
"""


class SummaryTable(Transaction):
    """Reads of the DAG, and its new nodes."""

    def summaries(self, summary_ids: Sequence[str]) -> dict[str, Summary]:
        rows = self.all(
            f"SELECT {_COLUMNS} FROM summaries WHERE summary_id {self.sql.any_of('ids')}",
            ids=self.sql.array(summary_ids),
        )
        found = {row[0]: _summary(row) for row in rows}
        return {one: found[one] for one in summary_ids if one in found}

    def list_summaries(
        self, conversation_id: int, *, after: str | None = None, limit: int = 100, depth: int | None = None
    ) -> list[Summary]:
        begin = None
        if after is not None:
            begin = self.one(
                "SELECT summary_rowid FROM summaries WHERE conversation_id = :here AND summary_id = :after",
                here=conversation_id,
                after=after,
            )
        rows = self.all(
            f"SELECT {_COLUMNS} FROM summaries WHERE conversation_id = :here "
            f"{'' if depth is None else 'AND depth = :depth '}"
            # Both columns, so that no other index than that of the conversation's own order will do.
            "AND (conversation_id, summary_rowid) > (:here, :after) ORDER BY summary_rowid LIMIT :limit",
            here=conversation_id,
            depth=depth,
            after=begin[0] if begin else 0,
            limit=limit,
        )
        return [_summary(row) for row in rows]

    def source_summaries(self, summary_id: str) -> list[str]:
        rows = self.all(
            "SELECT parent_summary_id FROM summary_parents WHERE summary_id = :summary ORDER BY ordinal",
            summary=summary_id,
        )
        return [row[0] for row in rows]

    def source_messages(self, summary_id: str) -> list[int]:
        rows = self.all(
            "SELECT message_id FROM summary_messages WHERE summary_id = :summary ORDER BY ordinal",
            summary=summary_id,
        )
        return [row[0] for row in rows]

    def sources_of(self, summary_ids: Sequence[str]) -> dict[str, list[str]]:
        chosen = self.sql.any_of("ids")
        found: dict[str, list[str]] = {}
        for summary_id, ref in self.all(
            "SELECT summary_id, ref FROM ("
            "SELECT summary_id, ordinal, 'msg_' || message_id AS ref FROM summary_messages "
            f"WHERE summary_id {chosen} UNION ALL "
            f"SELECT summary_id, ordinal, parent_summary_id FROM summary_parents WHERE summary_id {chosen}) links "
            "ORDER BY summary_id, ordinal",
            ids=self.sql.array(summary_ids),
        ):
            found.setdefault(summary_id, []).append(ref)
        return found

    def derived_from(self, summary_id: str) -> list[str]:
        rows = self.all(
            "SELECT summary_id FROM summary_parents WHERE parent_summary_id = :summary ORDER BY summary_id",
            summary=summary_id,
        )
        return [row[0] for row in rows]

    def covering_leaf(self, message_ids: Sequence[int]) -> dict[int, str]:
        return dict(
            self.all(
                f"SELECT message_id, summary_id FROM summary_messages WHERE message_id {self.sql.any_of('ids')}",
                ids=self.sql.array(message_ids),
            )
        )

    def fallback_causes(self, conversation_id: int) -> dict[str, int]:
        return dict(
            self.all(
                "SELECT fallback_cause, count(*) FROM summaries WHERE conversation_id = :here AND fallback "
                "GROUP BY fallback_cause ORDER BY fallback_cause",
                here=conversation_id,
            )
        )

    def summary_counts(self, conversation_id: int) -> dict[int, int]:
        return dict(
            self.all(
                "SELECT depth, count(*) FROM summaries WHERE conversation_id = :here GROUP BY depth ORDER BY depth",
                here=conversation_id,
            )
        )

    def _insert_summary(self, summary: Summary, sources: Sequence[Item]) -> None:
        """Stores a node and its links to the items it replaces."""
        values = {column: getattr(summary, column) for column in ("kind", *_COLUMNS.split(", "))}
        self.run(
            _INSERT, **{**values, "file_ids": json.dumps(summary.file_ids) if summary.file_ids else None}
        )
        here = {"here": summary.conversation_id, "summary": summary.summary_id}
        self.insert_message_links(
            [
                {**here, "ordinal": n, "source": item.message.message_id}
                for n, item in enumerate(sources)
                if item.message
            ]
        )
        self.run_many(
            f"INSERT INTO summary_parents ({self.sql.owner}summary_id, ordinal, parent_summary_id) "
            f"VALUES ({self.sql.owner_value}:summary, :ordinal, :source)",
            [
                {**here, "ordinal": n, "source": item.summary_id}
                for n, item in enumerate(sources)
                if item.summary_id
            ],
        )

    def insert_message_links(self, links: Sequence[dict[str, Any]]) -> None:
        """Links leaves with their messages: ``here``, ``summary``, ``ordinal`` and ``source`` of each."""
        self.run_many(
            f"INSERT INTO summary_messages ({self.sql.owner}summary_id, ordinal, message_id) "
            f"VALUES ({self.sql.owner_value}:summary, :ordinal, :source)",
            links,
        )


def _summary(row: Any) -> Summary:
    values = list(row)
    values[16], values[18] = bool(values[16]), bool(values[18])
    values[20] = tuple(json.loads(values[20])) if values[20] else ()
    return Summary(*values)
