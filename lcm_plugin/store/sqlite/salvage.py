"""Reading what can be read of a damaged SQLite table: row by row, past the pages that cannot be read.

SQLite finds a row by descending its tree, so a damaged page hides only what lies below it. Where a scan
stops, the next place that answers is searched by doubling the distance and then halving it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

Row = tuple[object, ...]
_LAST = (1 << 63) - 1


@dataclass(slots=True)
class Salvage:
    """A table of the damaged database. ``gaps`` counts the places that could not be read so far."""

    source: sqlite3.Connection
    table: str
    columns: tuple[str, ...]
    gaps: int = 0

    @property
    def listed(self) -> str:
        """The columns as SQL."""
        return ", ".join(self.columns)

    def by_rowid(self) -> Iterator[Row]:
        """The readable rows of a table that has row ids, in order."""
        position = -1
        while True:
            try:
                cursor = self.source.execute(
                    f"SELECT rowid, {self.listed} FROM {self.table} WHERE rowid > ? ORDER BY rowid",
                    (position,),
                )
                for row in cursor:
                    if row[0] <= position:
                        raise sqlite3.DatabaseError("rows out of order")
                    position = row[0]
                    yield row[1:]
                return
            except sqlite3.DatabaseError:
                row = self._one_from(position + 1)
                if row is not None:
                    position = row[0]
                    yield row[1:]
                    continue
                self.gaps += 1
                following = self._next_readable(position)
                if following is None:
                    return
                position = following - 1

    def by_key(self, key: Sequence[str]) -> Iterator[Row]:
        """The readable rows of a table without row ids: from both ends, and through each of its indexes.

        Rows may come more than once.
        """
        order = ", ".join(key)
        backwards = ", ".join(f"{column} DESC" for column in key)
        ways = [f"{self.table} ORDER BY {order}", f"{self.table} ORDER BY {backwards}"]
        if (yield from self._scan(ways[0])):
            return
        self.gaps += 1
        yield from self._scan(ways[1])
        for name in self._indexes():
            yield from self._scan(f"{self.table} INDEXED BY {name}")

    def of(self, column: str, values: Sequence[object]) -> Iterator[Row]:
        """The readable rows with each of some values in the key's first column. Rows may come more than once."""
        for value in values:
            yield from self._scan(f"{self.table} WHERE {column} = ?", (value,))

    def _scan(self, rest: str, values: Row = ()) -> Generator[Row, None, bool]:
        """Rows until one cannot be read; returns whether all could."""
        query, count = f"SELECT {self.listed} FROM {rest}", 0
        try:
            for row in self.source.execute(query, values):
                count += 1
                yield row
        except sqlite3.DatabaseError:
            # A cursor reads one row ahead: the last one before the damage is still to be had.
            with suppress(sqlite3.DatabaseError):
                rows = self.source.execute(f"{query} LIMIT {count + 1}", values).fetchall()
                yield from rows[count:]
            return False
        return True

    def _indexes(self) -> list[str]:
        try:
            return [
                row[1] for row in self.source.execute(f"PRAGMA index_list({self.table})") if row[3] == "c"
            ]
        except sqlite3.DatabaseError:
            return []

    def _next_readable(self, position: int) -> int | None:
        """The next place after a position from which a row can be read; None when there is none."""
        low, step = position, 1
        while not self._reaches(position + step):
            low, step = position + step, step * 2
            if position + step > _LAST:
                return None
        high = position + step
        while high - low > 1:
            middle = (low + high) // 2
            if self._reaches(middle):
                high = middle
            else:
                low = middle
        # Not the row's own id: a damaged tree may lead to the row from here and not from there.
        return high

    def _one_from(self, row_id: int) -> tuple[int, *tuple[object, ...]] | None:
        """The first row from an id on, its row id first; None when there is none or it cannot be read."""
        try:
            row = self.source.execute(
                f"SELECT rowid, {self.listed} FROM {self.table} WHERE rowid >= ? ORDER BY rowid LIMIT 1",
                (row_id,),
            ).fetchone()
        except sqlite3.DatabaseError:
            return None
        return row if row is not None and row[0] >= row_id else None

    def _reaches(self, row_id: int) -> bool:
        """Whether a row can be read from an id on."""
        return self._one_from(row_id) is not None
