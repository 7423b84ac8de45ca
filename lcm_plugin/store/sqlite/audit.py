"""Reads of the integrity checker: the rules between rows, the schema, and the full-text index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from lcm_plugin.store.integrity import FULL_TEXT, AuditStopped, Breach
from lcm_plugin.store.search import RowKind
from lcm_plugin.store.sqlite.schema import migrate
from lcm_plugin.store.sqlite.search_index import KINDS, SOURCE, IndexQueries
from lcm_plugin.store.tables.audit import AuditTable
from lcm_plugin.store.tables.audit_rules import in_conversation

PROGRESS_STEPS = 20_000
MOST_FAULTS = 100
DERIVED = re.compile(r"(?:message|summary)s_(?:fts|trigram)_\w+|index_state")
OBJECTS = (
    "SELECT name, sql FROM sqlite_master WHERE type IN ('index', 'view') AND sql IS NOT NULL "
    "AND name NOT LIKE 'sqlite_%'"
)
ROWS: dict[RowKind, tuple[str, str, str]] = {
    "message": ("messages", "message_id", "'msg_' || message_id"),
    "summary": ("summaries", "summary_rowid", "summary_id"),
}
# SQLite is stricter than what wrote the text, which may hold NaN.
_SUSPECT_PARTS = f"""
    SELECT m.conversation_id, 'msg_' || m.message_id, 'part ' || p.ordinal || ' is not JSON',
        CASE WHEN json_valid(coalesce(p.exact, '0')) THEN p.metadata ELSE p.exact END
    FROM message_parts p JOIN messages m ON m.message_id = p.message_id
    WHERE {in_conversation("m.conversation_id")} AND m.hidden = :hidden
        AND (NOT json_valid(coalesce(p.exact, '0')) OR NOT json_valid(coalesce(p.metadata, '0')))"""
_PLAIN = re.compile(r"(?<![^\s])[a-z]{4,20}(?![^\s])")


class SqliteAudit(AuditTable, IndexQueries):
    """Reads of the integrity checker."""

    suspect_skeleton = "m.skeleton IS NOT NULL AND NOT json_valid(m.skeleton)"
    suspect_parts = _SUSPECT_PARTS

    def structure_faults(self) -> list[Breach]:
        faults = self._page_faults() if self._faulty("PRAGMA quick_check(1)") else []
        broken = self.db.execute("PRAGMA foreign_key_check").fetchmany(MOST_FAULTS)
        return faults + [
            Breach(None, row[0], f"row {row[1]} refers to a missing row of {row[2]}") for row in broken
        ]

    def _page_faults(self) -> list[Breach]:
        """The faults of each table. SQLite names pages only, so each table is checked by itself."""
        tables = self.all("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'")
        found = [
            Breach(None, FULL_TEXT if DERIVED.fullmatch(name) else name, fault)
            for (name,) in tables
            for fault in self._faulty(f"PRAGMA quick_check('{name}')")
        ]
        return found or [
            Breach(None, "file", fault) for fault in self._faulty(f"PRAGMA quick_check({MOST_FAULTS})")
        ]

    def _faulty(self, check: str) -> list[str]:
        try:
            return [row[0] for row in self.db.execute(check) if row[0] != "ok"]
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorname == "SQLITE_INTERRUPT":
                raise
            return [str(error)]

    def schema_faults(self) -> list[Breach]:
        here = dict(self.all(OBJECTS))
        return [
            Breach(None, name, "is missing" if name not in here else "differs")
            for name, sql in expected_objects().items()
            if here.get(name) != sql
        ]

    def restore_schema(self) -> int:
        here = dict(self.all(OBJECTS))
        wrong = {name: sql for name, sql in expected_objects().items() if here.get(name) != sql}
        for name, sql in wrong.items():
            kind = sql.split()[1].replace("UNIQUE", "INDEX")
            self.db.execute(f"DROP {kind} IF EXISTS {name}")
            self.db.execute(sql)
        return len(wrong)

    def index_faults(self, sample: int) -> Iterator[Breach]:
        if not self._index_usable():
            return
        for kind in KINDS:
            try:
                yield from self._row_faults(kind)
                yield from self._sampled_faults(kind, sample)
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorname == "SQLITE_INTERRUPT":
                    raise
                yield Breach(None, f"{kind}s", f"the index cannot be read: {error}")

    @contextmanager
    def interruptible(self, stop: Callable[[], bool]) -> Iterator[None]:
        self.db.set_progress_handler(lambda: int(stop()), PROGRESS_STEPS)
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname == "SQLITE_INTERRUPT":
                raise AuditStopped("the check was stopped") from error
            raise
        finally:
            self.db.set_progress_handler(None, 0)

    def _row_faults(self, kind: RowKind) -> Iterator[Breach]:
        """Rows that the word index lacks, and those that it holds although they are gone."""
        table, row_id, ref = ROWS[kind]
        last = self._last_indexed(kind)
        for row in self.db.execute(
            f"SELECT conversation_id, {ref} FROM {table} WHERE {row_id} <= ? AND NOT EXISTS "
            f"(SELECT 1 FROM {kind}s_fts_docsize d WHERE d.id = {table}.{row_id})",
            (last,),
        ):
            yield Breach(row[0], row[1], "is not in the index")
        for row in self.db.execute(
            f"SELECT d.id FROM {kind}s_fts_docsize d WHERE NOT EXISTS "
            f"(SELECT 1 FROM {table} WHERE {table}.{row_id} = d.id)"
        ):
            yield Breach(None, f"{kind} row {row[0]}", "is in the index and nowhere else")

    def _sampled_faults(self, kind: RowKind, sample: int) -> Iterator[Breach]:
        """Rows, spread over the whole index, one of whose words or runs of letters does not find them."""
        last = self._last_indexed(kind)
        table, row_id, ref = ROWS[kind]
        seen = 0
        for number in range(sample):
            row = self.one(
                f"SELECT {row_id}, conversation_id, {ref} FROM {table} WHERE {row_id} BETWEEN :first AND :last "
                f"ORDER BY {row_id} LIMIT 1",
                first=max(seen + 1, number * last // sample),
                last=last,
            )
            if row is None:
                return
            seen = row[0]
            text = self.one(f"{SOURCE[kind]} = :seen", seen=seen)[1]
            if not all(self._finds(*probe, seen) for probe in probes(kind, text)):
                yield Breach(row[1], row[2], "is not found by its own words")

    def _finds(self, table: str, term: str, row_id: int) -> bool:
        return (
            self.one(
                f"SELECT 1 FROM {table} WHERE {table} MATCH :term AND rowid = :row",
                term=f'"{term}"',
                row=row_id,
            )
            is not None
        )


def probes(kind: RowKind, text: str) -> list[tuple[str, str]]:
    """Terms that must find a text: its first, middle and last plain word, and three letters of each."""
    words = _PLAIN.findall(text[:200_000])
    chosen = {words[0], words[len(words) // 2], words[-1]} if words else set()
    return [(f"{kind}s_fts", word) for word in chosen] + [(f"{kind}s_trigram", word[:3]) for word in chosen]


@cache
def expected_objects() -> dict[str, str]:
    """The indexes and views that this version's schema has, by name."""
    empty = sqlite3.connect(":memory:", isolation_level=None)
    try:
        migrate(empty)
        return dict(empty.execute(OBJECTS).fetchall())
    finally:
        empty.close()
