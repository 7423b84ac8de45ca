"""The database file that is open and the file that stands at its path: the same one, or no longer.

A file that was deleted or renamed away lives on as long as a connection has it open, and SQLite goes on writing to
it: everything stored from then on would be gone with the process. Worse, its write-ahead log keeps its name and
would be replayed into whatever file takes the place. So each transaction compares device and inode, which costs one
`stat`, and what was open is written out before the file at the path is used.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lcm_plugin.private_files import make_private_folder

FileIdentity = tuple[int, int]

_LOG, _INDEX = "-wal", "-shm"
_TRIES = 3


def side_file(path: Path, ending: str) -> Path:
    """A file that SQLite keeps beside the database, as ``-wal``."""
    return path.with_name(path.name + ending)


def file_identity(path: Path) -> FileIdentity | None:
    """Device and inode of the file at a path; None when there is none. Opens nothing."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


@dataclass(frozen=True, slots=True)
class OpenFile:
    """Which file a store's connections have open, with its write-ahead log."""

    path: Path
    database: FileIdentity | None
    log: FileIdentity | None

    @classmethod
    def at(cls, path: Path) -> OpenFile:
        """The file that stands at a path now; call it while a connection that has read from it is open."""
        return cls(path, file_identity(path), file_identity(side_file(path, _LOG)))

    @property
    def in_place(self) -> bool:
        """Whether this file still has its name."""
        return file_identity(self.path) == self.database

    def take_log_away(self) -> None:
        """Removes the names of this file's log, so that no other database ever takes it for its own."""
        log = side_file(self.path, _LOG)
        if self.log is not None and file_identity(log) == self.log:
            for leftover in (log, side_file(self.path, _INDEX)):
                leftover.unlink(missing_ok=True)


def put_back(connection: sqlite3.Connection, file: OpenFile) -> bool:
    """Writes a deleted file's whole content to its path again; false when another file took the path first.

    Leaves a write transaction open on ``connection``, so that no other process can commit to the deleted file any more.
    """
    make_private_folder(file.path.parent)
    copy = write_out(connection, file.path.parent, file.path.name)
    try:
        file.take_log_away()
        return _name(copy, file.path)
    finally:
        copy.unlink(missing_ok=True)


def save_beside(connection: sqlite3.Connection, file: OpenFile) -> Path:
    """Writes a replaced file's whole content to a copy beside its path, ``<name>.replaced.bak``; returns that."""
    copy = write_out(connection, file.path.parent, file.path.name)
    try:
        numbers = ("", *(f"-{number}" for number in range(2, 1_000)))
        names = (file.path.with_name(f"{file.path.name}.replaced{number}.bak") for number in numbers)
        return next(name for name in names if _name(copy, name))
    finally:
        copy.unlink(missing_ok=True)


def newer_messages(connection: sqlite3.Connection, *, than: sqlite3.Connection) -> int:
    """How many messages are newer than the newest one that another database holds."""
    (newest,) = than.execute("SELECT coalesce(max(created_at), -1) FROM messages").fetchone()
    return int(
        connection.execute("SELECT count(*) FROM messages WHERE created_at > ?", (newest,)).fetchone()[0]
    )


def write_out(connection: sqlite3.Connection, folder: Path, name: str) -> Path:
    """A temporary file (mode 0600) with everything that a connection sees, in rollback-journal mode.

    Leaves a write transaction open on the connection. When other processes go on committing meanwhile, the copy is
    made again.
    """
    handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    os.close(handle)
    try:
        for left in reversed(range(_TRIES)):
            before = _version(connection)
            _copy_into(connection, temporary)
            connection.execute("BEGIN IMMEDIATE")
            if left == 0 or _version(connection) == before:
                break
            connection.rollback()
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return Path(temporary)


def _copy_into(connection: sqlite3.Connection, target: str) -> None:
    copy = sqlite3.connect(target, isolation_level=None)
    try:
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
    finally:
        copy.close()


def _version(connection: sqlite3.Connection) -> int:
    """Changes whenever another connection commits."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


def _name(temporary: Path, path: Path) -> bool:
    """Gives a finished file another name unless that is taken; on a file system without links it moves there."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:
        if path.exists():
            return False
        os.rename(temporary, path)
    return True
