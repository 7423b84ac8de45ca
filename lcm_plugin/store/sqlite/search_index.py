"""The full-text indexes: their tables and how they are filled.

Four FTS5 tables, two for messages and two for summaries. ``*_fts`` holds stemmed words and, in a second
column, the single characters of Chinese, Japanese and Korean runs, so that any run of them is a phrase.
``*_trigram`` holds every three-character run without positions: a prefilter for substrings and regular
expressions whose hits are always checked against the text. All are contentless (each text stays in one
place) and derived: they can be thrown away and built again. Row ids only grow, so ``index_state.last_id``
says what is indexed: all rows up to it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from lcm_plugin.store.search import IndexState, IndexUnusable, RowKind, name_parts
from lcm_plugin.store.sqlite.vectors import SqliteVectors
from lcm_plugin.store.tables.search import SearchTable

KINDS: tuple[RowKind, ...] = ("message", "summary")
MAX_BATCH_CHARS = 8_000_000
_BATCH = 500
MESSAGE_TEXT = (
    "(SELECT group_concat(p.text, char(10)) FROM message_parts p WHERE p.part_id >= m.message_id * 65536 "
    "AND p.part_id < (m.message_id + 1) * 65536 AND p.type <> 'reasoning' AND p.text <> '' "
    "AND p.text NOT GLOB 'data:*;base64,*')"
)
_CJK = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff]+"
)
_WORD_TABLE = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS {kind}s_fts USING fts5"
    "(text, cjk, content='', tokenize='porter unicode61 remove_diacritics 2')"
)
_TRIGRAM_TABLE = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS {kind}s_trigram USING fts5"
    "(text, content='', tokenize='trigram', detail=none, columnsize=0)"
)
SOURCE = {
    "message": f"SELECT m.message_id, coalesce({MESSAGE_TEXT}, '') FROM messages m WHERE m.message_id ",
    "summary": "SELECT summary_rowid, content FROM summaries WHERE summary_rowid ",
}
_ID = {"message": "message_id", "summary": "summary_rowid"}


@cache
def fts5_available() -> bool:
    """Whether this SQLite has FTS5 with the trigram tokenizer."""
    probe = sqlite3.connect(":memory:")
    try:
        probe.execute("CREATE VIRTUAL TABLE probe USING fts5(text, tokenize='trigram', detail=none)")
    except sqlite3.Error:
        return False
    finally:
        probe.close()
    return True


class IndexQueries(SearchTable, SqliteVectors):
    """How the indexes stand."""

    def message_text(self) -> str:
        return MESSAGE_TEXT

    def index_state(self) -> IndexState:
        usable = self._index_usable()
        # The newest rows may have been deleted since they were indexed.
        lags = [max(0, self.newest_row(kind) - (self._last_indexed(kind) if usable else 0)) for kind in KINDS]
        return IndexState(fts5_available(), usable, lags[0], lags[1])

    def _index_usable(self) -> bool:
        return fts5_available() and self.has_table("index_state")

    def _last_indexed(self, kind: RowKind) -> int:
        row = self.one("SELECT last_id FROM index_state WHERE name = :kind", kind=kind)
        return int(row[0]) if row else 0


class IndexChanges(IndexQueries):
    """Filling the indexes and taking rows out of them."""

    def index_pending(self, limit: int = 500) -> int:
        if not fts5_available():
            return 0
        self._create()
        done = 0
        for kind in KINDS:
            done += self._index_next(kind, limit - done)
        return done

    def unindex_messages(self, message_ids: Sequence[int]) -> None:
        self._change("message", message_ids, "delete")
        self.forget_vectors(message_ids)

    def reindex_messages(self, message_ids: Sequence[int]) -> None:
        self._change("message", message_ids, "insert")

    def unindex_summaries(self, summary_ids: Sequence[str]) -> None:
        self._change("summary", self._summary_rows(summary_ids), "delete")

    def reindex_summaries(self, summary_ids: Sequence[str]) -> None:
        self._change("summary", self._summary_rows(summary_ids), "insert")

    def unindex_conversation(self, conversation_id: int) -> None:
        messages = self.all(
            "SELECT message_id FROM messages WHERE conversation_id = :here", here=conversation_id
        )
        for start in range(0, len(messages), _BATCH):
            self.unindex_messages([row[0] for row in messages[start : start + _BATCH]])
        summaries = self.all(
            "SELECT summary_id FROM summaries WHERE conversation_id = :here", here=conversation_id
        )
        self.unindex_summaries([row[0] for row in summaries])

    def reset_index(self) -> None:
        for kind in KINDS:
            self._drop(f"{kind}s_fts")
            self._drop(f"{kind}s_trigram")
        self.db.execute("DROP TABLE IF EXISTS index_state")
        if fts5_available():
            self._create()

    def merge_index(self) -> None:
        """Brings each index into one piece, in which words of rows that were taken out no longer occur."""
        for kind in KINDS if self._index_usable() else ():
            for table in (f"{kind}s_fts", f"{kind}s_trigram"):
                self._write(f"INSERT INTO {table} ({table}) VALUES (?)", [("optimize",)])

    def _drop(self, table: str) -> None:
        """Drops a full-text table, also one so damaged that FTS5 cannot open it."""
        try:
            self.db.execute(f"DROP TABLE IF EXISTS {table}")
        except sqlite3.Error:
            # Forget the virtual table and drop the ordinary tables that it kept its data in.
            self.db.execute("PRAGMA writable_schema = ON")
            self.db.execute("DELETE FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))
            self.db.execute("PRAGMA writable_schema = RESET")
            for part in ("data", "idx", "docsize", "config", "content"):
                self.db.execute(f"DROP TABLE IF EXISTS {table}_{part}")

    def rebuild_index(self) -> bool:
        self.db.execute("SAVEPOINT rebuild")
        try:
            self.reset_index()
        except sqlite3.DatabaseError:
            self.db.execute("ROLLBACK TO rebuild")
            self._forget_index()
            self.reset_index()
            return False
        finally:
            self.db.execute("RELEASE rebuild")
        return True

    def _create(self) -> None:
        if self._index_usable():
            return
        for kind in KINDS:
            self.db.execute(_WORD_TABLE.format(kind=kind))
            self.db.execute(_TRIGRAM_TABLE.format(kind=kind))
        self.db.execute(
            "CREATE TABLE index_state (name TEXT PRIMARY KEY, last_id INTEGER NOT NULL) WITHOUT ROWID"
        )

    def _forget_index(self) -> None:
        """Takes the index's tables out of the schema without reading them, since their pages are damaged."""
        self.db.execute("PRAGMA writable_schema = ON")
        names = ", ".join(f"'{kind}s_fts', '{kind}s_trigram'" for kind in KINDS)
        self.db.execute(
            f"DELETE FROM sqlite_master WHERE name IN ({names}, 'index_state') OR tbl_name = 'index_state' OR "
            + " OR ".join(
                f"name GLOB '{kind}s_{half}_*' OR tbl_name GLOB '{kind}s_{half}_*'"
                for kind in KINDS
                for half in ("fts", "trigram")
            )
        )
        self.db.execute("PRAGMA writable_schema = RESET")

    def _index_next(self, kind: RowKind, limit: int) -> int:
        if limit <= 0:
            return 0
        cursor = self.db.execute(f"{SOURCE[kind]} > ? ORDER BY 1 LIMIT ?", (self._last_indexed(kind), limit))
        rows, chars = [], 0
        for row in cursor:
            rows.append(row)
            chars += len(row[1])
            if chars > MAX_BATCH_CHARS:
                break
        cursor.close()
        if rows:
            self._insert(kind, rows)
            self.db.execute(
                "INSERT INTO index_state (name, last_id) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET last_id = excluded.last_id",
                (kind, rows[-1][0]),
            )
        return len(rows)

    def _change(self, kind: RowKind, row_ids: Sequence[int], what: str) -> None:
        """Rows that are not indexed yet are left alone: `index_pending` will read them as they are then."""
        if not self._index_usable():
            return
        indexed = [row_id for row_id in row_ids if row_id <= self._last_indexed(kind)]
        rows = self.all(f"{SOURCE[kind]} {self.sql.any_of('ids')}", ids=self.sql.array(indexed))
        try:
            if what == "insert":
                self._insert(kind, rows)
            else:
                self._delete(kind, rows)
        except IndexUnusable:
            self.reset_index()

    def _insert(self, kind: RowKind, rows: Sequence[tuple[int, str]]) -> None:
        self._write(f"INSERT INTO {kind}s_fts (rowid, text, cjk) VALUES (?, ?, ?)", _columns(rows))
        self._write(f"INSERT INTO {kind}s_trigram (rowid, text) VALUES (?, ?)", rows)

    def _delete(self, kind: RowKind, rows: Sequence[tuple[int, str]]) -> None:
        words = f"INSERT INTO {kind}s_fts ({kind}s_fts, rowid, text, cjk) VALUES ('delete', ?, ?, ?)"
        self._write(words, _columns(rows))
        self._write(
            f"INSERT INTO {kind}s_trigram ({kind}s_trigram, rowid, text) VALUES ('delete', ?, ?)", rows
        )

    def _write(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        try:
            self.db.executemany(sql, rows)
        except sqlite3.Error as error:
            if error.sqlite_errorname.startswith(("SQLITE_CORRUPT", "SQLITE_ERROR")):
                raise IndexUnusable(f"the full-text index cannot be written: {error}") from error
            raise

    def _summary_rows(self, summary_ids: Sequence[str]) -> list[int]:
        rows = self.all(
            f"SELECT summary_rowid FROM summaries WHERE summary_id {self.sql.any_of('ids')}",
            ids=self.sql.array(summary_ids),
        )
        return [row[0] for row in rows]


def spread_cjk(text: str) -> str:
    """The Chinese, Japanese and Korean runs of a text, each character a word of its own."""
    return " | ".join(" ".join(run) for run in _CJK.findall(text))


def _columns(rows: Iterable[tuple[int, str]]) -> list[tuple[int, str, str]]:
    return [
        (row_id, _with_parts(text), "")
        if text.isascii()
        else (row_id, _with_parts(_CJK.sub(" ", text)), spread_cjk(text))
        for row_id, text in rows
    ]


def _with_parts(text: str) -> str:
    """The text and, behind it, the parts of its names."""
    parts = dict.fromkeys(text[start:end] for start, end in name_parts(text))
    return f"{text}\n{' | '.join(parts)}" if parts else text
