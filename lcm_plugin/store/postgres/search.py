"""Search queries over generated tsvectors and, where the extension is there, trigrams.

The words of a row are kept by the database itself, so the index never lags. A query is built from
phrases that the same function cleaned as the texts (`schema.py`), never from operator syntax. Without
``pg_trgm`` substrings and regular expressions still find every row, by reading them all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

from lcm_plugin.store.postgres.known_words import LEAST_FREQUENT, KnownWords
from lcm_plugin.store.postgres.search_terms import (
    WordSearch,
    conditions,
    holds,
    newest_first,
)
from lcm_plugin.store.postgres.vectors import PostgresVectors
from lcm_plugin.store.search import (
    Clause,
    Condition,
    Filter,
    IndexState,
    Order,
    RowKind,
    Scored,
    SearchRow,
    Stretch,
    WordQuery,
)
from lcm_plugin.store.tables.search import (
    SEARCH_TABLE,
    SearchTable,
    search_row,
)

COUNT_EXACTLY = 1_000
SHARE_FROM_NEWEST = 500
# The planner's guess comes from a sample: so many times more than is asked for is beyond doubt.
SURELY = 4
# So few rows are all looked at, and so small a share of all.
FEW, RARE_OF = 10_000, 200
# The index reads some 25 entries a microsecond to find rows with all of some words. With more of them, the newest rows are
# read instead.
MOST_ENTRIES = 500_000
_END = 1 << 62
_FETCH = 200

_SEARCHED = "p.type <> 'reasoning' AND p.text <> '' AND p.text NOT LIKE 'data:%;base64,%'"
_HERE = "FROM message_parts p WHERE p.conversation_id = m.conversation_id AND p.message_id = m.message_id"
_TEXT = f"(SELECT string_agg(p.text, E'\\n' ORDER BY p.ordinal) {_HERE} AND {_SEARCHED})"
# Of given rows, one row for each part: to join the texts of a message is three times as dear for the server.
_PARTS = "LEFT JOIN message_parts p ON p.conversation_id = m.conversation_id AND p.message_id = m.message_id "
_PART_COLUMNS = (
    "m.message_id, m.conversation_id, m.seq, m.role, m.sender, m.created_at, m.tokens, "
    f"CASE WHEN {_SEARCHED} THEN p.text END, p.tool_name, m.hidden, p.ordinal"
)
_TEXT_AT, _TOOL_AT, _ORDINAL = 7, 8, 10


class SearchQueries(SearchTable, PostgresVectors):
    """Full-text queries, scans and look-ups of rows with their texts."""

    known: KnownWords

    def message_text(self) -> str:
        return _TEXT

    def search_rows(self, kind: RowKind, row_ids: Sequence[int]) -> dict[int, SearchRow]:
        if kind == "summary" or not row_ids:
            return super().search_rows(kind, row_ids)
        found = self.all(
            f"SELECT {_PART_COLUMNS} FROM messages m {_PARTS}WHERE m.message_id = ANY(:ids)",
            ids=list(row_ids),
        )
        by_id = {row.row_id: row for row in _joined(found)}
        return {row_id: by_id[row_id] for row_id in row_ids if row_id in by_id}

    def row_count(self, kind: RowKind, rows: Filter) -> int:
        if self.lock_row:
            return super().row_count(kind, rows)
        if (kind, rows.conversation_ids) not in self._row_counts:
            self._row_counts[kind, rows.conversation_ids] = super().row_count(kind, rows)
        return self._row_counts[kind, rows.conversation_ids]

    @cached_property
    def _row_counts(self) -> dict[tuple[RowKind, tuple[int, ...] | None], int]:
        """How many rows conversations hold, as far as this transaction has asked."""
        return {}

    def index_state(self) -> IndexState:
        return IndexState(available=True, usable=True, message_lag=0, summary_lag=0)

    def find_words(
        self, kind: RowKind, query: WordQuery, rows: Filter, *, order: Order, limit: int, offset: int = 0
    ) -> list[Scored]:
        search = self._search(kind, query, rows)
        if search.is_empty:
            return []
        values = {**search.values, "limit": limit, "offset": offset}
        if order == "recency":
            source = self._source(search, kind, query, rows)
            if query.all and self._entries(kind, query) > MOST_ENTRIES:
                source = search.found_in_newest
            found = self._planned(
                f"SELECT {search.row_id}, 0.0 {source} ORDER BY 1 DESC LIMIT :limit OFFSET :offset", values
            )
            return [Scored(row_id, 0.0) for row_id, _ in found]
        # All that hold the words are weighed, so that they are counted on the way.
        statement = (
            f"SELECT {search.row_id}, sum(ts_rank({search.vector}, {search.any_of}, 1)), count(*) OVER () "
            f"{search.weighed} ORDER BY 2 DESC, 1 DESC LIMIT :limit OFFSET :offset"
        )
        if not offset and len(rows.conversation_ids or ()) < 2:
            # To weigh what is found, it is asked next how many rows there are.
            self.ahead(lambda: self._planned(statement, values), lambda: self.row_count(kind, rows))
        found = self._planned(statement, values)
        if not self.lock_row and (found or not offset):
            self._rows_with[kind, query, rows] = found[0][2] if found else 0
        return [Scored(row_id, float(score)) for row_id, score, _ in found]

    @cached_property
    def _rows_with(self) -> dict[tuple[RowKind, WordQuery, Filter], int]:
        """How many rows hold some words, as far as this transaction has counted them."""
        return {}

    def rows_with_words(
        self, kind: RowKind, words: Sequence[str], beginnings: Sequence[str], rows: Filter, limit: int
    ) -> list[int]:
        table = "w" if kind == "message" else "m"
        row_id, source = (
            ("w.message_id", "message_parts w") if kind == "message" else ("m.summary_rowid", "summaries m")
        )
        where, values = conditions(kind, Filter(rows.conversation_ids, up_to_id=rows.up_to_id), table=table)
        # Word by word through the index: for many at once the planner expects a good part of the table.
        found = self._planned(
            "SELECT DISTINCT found.id FROM (SELECT lcm_phrase(word) AS wanted FROM unnest(:words::text[]) AS word "
            "UNION ALL SELECT CAST(beginning AS tsquery) FROM unnest(:beginnings::text[]) AS beginning) q "
            f"CROSS JOIN LATERAL (SELECT {row_id} AS id FROM {source} WHERE {table}.words @@ q.wanted {where} "
            "LIMIT :limit OFFSET 0) found ORDER BY 1 DESC LIMIT :limit",
            values
            | {"words": list(words), "beginnings": [f"'{one}':*" for one in beginnings], "limit": limit},
        )
        return [row[0] for row in found]

    def count_words(self, kind: RowKind, query: WordQuery, rows: Filter, cap: int) -> int:
        cap = min(cap, _END)
        if self.known.is_frequent(kind, query, rows, cap):
            return cap
        if (kind, query, rows) in self._rows_with:
            return min(cap, self._rows_with[kind, query, rows])
        search = self._search(kind, query, rows)
        if search.is_empty:
            return 0
        if self._is_surely_frequent(search, kind, query, rows, cap):
            counted = cap
        else:
            source = self._source(search, kind, query, rows, any_will_do=cap == 1)
            found = self._planned(
                f"SELECT count(*) FROM (SELECT 1 {source} LIMIT :cap) found", {**search.values, "cap": cap}
            )
            counted = int(found[0][0])
            if counted < cap and not self.lock_row:
                self._rows_with[kind, query, rows] = counted
        if counted == cap:
            self.known.keep_count(kind, query, rows, cap)
        return counted

    def count_each(
        self, kind: RowKind, queries: Sequence[WordQuery], rows: Filter, cap: int
    ) -> Iterator[int]:
        # Of each step all queries' statements together: how the index writes the words, guesses, counts.
        self._phrases([text for query in queries for one in query.clauses for text in (one.text, *one.forms)])
        unknown = [
            query for query in queries if not self.known.is_frequent(kind, query, rows, min(cap, _END))
        ]
        guesses = [
            partial(self._guess, search, kind, query)
            for query, search in ((query, self._search(kind, query, rows)) for query in unknown)
            if search.may_be_rare and not search.is_empty
        ]
        self.ahead(*guesses)
        for guess in guesses:
            guess()
        self.ahead(*(partial(self.count_words, kind, query, rows, cap) for query in unknown))
        return super().count_each(kind, queries, rows, cap)

    def _entries(self, kind: RowKind, query: WordQuery) -> int:
        """How many entries the index has for the words of a query, as far as the planner was asked."""
        return sum(self.known.guess(kind, WordQuery((clause,))) or 0 for clause in query.clauses)

    def _source(
        self, search: WordSearch, kind: RowKind, query: WordQuery, rows: Filter, *, any_will_do: bool = False
    ) -> str:
        """How to look for rows. To find a few the planner reads on until it met them, which are all rows for a rare word."""
        if not search.may_be_rare:
            return search.found
        guess = self._guess(search, kind, query)
        is_rare = guess < FEW or guess * RARE_OF < (rows.up_to_id or 0)
        if is_rare:
            return search.any_by_words if any_will_do else search.found_by_words
        return search.found

    def _is_surely_frequent(
        self, search: WordSearch, kind: RowKind, query: WordQuery, rows: Filter, cap: int
    ) -> bool:
        """Whether the planner knows far more rows with some words, so that counting them, which is slow, tells no more."""
        if cap < LEAST_FREQUENT or not search.may_be_rare or rows.up_to_id is None:
            return False
        everywhere = rows == Filter(None, up_to_id=rows.up_to_id) and rows.up_to_id > SURELY * cap
        return everywhere and self._guess(search, kind, query) > SURELY * cap

    def _guess(self, search: WordSearch, kind: RowKind, query: WordQuery) -> int:
        """The planner's guess at how many rows hold some words."""
        guess = self.known.guess(kind, query)
        if guess is None:
            words = {name: text for name, text in search.values.items() if name.startswith("word_")}
            told = self._planned(search.guessed, words)[0][0]
            guess = int(json.loads(told)[0]["Plan"]["Plan Rows"])
            self.known.keep_guess(kind, query, guess)
        return guess

    def document_shares(self, kind: RowKind, clauses: Sequence[Clause], rows: Filter) -> list[float]:
        inside = Filter(rows.conversation_ids)
        self._phrases([text for clause in clauses for text in (clause.text, *clause.forms)])
        self.ahead(
            lambda: self.row_count(kind, inside),
            *(
                partial(self.count_words, kind, WordQuery((clause,)), inside, COUNT_EXACTLY)
                for clause in clauses
            ),
        )
        total = max(1, self.row_count(kind, inside))
        shares = []
        for clause in clauses:
            counted = self.count_words(kind, WordQuery((clause,)), inside, COUNT_EXACTLY)
            shares.append(
                counted / total if counted < COUNT_EXACTLY else self._share_of_newest(kind, clause, inside)
            )
        return [min(1.0, share) for share in shares]

    def scan(self, kind: RowKind, rows: Filter, condition: Condition | None = None) -> Iterator[SearchRow]:
        where, values = conditions(kind, rows)
        if condition is not None:
            where += holds(kind, condition, values)
        # The rows are found and put in order first, so that texts are read only of those that are taken.
        found = f"SELECT m.* FROM {SEARCH_TABLE[kind]} WHERE true {where} ORDER BY {newest_first(kind, rows)} OFFSET 0"
        for batch in self.batches(f"SELECT {self.search_columns(kind)} FROM ({found}) m", _FETCH, **values):
            for row in batch:
                yield search_row(kind, row)

    def unindexed_rows(self, kind: RowKind, rows: Filter) -> Iterator[SearchRow]:
        return iter(())

    def rows_within(self, stretches: Sequence[Stretch]) -> list[SearchRow]:
        # Place by place: of a range the planner would expect a good part of the conversation.
        places = {(number, seq) for number, first, last in stretches for seq in range(first, last + 1)}
        found = self.all(
            f"SELECT {_PART_COLUMNS} FROM unnest(:owners::bigint[], :seqs::bigint[]) AS place (conversation_id, seq) "
            f"JOIN messages m USING (conversation_id, seq) {_PARTS}WHERE NOT m.hidden "
            "ORDER BY m.conversation_id, m.seq",
            owners=[number for number, _ in places],
            seqs=[seq for _, seq in places],
        )
        return _joined(found)

    def _share_of_newest(self, kind: RowKind, clause: Clause, rows: Filter) -> float:
        """A frequent word's share, in the newest rows."""
        search = self._search(kind, WordQuery((clause,)), rows)
        where, values = conditions(kind, rows)
        newest = (
            f"SELECT m.* FROM {SEARCH_TABLE[kind]} WHERE true {where} "
            f"ORDER BY {newest_first(kind, rows)} LIMIT {SHARE_FROM_NEWEST}"
        )
        held = f"m.words @@ {search.any_of}"
        if kind == "message":
            held = (
                "EXISTS (SELECT FROM message_parts w WHERE w.conversation_id = m.conversation_id "
                f"AND w.message_id = m.message_id AND w.words @@ {search.any_of})"
            )
        found = self._planned(f"SELECT avg(({held})::int) FROM ({newest}) m", {**search.values, **values})
        return float(found[0][0] or 0.0)

    def _planned(self, query: str, values: dict[str, Any]) -> list[Any]:
        """Runs a query that is planned for these very values: how frequent a word is decides how to look for it."""
        return list(self._execute(query, values, prepare=False).fetchall())

    def _search(self, kind: RowKind, query: WordQuery, rows: Filter) -> WordSearch:
        texts = [text for clause in query.clauses for text in (clause.text, *clause.forms)]
        return WordSearch(kind, query, rows, self._phrases(texts))

    def _phrases(self, texts: Sequence[str]) -> dict[str, str]:
        """How the index writes each text; what is not known yet is asked of the database, all at once."""
        known = self.known.phrases(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            written = self.all(
                "SELECT place, lcm_phrase(word)::text FROM unnest(:words::text[]) WITH ORDINALITY AS w (word, place)",
                words=self.sql.array(missing),
            )
            found = [(missing[place - 1], phrase) for place, phrase in written]
            self.known.keep_phrases(found)
            known |= found
        return known


def _joined(found: Iterable[Any]) -> list[SearchRow]:
    """Messages from one row for each of their parts, in the order in which they come."""
    parts: dict[int, list[Any]] = {}
    for row in found:
        parts.setdefault(row[0], []).append(row)
    return [_message(rows[0] if len(rows) == 1 else _one(rows)) for rows in parts.values()]


def _one(parts: list[Any]) -> tuple[Any, ...]:
    """A message's row from those of several parts."""
    parts.sort(key=lambda part: part[_ORDINAL])
    texts = [part[_TEXT_AT] for part in parts if part[_TEXT_AT] is not None]
    tools = [part[_TOOL_AT] for part in parts if part[_TOOL_AT] is not None]
    first = parts[0]
    return (*first[:_TEXT_AT], "\n".join(texts), min(tools, default=None), *first[_TOOL_AT + 1 :])


def _message(row: tuple[Any, ...]) -> SearchRow:
    return search_row("message", (*row[:_TEXT_AT], row[_TEXT_AT] or "", *row[_TOOL_AT:_ORDINAL]))


class PostgresSearch(SearchQueries):
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

    def unindex_conversation(self, conversation_id: int) -> None:
        return None

    def reset_index(self) -> None:
        for index in ("message_parts_words", "summaries_words"):
            self.run(f"REINDEX INDEX {index}")
