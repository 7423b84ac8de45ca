"""From a damaged database file to a new one that holds what could be read.

The damaged file is opened by SQLite alone, read-only, and stays as it is. Links between a summary and its
messages that are lost are put back where the summary's own stretch says which they were. What follows from
other rows (counters, the context's raw items, the full-text index) is not copied blindly: the doctor
works it out again in the new file.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from lcm_plugin.errors import InputError, NotFound, StoreUnavailable
from lcm_plugin.store.dialect import SqliteDialect
from lcm_plugin.store.sqlite.error_mapping import naming_errors
from lcm_plugin.store.sqlite.salvage import Row, Salvage
from lcm_plugin.store.sqlite.store import SqliteStore
from lcm_plugin.store.tables.messages import speaks_of_old_rows

_BATCH = 500
_DERIVED = ("index_state", "_sqlite_migrations")
# Whose rows say under which keys to look for those of a table without row ids.
_KEYS = {
    "context_items": "SELECT conversation_id FROM conversations",
    "summary_messages": "SELECT summary_id FROM summaries WHERE depth = 0",
    "summary_parents": "SELECT summary_id FROM summaries WHERE depth > 0",
    "large_files": "SELECT DISTINCT file_id FROM message_parts WHERE file_id IS NOT NULL",
}
_FIRST = ("conversations", "session_runs", "messages", "message_parts", "summaries")


@dataclass(frozen=True, slots=True)
class TableRescue:
    """One table: rows that are in the new file, and places of the old one that could not be read."""

    name: str
    rows: int
    gaps: int


@dataclass(frozen=True, slots=True)
class RescueReport:
    """What was read, and in plain words what is lost or was worked out anew."""

    target: str
    tables: tuple[TableRescue, ...]
    notes: tuple[str, ...] = ()

    @property
    def lossy(self) -> bool:
        """Whether something of the damaged file could not be read."""
        return any(table.gaps for table in self.tables)


def rescue(source: str, target: str) -> RescueReport:
    """Reads a damaged database into a new file.

    Raises `InputError` when the target exists, `NotFound` without a source, `StoreUnavailable` when not even
    the list of tables can be read; then no new file stays behind.
    """
    old, new = Path(source).expanduser(), Path(target).expanduser()
    if not old.is_file():
        raise NotFound(f"there is no database at {old}")
    if new.exists():
        raise InputError(f"{new} exists already; a rescue makes a new file")
    damaged = _open_damaged(old)
    try:
        SqliteStore(new).close()
        with naming_errors(new):
            fresh = sqlite3.connect(new, isolation_level=None)
            try:
                return _Rescue(damaged, fresh, str(new)).run()
            finally:
                fresh.close()
    except BaseException:
        for ending in ("", "-wal", "-shm"):
            Path(f"{new}{ending}").unlink(missing_ok=True)
        raise
    finally:
        damaged.close()


def _open_damaged(path: Path) -> sqlite3.Connection:
    damaged = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        # Lets SQLite go on where the definition of one table is damaged.
        damaged.execute("PRAGMA writable_schema = ON")
        damaged.execute("PRAGMA query_only = ON")
        damaged.execute("PRAGMA trusted_schema = OFF")
        # Text that is not UTF-8 is damage within a row; what is left of it is better than nothing.
        damaged.text_factory = lambda data: data.decode("utf-8", "replace")
        names = damaged.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.DatabaseError as error:
        damaged.close()
        raise StoreUnavailable(_HOPELESS.format(path=path, error=error)) from error
    if ("messages",) not in names:
        damaged.close()
        raise StoreUnavailable(_HOPELESS.format(path=path, error="it lists no messages"))
    return damaged


_HOPELESS = (
    "the first page of {path} cannot be read ({error}), so that row by row nothing can: use a backup, or the sqlite3 "
    "shell's '.recover', which looks at every page"
)


class _Rescue:
    """One run. ``notes`` gathers what a person should know."""

    def __init__(self, damaged: sqlite3.Connection, fresh: sqlite3.Connection, target: str) -> None:
        self._damaged = damaged
        self._fresh = fresh
        self._target = target
        self._notes: list[str] = []

    def run(self) -> RescueReport:
        self._fresh.execute("PRAGMA foreign_keys = OFF")
        self._fresh.execute("PRAGMA synchronous = OFF")
        tables = [self._copy(name) for name in self._tables()]
        self._fresh.execute("BEGIN")
        if "speaks" not in self._columns(self._damaged, "messages"):
            self._fresh.execute(speaks_of_old_rows(SqliteDialect()))
        self._keep_ids_unused()
        self._name_lost_conversations()
        self._link_again()
        self._drop_loose_ends()
        self._hide_lost_texts()
        self._fresh.execute("COMMIT")
        self._fresh.execute("PRAGMA synchronous = FULL")
        self._fresh.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        verdict = self._fresh.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise StoreUnavailable(f"the new file {self._target} did not pass its check: {verdict}")
        if any(table.gaps for table in tables) and shutil.which("sqlite3"):
            self._notes.append(
                "Rows on readable pages that no readable page leads to may be found by the sqlite3 shell's '.recover'."
            )
        return RescueReport(self._target, tuple(tables), tuple(self._notes))

    def _tables(self) -> list[str]:
        rows = self._fresh.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'"
        )
        names = [row[0] for row in rows if row[0] not in _DERIVED]
        return [*_FIRST, *sorted(name for name in names if name not in _FIRST)]

    def _copy(self, table: str) -> TableRescue:
        old, new = self._columns(self._damaged, table), self._columns(self._fresh, table)
        columns = tuple(column for column in new if column in old)
        before = self._fresh.total_changes
        if not columns:
            if not old:
                return TableRescue(table, 0, 0)
            self._notes.append(f"The definition of {table} cannot be read.")
            return TableRescue(table, 0, 1)
        salvage = Salvage(self._damaged, table, columns)
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT OR IGNORE INTO {table} ({salvage.listed}) VALUES ({marks})"
        for batch in _batches(self._rows(salvage)):
            self._fresh.execute("BEGIN")
            self._fresh.executemany(statement, batch)
            self._fresh.execute("COMMIT")
        rows = self._fresh.total_changes - before
        if salvage.gaps:
            self._notes.append(f"{table}: {salvage.gaps} places could not be read.")
        return TableRescue(table, rows, salvage.gaps)

    def _rows(self, salvage: Salvage) -> Iterator[Row]:
        key = self._key_without_rowid(salvage.table)
        if not key:
            yield from salvage.by_rowid()
            return
        yield from salvage.by_key(key)
        if salvage.gaps and salvage.table in _KEYS:
            known = [row[0] for row in self._fresh.execute(_KEYS[salvage.table])]
            yield from salvage.of(key[0] if salvage.table != "large_files" else "file_id", known)

    def _key_without_rowid(self, table: str) -> list[str]:
        row = self._fresh.execute("SELECT wr FROM pragma_table_list WHERE name = ?", (table,)).fetchone()
        if not row[0]:
            return []
        keyed = [(info[5], info[1]) for info in self._fresh.execute(f"PRAGMA table_info({table})") if info[5]]
        return [name for _, name in sorted(keyed)]

    @staticmethod
    def _columns(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
        try:
            return tuple(row[1] for row in connection.execute(f"PRAGMA table_info({table})"))
        except sqlite3.DatabaseError:
            return ()

    def _keep_ids_unused(self) -> None:
        """An id whose row is lost is not given to another row."""
        try:
            used = self._damaged.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
        except sqlite3.DatabaseError:
            return
        for name, highest in used:
            if isinstance(highest, int):
                self._fresh.execute(
                    "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (highest, name)
                )

    def _name_lost_conversations(self) -> None:
        """A conversation whose row is lost comes back under its session key, or under a made-up one."""
        made = self._fresh.execute(
            "INSERT INTO conversations (conversation_id, session_key, session_id, active, created_at, updated_at, "
            "next_seq) SELECT m.conversation_id, coalesce(r.session_key, 'rescued:' || m.conversation_id), "
            "r.session_id, r.session_key IS NOT NULL AND NOT EXISTS (SELECT 1 FROM conversations v WHERE "
            "v.session_key = r.session_key AND v.active = 1), min(m.created_at), max(m.created_at), max(m.seq) + 1 "
            "FROM messages m LEFT JOIN (SELECT conversation_id, max(session_key) AS session_key, max(session_id) AS "
            "session_id FROM session_runs GROUP BY conversation_id) r ON r.conversation_id = m.conversation_id "
            "WHERE m.conversation_id NOT IN (SELECT conversation_id FROM conversations) GROUP BY m.conversation_id "
            "ON CONFLICT DO NOTHING"
        ).rowcount
        if made:
            self._notes.append(f"{made} conversations lost their row and were named anew.")

    def _link_again(self) -> None:
        """Gives summaries that lost links the sources that their own stretch names, where the counts agree."""
        leaves = self._fresh.execute(
            "SELECT summary_id, conversation_id, first_seq, last_seq, message_count FROM summaries s WHERE depth = 0 "
            "AND message_count <> (SELECT count(*) FROM summary_messages l JOIN messages m USING (message_id) "
            "WHERE l.summary_id = s.summary_id)"
        ).fetchall()
        mended = 0
        for summary_id, conversation_id, first, last, count in leaves:
            within = self._fresh.execute(
                "SELECT message_id FROM messages m WHERE conversation_id = ? AND seq BETWEEN ? AND ? AND NOT EXISTS "
                "(SELECT 1 FROM summary_messages l WHERE l.message_id = m.message_id AND l.summary_id <> ?) "
                "ORDER BY seq",
                (conversation_id, first, last, summary_id),
            ).fetchall()
            if len(within) != count:
                continue
            self._fresh.execute("DELETE FROM summary_messages WHERE summary_id = ?", (summary_id,))
            self._fresh.executemany(
                "INSERT INTO summary_messages (summary_id, ordinal, message_id) VALUES (?, ?, ?)",
                [(summary_id, ordinal, row[0]) for ordinal, row in enumerate(within)],
            )
            mended += 1
        mended += self._link_condensed_again()
        if mended:
            self._notes.append(f"{mended} summaries were linked with their sources again.")

    def _link_condensed_again(self) -> int:
        mended = 0
        condensed = self._fresh.execute(
            "SELECT summary_id, conversation_id, first_seq, last_seq, message_count, depth FROM summaries s WHERE depth > 0 "
            "AND message_count <> coalesce((SELECT sum(q.message_count) FROM summary_parents l JOIN summaries q "
            "ON q.summary_id = l.parent_summary_id WHERE l.summary_id = s.summary_id), -1) ORDER BY depth"
        ).fetchall()
        for summary_id, conversation_id, first, last, count, depth in condensed:
            within = self._fresh.execute(
                "SELECT summary_id, message_count FROM summaries q WHERE conversation_id = ? AND depth = ? - 1 "
                "AND first_seq >= ? AND last_seq <= ? AND NOT EXISTS (SELECT 1 FROM summary_parents l "
                "WHERE l.parent_summary_id = q.summary_id AND l.summary_id <> ?) ORDER BY first_seq",
                (conversation_id, depth, first, last, summary_id),
            ).fetchall()
            if sum(row[1] for row in within) != count:
                continue
            self._fresh.execute("DELETE FROM summary_parents WHERE summary_id = ?", (summary_id,))
            self._fresh.executemany(
                "INSERT INTO summary_parents (summary_id, ordinal, parent_summary_id) VALUES (?, ?, ?)",
                [(summary_id, ordinal, row[0]) for ordinal, row in enumerate(within)],
            )
            mended += 1
        return mended

    def _drop_loose_ends(self) -> None:
        """Removes rows that refer to rows which could not be read."""
        lost = 0
        while broken := self._fresh.execute("PRAGMA foreign_key_check").fetchall():
            tables = {row[0] for row in broken}
            before = self._fresh.total_changes
            for table in sorted(tables):
                for column, other, key in self._references(table):
                    self._fresh.execute(
                        f"DELETE FROM {table} WHERE {column} IS NOT NULL AND NOT EXISTS "
                        f"(SELECT 1 FROM {other} o WHERE o.{key} = {table}.{column})"
                    )
            removed = self._fresh.total_changes - before
            if not removed:
                break
            lost += removed
        if lost:
            self._notes.append(f"{lost} rows referred to rows that are lost, and were left out.")

    def _references(self, table: str) -> list[tuple[str, str, str]]:
        keys = {"conversations": "conversation_id", "messages": "message_id", "summaries": "summary_id"}
        return [
            (row[3], row[2], row[4] or keys.get(row[2], row[3]))
            for row in self._fresh.execute(f"PRAGMA foreign_key_list({table})")
        ]

    def _hide_lost_texts(self) -> None:
        """Messages whose text is lost keep their row and are left out of contexts."""
        hidden = self._fresh.execute(
            "UPDATE messages SET hidden = 1 WHERE NOT EXISTS (SELECT 1 FROM message_parts p WHERE p.part_id >= "
            "messages.message_id * 65536 AND p.part_id < (messages.message_id + 1) * 65536) AND skeleton IS NULL"
        ).rowcount
        if hidden:
            self._notes.append(f"{hidden} messages lost their text; their rows are kept.")


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    running = iter(rows)
    while batch := list(islice(running, _BATCH)):
        yield batch
