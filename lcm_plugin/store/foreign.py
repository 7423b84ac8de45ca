"""Reading SQLite databases of other programs: read-only, never changed, one row at a time.

Nothing is known of a table but its name: columns that a version lacks come back as None.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lcm_plugin.errors import InputError

_MAGIC = b"SQLite format 3\x00"
_WAL_FORMAT = b"\x02\x02"
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def is_sqlite(path: Path) -> bool:
    """Whether a file is a SQLite database."""
    try:
        with path.open("rb") as file:
            return file.read(16) == _MAGIC
    except OSError:
        return False


class ForeignDatabase:
    """One database of another program, in one consistent view; a context manager.

    A database whose write-ahead log is at rest (in that mode nobody has it open then) is read as an unchanging
    file, so that not even a lock file appears beside it; then it must still be the same at the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not is_sqlite(path):
            raise InputError(f"{path}: not a SQLite database")
        self._unchanging = _is_at_rest(path)
        self._seen = _stamp(path)
        mode = "mode=ro&immutable=1" if self._unchanging else "mode=ro"
        try:
            self._db = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None)
            self._db.text_factory = _text
            self._db.execute("PRAGMA query_only = ON")
            self._db.execute("BEGIN")
            self._columns = {
                name: frozenset(row[1] for row in self._db.execute(f'PRAGMA table_info("{name}")'))
                for (name,) in self._db.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table'"
                ).fetchall()
                if _is_plain(name)
            }
        except sqlite3.Error as error:
            raise InputError(f"{path}: cannot be read: {error}") from error

    def __enter__(self) -> ForeignDatabase:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._db.close()
        if kind is None and self._unchanging and _stamp(self.path) != self._seen:
            raise InputError(f"{self.path}: another program changed it meanwhile; import it again")

    def has(self, table: str, *columns: str) -> bool:
        """Whether a table with these columns exists."""
        return set(columns) <= self._columns.get(table, frozenset()) if table in self._columns else False

    def count(self, table: str) -> int:
        """How many rows a table has; 0 when there is none."""
        return (
            int(self._run(f'SELECT count(*) FROM "{table}"', ()).fetchone()[0])
            if table in self._columns
            else 0
        )

    def rows(
        self,
        table: str,
        columns: Sequence[str],
        *,
        order: Sequence[str],
        where: Mapping[str, Any] | None = None,
        prefix: tuple[str, str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Rows as dicts, streamed in order; none when there is no such table.

        ``where`` compares for equality; ``prefix`` is a column of texts and how they begin.
        """
        known = self._columns.get(table)
        if known is None:
            return
        conditions = {name: value for name, value in (where or {}).items() if name in known}
        chosen = ", ".join(f'"{name}"' if name in known else "NULL" for name in columns)
        values = list(conditions.values())
        tests = [f'"{name}" IS ?' for name in conditions]
        if prefix is not None and prefix[0] in known:
            tests.append(f'"{prefix[0]}" >= ? AND "{prefix[0]}" < ?')
            values += [prefix[1], prefix[1] + chr(0x10FFFF)]
        test = " AND ".join(tests) or "1"
        ordered = ", ".join(f'"{name}"' for name in order if name in known) or "rowid"
        query = f'SELECT {chosen} FROM "{table}" WHERE {test} ORDER BY {ordered}'
        cursor = self._run(query, tuple(values))
        while page := self._fetch(cursor):
            yield from (dict(zip(columns, row, strict=True)) for row in page)

    def _run(self, query: str, values: Sequence[Any]) -> sqlite3.Cursor:
        try:
            return self._db.execute(query, values)
        except sqlite3.Error as error:
            raise InputError(f"{self.path}: cannot be read: {error}") from error

    def _fetch(self, cursor: sqlite3.Cursor) -> list[Any]:
        try:
            return cursor.fetchmany(200)
        except sqlite3.Error as error:
            raise InputError(f"{self.path}: cannot be read: {error}") from error


def _text(data: bytes) -> str:
    """Text as it is; bytes that are no UTF-8 stay recoverable."""
    return data.decode("utf-8", "surrogateescape")


def _is_at_rest(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(18)
        wal_mode = file.read(2) == _WAL_FORMAT
    return wal_mode and not path.with_name(path.name + "-wal").exists()


def _stamp(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_size, about.st_mtime_ns


def _is_plain(name: str) -> bool:
    return bool(name) and set(name) <= _NAME
