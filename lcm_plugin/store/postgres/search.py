"""Search queries over generated tsvectors and, where the extension is there, trigrams.

The words of a row are kept by the database itself, so the index never lags. A query is built from
phrases that the same function cleaned as the texts (`schema.py`), never from operator syntax. Without
``pg_trgm`` substrings and regular expressions still find every row, by reading them all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from lcm_plugin.store.postgres.vectors import VectorChanges, VectorQueries
from lcm_plugin.store.records import message_ref
from lcm_plugin.store.search_base import (
    AllOf,
    Clause,
    Condition,
    Filter,
    IndexState,
    Order,
    RowKind,
    Scored,
    SearchRow,
    Substring,
    WordQuery,
)

MAX_SENDERS = 300
SENDERS_FROM_NEWEST = 2_000
COUNT_EXACTLY = 20_000
_END = 1 << 62
_FETCH = 200
_cursor_names = itertools.count()

_TEXT = (
    "(SELECT string_agg(p.text, E'\\n' ORDER BY p.ordinal) FROM message_parts p "
    "WHERE p.conversation_id = m.conversation_id AND p.message_id = m.message_id AND p.type <> 'reasoning' "
    "AND p.text <> '' AND p.text NOT LIKE 'data:%%;base64,%%')"
)
_TOOL_NAME = (
    "(SELECT min(p.tool_name) FROM message_parts p WHERE p.conversation_id = m.conversation_id "
    "AND p.message_id = m.message_id)"
)
_SELECT = {
    "message": "SELECT m.message_id, m.conversation_id, m.seq, m.role, m.sender, m.created_at, m.tokens, "
    f"coalesce({_TEXT}, ''), {_TOOL_NAME} FROM messages m",
    "summary": "SELECT m.summary_rowid, m.summary_id, m.conversation_id, m.first_seq, m.earliest_at, m.tokens, "
    "m.content, m.depth, m.latest_at FROM summaries m",
}
_ID = {"message": "m.message_id", "summary": "m.summary_rowid"}
_WORDS = {
    "message": "FROM message_parts w JOIN messages m ON m.conversation_id = w.conversation_id "
    "AND m.message_id = w.message_id",
    "summary": "FROM summaries m",
}
_VECTOR = {"message": "w.words", "summary": "m.words"}


class SearchQueries(VectorQueries):
    """Full-text queries, scans and look-ups of rows with their texts."""

    def index_state(self) -> IndexState:
        return IndexState(available=True, usable=True, message_lag=0, summary_lag=0)

    def find_words(
        self, kind: RowKind, query: WordQuery, rows: Filter, *, order: Order, limit: int, offset: int = 0
    ) -> list[Scored]:
        search = _Search(kind, query, rows)
        if search.is_empty:
            return []
        rank = "0.0" if order == "recency" else f"sum(ts_rank({_VECTOR[kind]}, {search.any_of}, 1))"
        sort = "1 DESC" if order == "recency" else "2 DESC, 1 DESC"
        found = self._all(
            f"SELECT {_ID[kind]}, {rank} {search.source} ORDER BY {sort} LIMIT %(limit)s OFFSET %(offset)s",
            {**search.values, "limit": limit, "offset": offset},
        )
        return [Scored(row_id, float(score)) for row_id, score in found]

    def count_words(self, kind: RowKind, query: WordQuery, rows: Filter, cap: int) -> int:
        search = _Search(kind, query, rows)
        if search.is_empty:
            return 0
        row = self._one(
            f"SELECT count(*) FROM (SELECT 1 {search.source} LIMIT %(cap)s) found",
            {**search.values, "cap": min(cap, _END)},
        )
        return int(row[0])

    def document_shares(self, kind: RowKind, clauses: Sequence[Clause], rows: Filter) -> list[float]:
        inside = Filter(rows.conversation_ids)
        total = max(1, self.row_count(kind, inside))
        counts = [self.count_words(kind, WordQuery((clause,)), inside, COUNT_EXACTLY) for clause in clauses]
        return [min(1.0, count / total) for count in counts]

    def newest_row(self, kind: RowKind) -> int:
        table, column = ("messages", "message_id") if kind == "message" else ("summaries", "summary_rowid")
        return int(self._one(f"SELECT coalesce(max({column}), 0) FROM {table}")[0])

    def row_count(self, kind: RowKind, rows: Filter) -> int:
        counted = (
            "coalesce(sum(message_count), 0) FROM conversations"
            if kind == "message"
            else "count(*) FROM summaries"
        )
        if rows.conversation_ids is None:
            return int(self._one(f"SELECT {counted}")[0])
        ids = list(rows.conversation_ids)
        return int(self._one(f"SELECT {counted} WHERE conversation_id = ANY(%s)", (ids,))[0])

    def scan(self, kind: RowKind, rows: Filter, condition: Condition | None = None) -> Iterator[SearchRow]:
        where, values = _conditions(kind, rows)
        if condition is not None:
            where += f" AND {_holds(kind, condition, values)}"
        newest = f"{_ID[kind]} DESC"
        if kind == "message" and rows.conversation_ids is not None and len(rows.conversation_ids) == 1:
            newest = "m.seq DESC"
        with self.db.cursor(name=f"lcm_scan_{next(_cursor_names)}") as cursor:
            cursor.itersize = _FETCH
            cursor.execute(f"{_SELECT[kind]} WHERE true {where} ORDER BY {newest}".encode(), values)
            for row in cursor:
                yield _row(kind, row)

    def unindexed_rows(self, kind: RowKind, rows: Filter) -> Iterator[SearchRow]:
        return iter(())

    def search_rows(self, kind: RowKind, row_ids: Sequence[int]) -> dict[int, SearchRow]:
        found = self._all(f"{_SELECT[kind]} WHERE {_ID[kind]} = ANY(%(ids)s)", {"ids": list(row_ids)})
        by_id = {row[0]: _row(kind, row) for row in found}
        return {row_id: by_id[row_id] for row_id in row_ids if row_id in by_id}

    def rows_around(self, conversation_id: int, first_seq: int, last_seq: int) -> list[SearchRow]:
        found = self._all(
            f"{_SELECT['message']} WHERE m.conversation_id = %(id)s AND m.seq BETWEEN %(first)s AND %(last)s "
            "ORDER BY m.seq",
            {"id": conversation_id, "first": first_seq, "last": last_seq},
        )
        return [_row("message", row) for row in found]

    def message_senders(self, conversation_ids: Sequence[int] | None) -> list[str]:
        scope = None if conversation_ids is None else tuple(conversation_ids)
        where, values = _conditions("message", Filter(scope))
        found = self._all(
            f"SELECT DISTINCT sender FROM (SELECT m.sender FROM messages m WHERE true {where} "
            f"ORDER BY m.message_id DESC LIMIT {SENDERS_FROM_NEWEST}) newest WHERE sender IS NOT NULL "
            f"LIMIT {MAX_SENDERS}",
            values,
        )
        return [row[0] for row in found]

    def conversation_ids_with_key(self, prefix: str) -> list[int]:
        found = self._all(
            "SELECT conversation_id FROM conversations WHERE starts_with(session_key, %s) ORDER BY conversation_id",
            (prefix,),
        )
        return [row[0] for row in found]


class SearchChanges(SearchQueries, VectorChanges):
    """Nothing to maintain: the database derives every index from the rows themselves."""

    def index_pending(self, limit: int = 500) -> int:
        return 0

    def unindex_messages(self, message_ids: Sequence[int]) -> None:
        self.forget_vectors(message_ids)

    def reindex_messages(self, message_ids: Sequence[int]) -> None:
        return None

    def unindex_summaries(self, summary_ids: Sequence[str]) -> None:
        return None

    def reindex_summaries(self, summary_ids: Sequence[str]) -> None:
        return None

    def reset_index(self) -> None:
        for index in ("message_parts_words", "summaries_words"):
            self._run(f"REINDEX INDEX {index}")


class _Search:
    """A word query as SQL: its source (from, where, group) and its values."""

    def __init__(self, kind: RowKind, query: WordQuery, rows: Filter) -> None:
        self.values: dict[str, Any] = {}
        pieces = [self._clause(number, clause) for number, clause in enumerate(query.clauses)]
        self.is_empty = not pieces
        self.any_of = f"({' || '.join(pieces)})"
        where, values = _conditions(kind, rows)
        self.values |= values
        self.source = f"{_WORDS[kind]} WHERE {_VECTOR[kind]} @@ {self.any_of} {where} GROUP BY {_ID[kind]}"
        if query.all and pieces:
            held = " AND ".join(f"bool_or({_VECTOR[kind]} @@ {piece})" for piece in pieces)
            self.source += f" HAVING {held}"

    def _clause(self, number: int, clause: Clause) -> str:
        texts = (clause.text, *clause.forms)
        names = [f"word_{number}_{place}" for place in range(len(texts))]
        self.values |= dict(zip(names, texts, strict=True))
        return f"({' || '.join(f'lcm_phrase(%({name})s)' for name in names)})"


def _conditions(kind: RowKind, rows: Filter) -> tuple[str, dict[str, Any]]:
    where = ""
    values: dict[str, Any] = {}
    first, last = ("m.created_at", "m.created_at") if kind == "message" else ("m.earliest_at", "m.latest_at")
    if rows.conversation_ids is not None:
        where += " AND m.conversation_id = ANY(%(conversations)s)"
        values["conversations"] = list(rows.conversation_ids)
    if rows.since is not None:
        where += f" AND {last} >= %(since)s"
        values["since"] = rows.since
    if rows.before is not None:
        where += f" AND {first} < %(before)s"
        values["before"] = rows.before
    if rows.up_to_id is not None:
        where += f" AND {_ID[kind]} <= %(up_to)s"
        values["up_to"] = rows.up_to_id
    if kind == "message" and rows.roles is not None:
        where += " AND m.role = ANY(%(roles)s)"
        values["roles"] = list(rows.roles)
    if kind == "message" and rows.tool_name is not None:
        where += (
            " AND EXISTS (SELECT FROM message_parts t WHERE t.conversation_id = m.conversation_id "
            "AND t.message_id = m.message_id AND t.tool_name = %(tool)s)"
        )
        values["tool"] = rows.tool_name
    return where, values


def _holds(kind: RowKind, condition: Condition, values: dict[str, Any]) -> str:
    """A condition over substrings as SQL; each substring is looked for by the trigram index."""
    if not isinstance(condition, Substring):
        joined = " AND " if isinstance(condition, AllOf) else " OR "
        return f"({joined.join(_holds(kind, term, values) for term in condition.terms)})"
    name = f"part_{len(values)}"
    values[name] = f"%{_escape(condition.text)}%"
    if kind == "summary":
        return f"m.content ILIKE %({name})s"
    return (
        "EXISTS (SELECT FROM message_parts s WHERE s.conversation_id = m.conversation_id "
        f"AND s.message_id = m.message_id AND s.text ILIKE %({name})s)"
    )


def _escape(text: str) -> str:
    cleaned = text.replace("\x00", "").replace("\\", "\\\\")
    return cleaned.replace("%", "\\%").replace("_", "\\_")


def _row(kind: RowKind, row: Any) -> SearchRow:
    if kind == "message":
        row_id, conversation_id, seq, role, sender, at, tokens, text, tool = row
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
        )
    row_id, summary_id, conversation_id, first_seq, at, tokens, text, depth, until = row
    return SearchRow(
        row_id, summary_id, conversation_id, first_seq, "summary", None, at, tokens, text, depth, until
    )
