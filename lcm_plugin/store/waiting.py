"""Messages that wait to be stored, in a small SQLite file of their own beside the database.

A transaction adds a batch or takes one away, so that no kill leaves half of one. Who stores a batch first claims it
and notes where the conversation ends: one who comes after a kill looks from there whether it was stored.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lcm_plugin.errors import StoreBusy, StoreUnavailable
from lcm_plugin.store.leases import is_dead, process_holder
from lcm_plugin.store.side_file import SideFile
from lcm_plugin.store.sqlite.connection import create_private_file
from lcm_plugin.types import IngestMode, Message, Session

MOST_BYTES = 256 * 1024 * 1024
_SCHEMA = """
CREATE TABLE IF NOT EXISTS waiting (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    lane TEXT NOT NULL,
    session_key TEXT NOT NULL,
    session_id TEXT,
    mode TEXT NOT NULL,
    count INTEGER NOT NULL,
    messages TEXT NOT NULL,
    owner TEXT,
    conversation_id INTEGER,
    next_seq INTEGER
)
"""


@dataclass(frozen=True, slots=True)
class WaitingBatch:
    """A host's messages of one call. ``since`` is (conversation id, next seq) when somebody began to store it."""

    id: int
    session: Session
    mode: IngestMode
    messages: list[Message]
    since: tuple[int, int] | None


class WaitingFile(SideFile):
    """The batches that wait, oldest first. Thread-safe, and safe between processes."""

    table = "waiting"

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        super().__init__(path)
        self._most_bytes = most_bytes

    def add(self, session: Session, mode: IngestMode, messages: Sequence[Message]) -> None:
        """Adds a batch. Raises `StoreError` when that cannot be done, as when the file has become too large."""
        text = json.dumps(messages)
        create_private_file(self.path)
        with self._transaction() as connection:
            connection.execute(_SCHEMA)
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            size = pages * connection.execute("PRAGMA page_size").fetchone()[0]
            free = connection.execute("PRAGMA freelist_count").fetchone()[0] * (size // max(1, pages))
            if size - free + len(text) > self._most_bytes:
                raise StoreUnavailable(
                    f"{self.path} holds {size:,} bytes of messages already; at most {self._most_bytes:,}"
                )
            connection.execute(
                "INSERT INTO waiting (lane, session_key, session_id, mode, count, messages) VALUES (?, ?, ?, ?, ?, ?)",
                (session.name, session.key, session.id, mode, len(messages), text),
            )

    def lanes(self) -> list[str]:
        """The lanes for which something waits, the one that waits longest first."""
        return [row[0] for row in self._rows("SELECT lane FROM waiting GROUP BY lane ORDER BY min(id)")]

    def count(self, lane: str) -> int:
        """How many messages of a lane wait."""
        rows = self._rows("SELECT sum(count) FROM waiting WHERE lane = ?", (lane,))
        return int(rows[0][0] or 0) if rows else 0

    def total(self) -> int:
        """How many messages wait."""
        rows = self._rows("SELECT sum(count) FROM waiting")
        return int(rows[0][0] or 0) if rows else 0

    def oldest(self, lane: str) -> WaitingBatch | None:
        """The batch of a lane that waits longest."""
        rows = self._rows(
            "SELECT id, session_key, session_id, mode, messages, conversation_id, next_seq FROM waiting "
            "WHERE lane = ? ORDER BY id LIMIT 1",
            (lane,),
        )
        if not rows:
            return None
        number, key, session_id, mode, text, conversation_id, seq = rows[0]
        since = None if conversation_id is None else (conversation_id, seq)
        return WaitingBatch(number, Session(key, session_id), mode, json.loads(text), since)

    def rewrite(self, change: Callable[[Message], Message], *, apply: bool = True) -> int:
        """How many messages ``change`` changes; with ``apply`` they wait in their new form from now on.

        Raises `StoreBusy` when another process is just storing one of them.
        """
        if not self._rows("SELECT 1 FROM waiting LIMIT 1"):
            return 0
        changed = 0
        with self._transaction() as connection:
            ids = [row[0] for row in connection.execute("SELECT id FROM waiting ORDER BY id")]
            for number in ids:
                query = "SELECT messages, owner FROM waiting WHERE id = ?"
                text, owner = connection.execute(query, (number,)).fetchone()
                before = json.loads(text)
                after = [change(message) for message in before]
                differing = sum(one != other for one, other in zip(before, after, strict=True))
                if differing and apply:
                    if not self._is_free(owner):
                        raise StoreBusy(
                            f"another process is just storing what waits in {self.path}; try again"
                        )
                    connection.execute(
                        "UPDATE waiting SET messages = ? WHERE id = ?", (json.dumps(after), number)
                    )
                changed += differing
        return changed

    def set_aside(self) -> list[Path]:
        """Damaged files that were moved out of the way and that nothing reads any more."""
        return sorted(self.path.parent.glob(f"{glob.escape(self.path.name)}.damaged-*"))

    def claim(self, batch: WaitingBatch, since: tuple[int, int]) -> bool:
        """Takes a batch for this process, which is about to store it; False when another one has it or had it."""
        me = process_holder()
        with self._transaction() as connection:
            found = connection.execute("SELECT owner FROM waiting WHERE id = ?", (batch.id,)).fetchone()
            if found is None or not self._is_free(found[0]):
                return False
            connection.execute(
                "UPDATE waiting SET owner = ?, conversation_id = ?, next_seq = ? WHERE id = ?",
                (me, *since, batch.id),
            )
        return True

    @staticmethod
    def _is_free(owner: str | None) -> bool:
        return owner in (None, process_holder()) or is_dead(owner)

    def release(self, batch: WaitingBatch) -> None:
        """It could not be stored after all."""
        with self._transaction() as connection:
            connection.execute("UPDATE waiting SET owner = NULL WHERE id = ?", (batch.id,))

    def remove(self, batch: WaitingBatch) -> None:
        """It is stored."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM waiting WHERE id = ?", (batch.id,))
