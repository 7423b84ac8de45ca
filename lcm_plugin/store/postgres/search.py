"""Search queries over generated tsvectors and, where the extension is there, trigrams.

The words of a row are kept by the database itself, so the index never lags. A query is built from
phrases that the same function cleaned as the texts (`schema.py`), never from operator syntax. Without
``pg_trgm`` substrings and regular expressions still find every row, by reading them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lcm_plugin.store.postgres.search_terms import (
    WordSearch,
    conditions,
    holds,
    newest_first,
)
from lcm_plugin.store.postgres.transaction import psycopg_statement
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
_END = 1 << 62
_FETCH = 200

_TEXT = (
    "(SELECT string_agg(p.text, E'\\n' ORDER BY p.ordinal) FROM message_parts p "
    "WHERE p.conversation_id = m.conversation_id AND p.message_id = m.message_id AND p.type <> 'reasoning' "
    "AND p.text <> '' AND p.text NOT LIKE 'data:%;base64,%')"
)


class SearchQueries(SearchTable, PostgresVectors):
    """Full-text queries, scans and look-ups of rows with their texts."""

    def message_text(self) -> str:
        return _TEXT

    def index_state(self) -> IndexState:
        return IndexState(available=True, usable=True, message_lag=0, summary_lag=0)

    def find_words(
        self, kind: RowKind, query: WordQuery, rows: Filter, *, order: Order, limit: int, offset: int = 0
    ) -> list[Scored]:
        search = WordSearch(kind, query, rows)
        if search.is_empty:
            return []
        rank = "0.0" if order == "recency" else f"sum(ts_rank({search.vector}, {search.any_of}, 1))"
        sort = "1 DESC" if order == "recency" else "2 DESC, 1 DESC"
        found = self._planned(
            f"SELECT {search.row_id}, {rank} {search.source} ORDER BY {sort} LIMIT :limit OFFSET :offset",
            {**search.values, "limit": limit, "offset": offset},
        )
        return [Scored(row_id, float(score)) for row_id, score in found]

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
        search = WordSearch(kind, query, rows)
        if search.is_empty:
            return 0
        found = self._planned(
            f"SELECT count(*) FROM (SELECT 1 {search.source} LIMIT :cap) found",
            {**search.values, "cap": min(cap, _END)},
        )
        return int(found[0][0])

    def document_shares(self, kind: RowKind, clauses: Sequence[Clause], rows: Filter) -> list[float]:
        inside = Filter(rows.conversation_ids)
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
            f"SELECT {self.search_columns('message')} FROM unnest(:owners::bigint[], :seqs::bigint[]) "
            "AS place (conversation_id, seq) JOIN messages m USING (conversation_id, seq) WHERE NOT m.hidden "
            "ORDER BY conversation_id, seq",
            owners=[number for number, _ in places],
            seqs=[seq for _, seq in places],
        )
        return [search_row("message", row) for row in found]

    def _share_of_newest(self, kind: RowKind, clause: Clause, rows: Filter) -> float:
        """A frequent word's share, in the newest rows."""
        search = WordSearch(kind, WordQuery((clause,)), rows)
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
        return self.db.execute(psycopg_statement(query), values, prepare=False).fetchall()


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
