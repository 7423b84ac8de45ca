"""Search queries.

Every indexed query is driven from the full-text table and looks up its rows by id: without statistics
the planner would rather walk the messages, which is a thousand times slower. ``CROSS JOIN`` fixes the
order of a join in SQLite.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from lcm_plugin.store.search import (
    AllOf,
    Clause,
    Condition,
    Filter,
    IndexUnusable,
    Order,
    RowKind,
    Scored,
    SearchRow,
    Stretch,
    Substring,
    WordQuery,
)
from lcm_plugin.store.sqlite.search_index import IndexChanges, IndexQueries, spread_cjk
from lcm_plugin.store.tables.search import (
    SEARCH_ID,
    SEARCH_TABLE,
    search_row,
)

COUNT_EXACTLY = 20_000
# Conversations are small when all have so many times their messages.
_SMALL = 5


class SearchQueries(IndexQueries):
    """Full-text queries, scans and look-ups of rows with their texts."""

    def find_words(
        self, kind: RowKind, query: WordQuery, rows: Filter, *, order: Order, limit: int, offset: int = 0
    ) -> list[Scored]:
        match = match_expression(query)
        if not match:
            return []
        joined, where, values = self._join(kind, rows)
        by = "1 DESC" if order == "recency" else "2, 1 DESC"
        score = "0.0" if order == "recency" else f"bm25({kind}s_fts)"
        return [
            Scored(row_id, -score)
            for row_id, score in self._indexed(
                f"SELECT f.rowid, {score} FROM {kind}s_fts f {joined} WHERE {kind}s_fts MATCH ? {where} "
                f"ORDER BY {by.replace('1 DESC', 'f.rowid DESC')} LIMIT ? OFFSET ?",
                (match, *values, limit, offset),
            )
        ]

    def rows_with_words(
        self, kind: RowKind, words: Sequence[str], beginnings: Sequence[str], rows: Filter, limit: int
    ) -> list[int]:
        wanted = [*map(_quote, words), *(f"{_quote(beginning)} *" for beginning in beginnings)]
        if not wanted:
            return []
        joined, where, values = self._join(kind, Filter(rows.conversation_ids, up_to_id=rows.up_to_id))
        found = self._indexed(
            f"SELECT f.rowid FROM {kind}s_fts f {joined} WHERE {kind}s_fts MATCH ? {where} "
            "ORDER BY f.rowid DESC LIMIT ?",
            (f"text : ({' OR '.join(wanted)})", *values, limit),
        )
        return [row[0] for row in found]

    def count_words(self, kind: RowKind, query: WordQuery, rows: Filter, cap: int) -> int:
        match = match_expression(query)
        if not match:
            return 0
        joined, where, values = self._join(kind, rows)
        found = self._indexed(
            f"SELECT count(*) FROM (SELECT 1 FROM {kind}s_fts f {joined} WHERE {kind}s_fts MATCH ? {where} LIMIT ?)",
            (match, *values, cap),
        )
        return int(found[0][0])

    def document_shares(self, kind: RowKind, clauses: Sequence[Clause], rows: Filter) -> list[float]:
        inside = Filter(rows.conversation_ids)
        total = max(1, self.row_count(kind, inside))
        shares = []
        for clause in clauses:
            query = WordQuery((clause,))
            counted = self.count_words(kind, query, inside, COUNT_EXACTLY)
            if counted == COUNT_EXACTLY and inside.conversation_ids is not None:
                # Too many to look each one up: as frequent here as everywhere.
                whole = Filter(None)
                shares.append(
                    self.count_words(kind, query, whole, _END) / max(1, self.row_count(kind, whole))
                )
            else:
                shares.append(counted / total)
        return [min(1.0, share) for share in shares]

    def scan(self, kind: RowKind, rows: Filter, condition: Condition | None = None) -> Iterator[SearchRow]:
        upper = (rows.up_to_id or _END) + 1
        lower = 0
        if condition is not None and self._index_usable():
            lower = self._last_indexed(kind)
        yield from self._scan_table(kind, rows, lower, upper)
        if condition is not None and lower:
            yield from self._scan_index(kind, rows, condition, min(upper, lower + 1))

    def unindexed_rows(self, kind: RowKind, rows: Filter) -> Iterator[SearchRow]:
        lower = self._last_indexed(kind) if self._index_usable() else 0
        yield from self._scan_table(kind, rows, lower, (rows.up_to_id or _END) + 1)

    def rows_within(self, stretches: Sequence[Stretch]) -> list[SearchRow]:
        found = self.all(
            f"SELECT {self.search_columns('message')} FROM json_each(:stretches) stretch CROSS JOIN messages m "
            "ON m.conversation_id = json_extract(stretch.value, '$[0]') AND m.seq BETWEEN "
            "json_extract(stretch.value, '$[1]') AND json_extract(stretch.value, '$[2]') WHERE NOT m.hidden",
            stretches=json.dumps(_merged(stretches)),
        )
        rows = [search_row("message", row) for row in found]
        return sorted(rows, key=lambda row: (row.conversation_id, row.position))

    def _join(self, kind: RowKind, rows: Filter) -> tuple[str, str, list[Any]]:
        """The join to the rows, only where the filter needs it, and the filter's conditions."""
        where, values = _conditions(kind, rows)
        if rows.up_to_id is not None:
            where += " AND f.rowid <= ?"
            values.append(rows.up_to_id)
        if kind == "message" and rows.conversation_ids is not None:
            where += " AND f.rowid BETWEEN ? AND ?"
            values += self._span(tuple(rows.conversation_ids))
        joined = (
            f"CROSS JOIN {SEARCH_TABLE[kind]} ON {SEARCH_ID[kind]} = f.rowid"
            if where.strip() or kind == "summary"
            else ""
        )
        return joined, where, values

    def _span(self, conversation_ids: tuple[int, ...]) -> tuple[int, int]:
        """Between which ids the messages of some conversations stand, else the index names the rows of all the others.

        That is asked of small ones only, and once in a transaction.
        """
        if conversation_ids not in self._spans:
            span = (0, _END)
            count = self.row_count("message", Filter(conversation_ids))
            if count * _SMALL <= self.newest_row("message"):
                where, values = _in_conversations(conversation_ids)
                found = f"SELECT min(m.message_id), max(m.message_id) FROM messages m WHERE true {where}"
                first, last = self.db.execute(found, values).fetchone()
                span = (first or 0, last or 0)
            self._spans[conversation_ids] = span
        return self._spans[conversation_ids]

    @cached_property
    def _spans(self) -> dict[tuple[int, ...], tuple[int, int]]:
        return {}

    def _indexed(self, sql: str, values: Sequence[Any]) -> list[Any]:
        if not self._index_usable():
            raise IndexUnusable("the full-text index is not there")
        try:
            return self.db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            if error.sqlite_errorname == "SQLITE_INTERRUPT":
                raise
            raise IndexUnusable(f"the full-text index cannot be read: {error}") from error

    def _scan_table(self, kind: RowKind, rows: Filter, lower: int, upper: int) -> Iterator[SearchRow]:
        # Few rows lie past the index: those are walked by id, whatever conversation they belong to.
        where, order, values = _newest_first(kind, rows, by_id=lower > 0)
        cursor = self.db.execute(
            f"SELECT {self.search_columns(kind)} FROM {SEARCH_TABLE[kind]} "
            f"WHERE {SEARCH_ID[kind]} > ? AND {SEARCH_ID[kind]} < ? {where} "
            f"ORDER BY {order}",
            (lower, upper, *values),
        )
        for row in cursor:
            yield search_row(kind, row)

    def _scan_index(
        self, kind: RowKind, rows: Filter, condition: Condition, upper: int
    ) -> Iterator[SearchRow]:
        where, values = _conditions(kind, rows)
        if kind == "message" and rows.conversation_ids is not None:
            where += " AND f.rowid BETWEEN ? AND ?"
            values += self._span(tuple(rows.conversation_ids))
        sql = (
            f"SELECT {self.search_columns(kind)} FROM {kind}s_trigram f "
            f"CROSS JOIN {SEARCH_TABLE[kind]} ON {SEARCH_ID[kind]} = f.rowid "
            f"WHERE {kind}s_trigram MATCH ? AND f.rowid < ? {where} ORDER BY f.rowid DESC"
        )
        try:
            for row in self.db.execute(sql, (trigram_expression(condition), upper, *values)):
                yield search_row(kind, row)
        except sqlite3.Error as error:
            raise IndexUnusable(f"the trigram index cannot be read: {error}") from error


