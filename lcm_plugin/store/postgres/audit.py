"""Reads of the integrity checker: the rules between rows, the schema, and the generated word vectors."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import psycopg
from psycopg import errors as pg

from lcm_plugin.store.audit_base import AuditStopped, Breach
from lcm_plugin.store.postgres.audit_queries import QUERIES, STORED_JSON
from lcm_plugin.store.postgres.schema import MIGRATIONS, trigram_indexes
from lcm_plugin.store.postgres.transaction import PostgresStatements as Handle

_ASK_SECONDS = 0.2
_CANCEL_SECONDS = 5.0
_INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+) ON [^;]+;")
_GENERATED = re.compile(r"words (tsvector GENERATED ALWAYS AS \(.*?\) STORED)", re.DOTALL)
_cursor_names = itertools.count()
_VECTORS = (
    "SELECT p.conversation_id, 'msg_' || p.message_id FROM message_parts p WHERE p.message_id = ANY(%(ids)s) "
    "AND p.words IS DISTINCT FROM CASE WHEN p.type IN ('reasoning', 'compaction') "
    "OR p.text LIKE 'data:%%;base64,%%' THEN NULL ELSE lcm_vector(p.text) END",
    "SELECT s.conversation_id, s.summary_id FROM summaries s WHERE s.summary_rowid = ANY(%(ids)s) "
    "AND s.words IS DISTINCT FROM lcm_vector(s.content)",
)
_SPREAD = (
    ("messages", "message_id"),
    ("summaries", "summary_rowid"),
)


class AuditQueries(Handle):
    """Reads of the integrity checker."""

    def audit(self, name: str, *, conversation_id: int | None = None, now: int = 0) -> Iterator[Breach]:
        values: dict[str, Any] = {"here": conversation_id, "now": now}
        if name in ("message_unreadable", "message_quarantined"):
            hidden = name == "message_quarantined"
            for *found, text in self._stream(STORED_JSON, values | {"hidden": hidden}):
                if not _is_json(text):
                    yield Breach(*found)
            return
        for row in self._stream(QUERIES[name], values):
            yield Breach(*row)

    def structure_faults(self) -> list[Breach]:
        rows = self._all(
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
        here = {
            row[0]
            for row in self._all("SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()")
        }
        expected = [*expected_indexes(), *trigram_indexes(self.db)]
        return [Breach(None, name, "is missing") for name in expected if name not in here]

    def index_faults(self, sample: int) -> Iterator[Breach]:
        for (table, column), query in zip(_SPREAD, _VECTORS, strict=True):
            last = self._one(f"SELECT coalesce(max({column}), 0) FROM {table}")[0]
            starts = sorted({number * last // sample for number in range(sample)})
            ids = self._all(
                f"SELECT (SELECT min({column}) FROM {table} WHERE {column} > start) FROM unnest(%s::bigint[]) start",
                (starts,),
            )
            for row in self._stream(query, {"ids": [row[0] for row in ids if row[0] is not None]}):
                yield Breach(row[0], row[1], "its word vector is not that of its text")

    def message_identities(self, conversation_id: int) -> Iterator[tuple[int, int]]:
        query = "SELECT seq, identity FROM messages WHERE conversation_id = %(here)s ORDER BY seq"
        return ((seq, identity) for seq, identity in self._stream(query, {"here": conversation_id}))

    def stale_summaries(self, conversation_id: int, refs: Sequence[str]) -> Sequence[str]:
        rows = self._all(
            "WITH RECURSIVE stale (id) AS (SELECT summary_id FROM summaries WHERE conversation_id = %s "
            "AND summary_id = ANY(%s) "
            "UNION SELECT l.summary_id FROM summary_parents l JOIN stale ON stale.id = l.parent_summary_id) "
            "SELECT summary_id FROM summaries JOIN stale ON id = summary_id ORDER BY depth, summary_rowid",
            (conversation_id, list(refs)),
        )
        return [row[0] for row in rows]

    def file_digests(self) -> Iterator[str]:
        for (digest,) in self._stream(
            'SELECT DISTINCT sha256 COLLATE "C" AS digest FROM large_files ORDER BY digest', {}
        ):
            yield digest

    @contextmanager
    def interruptible(self, stop: Callable[[], bool]) -> Iterator[None]:
        self.db.execute("SET LOCAL statement_timeout = 0")
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_ASK_SECONDS):
                if stop():
                    with suppress(psycopg.Error):  # who is away needs no telling
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

    def _stream(self, query: str, values: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
        with self.db.cursor(name=f"lcm_audit_{next(_cursor_names)}") as cursor:
            cursor.execute(query.encode(), values)
            yield from cursor


@cache
def expected_indexes() -> dict[str, str]:
    """The indexes that this version's schema has, each with the statement that makes it."""
    return {found.group(1): found.group() for script in MIGRATIONS for found in _INDEX.finditer(script)}


def word_columns() -> list[tuple[str, str]]:
    """The tables with a generated column of words, and how it is defined."""
    definitions = _GENERATED.findall(MIGRATIONS[0])
    return list(zip(("message_parts", "summaries"), definitions, strict=True))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
