"""Which hooks fail, since when and how often in a row, in the file beside the database.

It is the database that fails most often, so that the record does not stand in it. It outlives the process, and
another one can read it. No text holds what anybody said.
"""

from __future__ import annotations

from dataclasses import dataclass

from lcm_plugin.store.side_file import SideFile
from lcm_plugin.store.sqlite.connection import create_private_file

_KEPT = 256
_SCHEMA = """
CREATE TABLE IF NOT EXISTS failures (
    lane TEXT NOT NULL,
    hook TEXT NOT NULL,
    in_a_row INTEGER NOT NULL,
    since INTEGER NOT NULL,
    at INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (lane, hook)
)
"""
_COLUMNS = "lane, hook, in_a_row, since, at, text"


@dataclass(frozen=True, slots=True)
class HookFailure:
    """The newest failure of a hook for one session key (or id). ``in_a_row`` is 0 once it works again.

    ``since`` is the first of the row, ``at`` the newest, in milliseconds.
    """

    lane: str
    hook: str
    in_a_row: int
    since: int
    at: int
    text: str

    def __str__(self) -> str:
        times = f"{self.in_a_row:,} times" if self.in_a_row > 1 else "1 time"
        return f"{self.hook} failed {times} in a row in {self.lane or 'a session without a key'}: {self.text}"


class FailureFile(SideFile):
    """The newest failures, one row for each hook of each session."""

    table = "failures"

    def add(self, lane: str, hook: str, text: str, now: int) -> HookFailure:
        """Counts one more failure; raises `StoreError` or `OSError` when that cannot be written."""
        create_private_file(self.path)
        with self._transaction() as connection:
            connection.execute(_SCHEMA)
            row = connection.execute(
                f"INSERT INTO failures ({_COLUMNS}) VALUES (?1, ?2, 1, ?3, ?3, ?4) "
                "ON CONFLICT (lane, hook) DO UPDATE SET in_a_row = in_a_row + 1, at = ?3, text = ?4, "
                f"since = CASE in_a_row WHEN 0 THEN ?3 ELSE since END RETURNING {_COLUMNS}",
                (lane, hook, now, text),
            ).fetchone()
            connection.execute(
                "DELETE FROM failures WHERE (lane, hook) NOT IN "
                f"(SELECT lane, hook FROM failures ORDER BY at DESC LIMIT {_KEPT})"
            )
        return HookFailure(*row)

    def works(self, lane: str, hook: str) -> None:
        """Notes that a hook works again."""
        if self.path.exists():
            with self._transaction() as connection:
                connection.execute(
                    "UPDATE failures SET in_a_row = 0 WHERE lane = ? AND hook = ?", (lane, hook)
                )

    def newest(self) -> list[HookFailure]:
        """The failures, the newest one first."""
        return [HookFailure(*row) for row in self._rows(f"SELECT {_COLUMNS} FROM failures ORDER BY at DESC")]