class SqliteSearch(IndexChanges, SearchQueries):
    """Queries, and the maintenance of their indexes."""


_END = 1 << 62


def _merged(stretches: Sequence[Stretch]) -> list[Stretch]:
    """The same messages in stretches that do not overlap."""
    merged: list[Stretch] = []
    for here, first, last in sorted(stretches):
        if merged and merged[-1][0] == here and first <= merged[-1][2] + 1:
            merged[-1] = (here, merged[-1][1], max(last, merged[-1][2]))
        else:
            merged.append((here, first, last))
    return merged


def match_expression(query: WordQuery) -> str:
    """The query in FTS5's syntax; empty when nothing of it can match. Every text is quoted."""
    pieces = [piece for clause in query.clauses if (piece := _clause_expression(clause))]
    return (" AND " if query.all else " OR ").join(pieces)


def _clause_expression(clause: Clause) -> str:
    if clause.kind == "cjk":
        spread = spread_cjk(clause.text)
        return f"cjk : {_quote(spread)}" if spread else ""
    return f"text : ({' OR '.join(map(_quote, (clause.text, *clause.forms)))})"


def trigram_expression(condition: Condition) -> str:
    """A condition over substrings as a query of their three-character runs."""
    if isinstance(condition, Substring):
        text = condition.text
        runs = dict.fromkeys(text[i : i + 3] for i in range(len(text) - 2))
        return " AND ".join(map(_quote, runs))
    operator = " AND " if isinstance(condition, AllOf) else " OR "
    return operator.join(f"({trigram_expression(term)})" for term in condition.terms)


