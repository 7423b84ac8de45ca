"""Statements of one transaction on a PostgreSQL connection."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from lcm_plugin.errors import StoreBusy
from lcm_plugin.store.dialect import PostgresDialect
from lcm_plugin.store.postgres.connection import Connection
from lcm_plugin.store.transaction import Transaction

_TOKEN = re.compile(r"('[^']*')|(::)|:([a-z]\w*)|(%)")
# A deletion may take rows of other tables along.
_ONE_TABLE = re.compile(r"(?:INSERT INTO|UPDATE) (\w+)")
_HOLD_FILES = "LOCK TABLE large_files IN SHARE ROW EXCLUSIVE MODE"
_cursor_names = itertools.count()


@lru_cache(maxsize=2_048)
def psycopg_statement(statement: str) -> bytes:
    """A statement with ``:name`` parameters as psycopg reads it: ``%(name)s``, and every other ``%`` doubled."""

    def translated(found: re.Match[str]) -> str:
        literal, _, name, percent = found.groups()
        if name:
            return f"%({name})s"
        return "%%" if percent else (literal or found.group()).replace("%", "%%")

    return _TOKEN.sub(translated, statement).encode()


class _Asked(Exception):
    """Ends a read at its statement, which is all that was to be known of it."""


class PostgresStatements(Transaction):
    """Translates statements for psycopg; a writer locks the rows that it decides about."""

    sql = PostgresDialect()

    def __init__(self, connection: Connection, location: str = "", *, writing: bool = False) -> None:
        self.db = connection
        self.location = location
        # What refers to the row may come meanwhile: handing a payload over to a conversation waits for no turn of it.
        self.lock_row = " FOR NO KEY UPDATE" if writing else ""
        self._asking: list[tuple[str, Mapping[str, Any], bool | None]] | None = None
        self._answers: list[tuple[str, Mapping[str, Any], Any]] = []

    def ahead(self, *reads: Callable[[], object]) -> None:
        if self._asking is not None:
            # A read that looks ahead itself is being asked for.
            self._ask(reads)
            return
        asked: list[tuple[str, Mapping[str, Any], bool | None]] = []
        self._asking = asked
        try:
            self._ask(reads)
        finally:
            self._asking = None
        if self.lock_row:
            # What others commit meanwhile is seen by what is read later.
            self._answers = []
        known = [(statement, values) for statement, values, _ in self._answers]
        asked = [one for one in asked if (one[0], one[1]) not in known]
        if not asked:
            return
        with self.db.pipeline():
            self._answers += [
                (statement, values, self.db.execute(psycopg_statement(statement), values, prepare=prepare))
                for statement, values, prepare in asked
            ]

    def _ask(self, reads: Iterable[Callable[[], object]]) -> None:
        """Notes the statements of some reads."""
        for read in reads:
            with suppress(_Asked):
                read()

    def _execute(self, statement: str, values: Mapping[str, Any], prepare: bool | None = None) -> Any:
        if self._asking is not None:
            if (statement, values, prepare) not in self._asking:
                self._asking.append((statement, values, prepare))
            raise _Asked
        if self._answers:
            for place, (known, given, cursor) in enumerate(self._answers):
                if known == statement and given == values:
                    del self._answers[place]
                    return cursor
            self._forget_changed(statement)
        return self.db.execute(psycopg_statement(statement), values, prepare=prepare)

    def _forget_changed(self, statement: str) -> None:
        """Drops what was read ahead and may be no longer so. What one names may be more than what it reads."""
        if not self.lock_row or statement.startswith("SELECT"):
            return
        changed = _ONE_TABLE.match(statement)
        self._answers = [one for one in self._answers if changed and changed[1] not in one[0]]

    def _execute_many(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> int:
        self._forget_changed(statement)
        with self.db.cursor() as cursor:
            cursor.executemany(psycopg_statement(statement), rows)
            return cursor.rowcount

    def _fetch(self, statement: str, size: int, values: Mapping[str, Any]) -> Iterator[list[Any]]:
        with self.db.cursor(name=f"lcm_{next(_cursor_names)}", binary=True) as cursor:
            cursor.execute(psycopg_statement(statement), values)
            while batch := cursor.fetchmany(size):
                yield batch

    def has_table(self, name: str) -> bool:
        return self.one("SELECT to_regclass(:name)", name=name)[0] is not None

    def size_bytes(self) -> int:
        row = self.one(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        )
        return int(row[0])

    def hold_files(self, conversation_id: int | None = None) -> None:
        if conversation_id is not None:
            self.all(
                "SELECT FROM session_runs WHERE conversation_id = :here FOR UPDATE", here=conversation_id
            )
        self.run(_HOLD_FILES)

    def require_only_publisher(self, conversation_id: int) -> None:
        (alone,) = self.one(
            "SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' publishes', :here))",
            here=conversation_id,
        )
        if not alone:
            raise StoreBusy(
                f"another compaction publishes in conversation {conversation_id} just now; nothing was written, "
                "try again"
            )
