"""Look-ups of rows with their texts. How words and substrings are found is each database's own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from lcm_plugin.store.records import message_ref
from lcm_plugin.store.search import Filter, RowKind, SearchRow, WordQuery
from lcm_plugin.store.tables.indexes import DerivedIndexes

SEARCH_TABLE = {"message": "messages m", "summary": "summaries m"}
SEARCH_ID = {"message": "m.message_id", "summary": "m.summary_rowid"}
MAX_SENDERS = 300
SENDERS_OF_CONVERSATIONS = 50


class SearchTable(DerivedIndexes):
    """Rows of searches by their ids, and how many there are."""

    def search_columns(self, kind: RowKind) -> str:
        """What `search_row` reads of ``messages m`` or ``summaries m``."""
        if kind == "summary":
            return (
                "m.summary_rowid, m.summary_id, m.conversation_id, m.first_seq, m.earliest_at, m.tokens, "
                "m.content, m.depth, m.latest_at"
            )
        parts = self.sql.parts_of("m.conversation_id", "m.message_id")
        return (
            "m.message_id, m.conversation_id, m.seq, m.role, m.sender, m.created_at, m.tokens, "
            f"coalesce({self.message_text()}, ''), (SELECT min(p.tool_name) FROM message_parts p WHERE {parts}), m.hidden"
        )

    @abstractmethod
    def message_text(self) -> str:
        """The text of ``messages m`` that is searched, as an expression."""

    @abstractmethod
    def count_words(self, kind: RowKind, query: WordQuery, rows: Filter, cap: int) -> int:
        """How many indexed rows have the words."""

    def count_each(
        self, kind: RowKind, queries: Sequence[WordQuery], rows: Filter, cap: int
    ) -> Iterator[int]:
        return (self.count_words(kind, query, rows, cap) for query in queries)

    def newest_row(self, kind: RowKind) -> int:
        row = self.one(f"SELECT coalesce(max({SEARCH_ID[kind]}), 0) FROM {SEARCH_TABLE[kind]}")
        return int(row[0])

    def row_count(self, kind: RowKind, rows: Filter) -> int:
        if rows.conversation_ids is None:
            return self.newest_row(kind)
        counted = (
            "coalesce(sum(message_count), 0) FROM conversations"
            if kind == "message"
            else "count(*) FROM summaries"
        )
        row = self.one(
            f"SELECT {counted} WHERE conversation_id {self.sql.any_of('ids')}",
            ids=self.sql.array(rows.conversation_ids),
        )
        return int(row[0])

    def message_senders(self, conversation_ids: Sequence[int] | None) -> list[str]:
        if conversation_ids is None:
            newest = self.all(
                "SELECT conversation_id FROM conversations ORDER BY conversation_id DESC LIMIT :most",
                most=SENDERS_OF_CONVERSATIONS,
            )
            conversation_ids = [row[0] for row in newest]
        names: dict[str, None] = {}
        for conversation_id in sorted(conversation_ids, reverse=True)[:SENDERS_OF_CONVERSATIONS]:
            # From name to name through the index, however many messages each has.
            following = (
                "SELECT min(sender) FROM messages WHERE conversation_id = :here AND sender IS NOT NULL"
            )
            found = self.all(
                f"WITH RECURSIVE known (name) AS ({following} UNION ALL SELECT ({following} AND sender > known.name) "
                "FROM known WHERE known.name IS NOT NULL) SELECT name FROM known WHERE name IS NOT NULL LIMIT :most",
                here=conversation_id,
                most=MAX_SENDERS,
            )
            names |= dict.fromkeys(row[0] for row in found)
            if len(names) >= MAX_SENDERS:
                break
        return list(names)[:MAX_SENDERS]

    def search_rows(self, kind: RowKind, row_ids: Sequence[int]) -> dict[int, SearchRow]:
        if not row_ids:
            return {}
        found = self.all(
            f"SELECT {self.search_columns(kind)} FROM {SEARCH_TABLE[kind]} "
            f"WHERE {SEARCH_ID[kind]} {self.sql.any_of('ids')}",
            ids=self.sql.array(row_ids),
        )
        by_id = {row[0]: search_row(kind, row) for row in found}
        return {row_id: by_id[row_id] for row_id in row_ids if row_id in by_id}


def search_row(kind: RowKind, row: Any) -> SearchRow:
    """A found row from the columns of `SearchTable.search_columns`."""
    if kind == "message":
        row_id, conversation_id, seq, role, sender, at, tokens, text, tool, hidden = row
        return SearchRow(
            row_id,
            message_ref(row_id),
            conversation_id,
            seq,
            role,
            sender,
            at,
            tokens,
            text,
            until=at,
            tool_name=tool,
            hidden=bool(hidden),
        )
    row_id, summary_id, conversation_id, first_seq, at, tokens, text, depth, until = row
    return SearchRow(
        row_id, summary_id, conversation_id, first_seq, "summary", None, at, tokens, text, depth, until
    )