def _quote(text: str) -> str:
    cleaned = text.replace('"', '""').replace("\x00", " ")
    return f'"{cleaned}"'


def _conditions(kind: RowKind, rows: Filter) -> tuple[str, list[Any]]:
    where, values = _in_conversations(rows.conversation_ids)
    first, last = ("m.created_at", "m.created_at") if kind == "message" else ("m.earliest_at", "m.latest_at")
    if rows.since is not None:
        where += f" AND {last} >= ?"
        values.append(rows.since)
    if rows.before is not None:
        where += f" AND {first} < ?"
        values.append(rows.before)
    if rows.spans is not None:
        within = " OR ".join([f"({last} >= ? AND {first} < ?)"] * len(rows.spans))
        where += f" AND ({within or 'false'})"
        values += chain.from_iterable(rows.spans)
    if kind == "message" and rows.roles is not None:
        where += " AND m.role IN (SELECT value FROM json_each(?))"
        values.append(json.dumps(rows.roles))
    if kind == "message" and rows.senders is not None:
        where += " AND m.sender IN (SELECT value FROM json_each(?))"
        values.append(json.dumps(rows.senders))
    if kind == "message" and rows.tool_name is not None:
        where += (
            " AND EXISTS (SELECT 1 FROM message_parts t WHERE t.part_id >= m.message_id * 65536 "
            "AND t.part_id < (m.message_id + 1) * 65536 AND t.tool_name = ?)"
        )
        values.append(rows.tool_name)
    return where, values


def _newest_first(kind: RowKind, rows: Filter, by_id: bool = False) -> tuple[str, str, list[Any]]:
    """Conditions, order and values of a walk from the newest row that never sorts.

    One conversation is walked along its own index, several along the table.
    """
    where, values = _conditions(kind, rows)
    single = rows.conversation_ids is not None and len(rows.conversation_ids) == 1
    if kind == "message" and single and not by_id:
        return where, "m.seq DESC", values
    return where.replace("m.conversation_id", "+m.conversation_id"), f"{SEARCH_ID[kind]} DESC", values


def _in_conversations(conversation_ids: Sequence[int] | None) -> tuple[str, list[Any]]:
    if conversation_ids is None:
        return "", []
    if len(conversation_ids) == 1:
        return " AND m.conversation_id = ?", [conversation_ids[0]]
    return " AND m.conversation_id IN (SELECT value FROM json_each(?))", [json.dumps(list(conversation_ids))]
