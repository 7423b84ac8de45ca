"""Reads of the integrity checker: the rules between rows, the schema, and the generated word vectors."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache

import psycopg
from psycopg import errors as pg

from lcm_plugin.store.integrity import AuditStopped, Breach
from lcm_plugin.store.postgres.schema import MIGRATIONS
from lcm_plugin.store.postgres.transaction import PostgresStatements
from lcm_plugin.store.postgres.trigrams import trigram_indexes
from lcm_plugin.store.tables.audit import AuditTable
from lcm_plugin.store.tables.audit_rules import in_conversation
from lcm_plugin.store.views import views

_ASK_SECONDS = 0.2
_CANCEL_SECONDS = 5.0
_INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+) ON [^;]+;")
_GENERATED = re.compile(r"words (tsvector GENERATED ALWAYS AS \(.*?\) STORED)", re.DOTALL)
_VECTORS = (
    "SELECT p.conversation_id, 'msg_' || p.message_id FROM message_parts p WHERE p.message_id = ANY(:ids) "
    "AND p.words IS DISTINCT FROM CASE WHEN p.type IN ('reasoning', 'compaction') "
    "OR p.text LIKE 'data:%;base64,%' THEN NULL ELSE lcm_vector(p.text) END",
    "SELECT s.conversation_id, s.summary_id FROM summaries s WHERE s.summary_rowid = ANY(:ids) "
    "AND s.words IS DISTINCT FROM lcm_vector(s.content)",
)
_SPREAD = (
    ("messages", "message_id"),
    ("summaries", "summary_rowid"),
)


# SQL cannot tell JSON from other text without an error before version 16.
_SUSPECT_PARTS = f"""
    SELECT p.conversation_id, 'msg_' || p.message_id, 'part ' || p.ordinal || ' is not JSON', p.exact
    FROM message_parts p JOIN messages m ON m.conversation_id = p.conversation_id AND m.message_id = p.message_id
    WHERE {in_conversation("p.conversation_id")} AND p.exact IS NOT NULL AND m.hidden = :hidden"""


class PostgresAudit(AuditTable, PostgresStatements):
    """Reads of the integrity checker."""

    suspect_skeleton = "m.skeleton IS NOT NULL"
    suspect_parts = _SUSPECT_PARTS

    def structure_faults(self) -> list[Breach]:
        rows = self.all(
            "SELECT conrelid::regclass::text, conname || ' is not enforced' FROM pg_constraint "
            "WHERE connamespace = current_schema()::regnamespace AND NOT convalidated UNION ALL "
            "SELECT indexrelid::regclass::text, 'is not valid' FROM pg_index JOIN pg_class ON oid = indexrelid "
            "WHERE relnamespace = current_schema()::regnamespace AND NOT indisvalid UNION ALL "
            "SELECT c.oid::regclass::text, 'a trigger that checks references is off' FROM pg_class c "
            "WHERE c.relnamespace = current_schema()::regnamespace AND EXISTS (SELECT FROM pg_trigger t "
            "WHERE t.tgrelid = c.oid AND t.tgisinternal AND t.tgenabled = 'D')"
        )
        return [Breach(None, *row) for row in rows]

    def schema_faults(self) -> list[Breach]:
        return [Breach(None, name, "is missing") for name in self._missing_objects()]

    def restore_schema(self) -> int:
        missing = self._missing_objects()
        for statement in missing.values():
            self.run(statement)
        return len(missing)

    def _missing_objects(self) -> dict[str, str]:
        """The indexes and views of this version's schema that are not there, each with the statement that makes it."""
        here = {
            row[0]
            for row in self.all(
                "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() "
                "UNION ALL SELECT viewname FROM pg_views WHERE schemaname = current_schema()"
            )
        }
        expected = expected_indexes() | trigram_indexes(self.db) | views(self.sql)
        return {name: statement for name, statement in expected.items() if name not in here}

    def rebuild_index(self) -> bool:
        for table, definition in word_columns():
            self.run(f"ALTER TABLE {table} DROP COLUMN IF EXISTS words, ADD COLUMN words {definition}")
        self.restore_schema()
        return True

    def index_faults(self, sample: int) -> Iterator[Breach]:
        for (table, column), query in zip(_SPREAD, _VECTORS, strict=True):
            last = self.one(f"SELECT coalesce(max({column}), 0) FROM {table}")[0]
            starts = sorted({number * last // sample for number in range(sample)})
            ids = self.all(
                f"SELECT (SELECT min({column}) FROM {table} WHERE {column} > start) FROM unnest(:starts::bigint[]) start",
                starts=starts,
            )
            for row in self.stream(query, ids=[row[0] for row in ids if row[0] is not None]):
                yield Breach(row[0], row[1], "its word vector is not that of its text")

    @contextmanager
    def interruptible(self, stop: Callable[[], bool]) -> Iterator[None]:
        self.db.execute("SET LOCAL statement_timeout = 0")
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_ASK_SECONDS):
                if stop():
                    with suppress(psycopg.Error):  # nobody is there to be answered
                        self.db.cancel_safe(timeout=_CANCEL_SECONDS)

        watcher = threading.Thread(target=watch, name="lcm-audit-stop", daemon=True)
        watcher.start()
        try:
            yield
        except pg.QueryCanceled as error:
            raise AuditStopped("the check was stopped") from error
        finally:
            done.set()
            watcher.join()


@cache
def expected_indexes() -> dict[str, str]:
    """The indexes that this version's schema has, each with the statement that makes it."""
    return {found.group(1): found.group() for script in MIGRATIONS for found in _INDEX.finditer(script)}


def word_columns() -> list[tuple[str, str]]:
    """The tables with a generated column of words, and how it is defined."""
    definitions = _GENERATED.findall(MIGRATIONS[0])
    return list(zip(("message_parts", "summaries"), definitions, strict=True))
