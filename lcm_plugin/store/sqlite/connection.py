"""Connections to one SQLite file: one writer, a pool of readers, one way to name errors.

Nothing but SQLite ever opens the database file: closing any other handle on it would drop the
process's POSIX locks (SQLite, "How To Corrupt An SQLite Database File", 2.2).
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lcm_plugin.errors import EngineClosed, StoreBusy, StoreError, StoreUnavailable

JOURNAL_SIZE_LIMIT = 64 * 1024 * 1024
_BUSY = {
    "SQLITE_BUSY",
    "SQLITE_LOCKED",
    "SQLITE_BUSY_RECOVERY",
    "SQLITE_BUSY_SNAPSHOT",
    "SQLITE_BUSY_TIMEOUT",
}


class Connections:
    """Opens, pools and closes the connections to one file."""

    def __init__(self, path: Path, *, durability: str, busy_timeout_ms: int, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self.busy_timeout_ms = busy_timeout_ms
        self._durability = durability
        self._idle: list[sqlite3.Connection] = []
        self._idle_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._closed = False
        self._found_alone = read_only and not side_file(path, "-wal").exists()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection inside a read transaction."""
        connection = self._take_reader()
        try:
            with naming_errors(self.path):
                connection.execute("BEGIN")
                yield connection
        finally:
            with suppress(sqlite3.Error):
                connection.rollback()
            self._give_back(connection)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The writer inside an immediate transaction: commits at the end, rolls back on any error."""
        if self.read_only:
            raise StoreUnavailable(f"{self.path} was opened read-only")
        if not self._write_lock.acquire(timeout=self.busy_timeout_ms / 1000):
            raise StoreBusy(f"another thread has been writing to {self.path} for {self.busy_timeout_ms} ms")
        try:
            with naming_errors(self.path):
                connection = self._open_writer()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):
                        connection.rollback()
                    raise
        finally:
            self._write_lock.release()

    @contextmanager
    def outside_transactions(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own for what cannot run inside a transaction; this process writes nothing meanwhile."""
        if self.read_only:
            raise StoreUnavailable(f"{self.path} was opened read-only")
        if not self._write_lock.acquire(timeout=self.busy_timeout_ms / 1000):
            raise StoreBusy(f"another thread has been writing to {self.path} for {self.busy_timeout_ms} ms")
        try:
            connection = self.connect()
            try:
                with naming_errors(self.path):
                    yield connection
            finally:
                connection.close()
        finally:
            self._write_lock.release()

    def connect(self) -> sqlite3.Connection:
        """A new connection with this project's settings."""
        self._check_open()
        mode = "ro" if self.read_only else "rw"
        if self._found_alone and not os.access(self.path.absolute().parent, os.W_OK):
            # Beside it SQLite would make the files that readers and writers meet in; here nobody can write.
            mode = "ro&immutable=1"
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        with naming_errors(self.path):
            connection = sqlite3.connect(
                uri,
                uri=True,
                isolation_level=None,
                check_same_thread=False,
                timeout=self.busy_timeout_ms / 1000,
            )
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("PRAGMA cache_size = -16000")
            connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_SIZE_LIMIT}")
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._durability == 'full' else 'NORMAL'}")
        return connection

    def close(self) -> None:
        """Closes every connection; waits for a running write."""
        with self._write_lock, self._idle_lock:
            self._closed = True
            for connection in [*self._idle, *([self._writer] if self._writer else [])]:
                connection.close()
            self._idle.clear()
            self._writer = None
        if self._found_alone:
            self._found_alone = False
            self._leave_alone()

    def _leave_alone(self) -> None:
        """Lets SQLite take away the empty files that reading made beside the database, unless others use them."""
        if not side_file(self.path, "-wal").exists() or not os.access(self.path, os.W_OK):
            return
        with suppress(sqlite3.Error):
            connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=rw", uri=True, timeout=0)
            try:
                connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            finally:
                connection.close()

    def _open_writer(self) -> sqlite3.Connection:
        self._check_open()
        if self._writer is None:
            self._writer = self.connect()
        return self._writer

    def _take_reader(self) -> sqlite3.Connection:
        self._check_open()
        with self._idle_lock:
            if self._idle:
                return self._idle.pop()
        connection = self.connect()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._idle_lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineClosed(f"the store {self.path} is closed")


def side_file(path: Path, ending: str) -> Path:
    """A file that SQLite keeps beside the database, as ``-wal``."""
    return path.with_name(path.name + ending)


@contextmanager
def naming_errors(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into ours, naming the file and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise store_error(error, path) from error


def store_error(error: sqlite3.Error, path: Path) -> StoreError:
    """Our error for one of SQLite's."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if name in _BUSY:
        return StoreBusy(f"{path} is locked by another writer; nothing was written, try again")
    if name.startswith("SQLITE_FULL"):
        return StoreUnavailable(f"the disk that holds {path} is full; nothing of this turn was written")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_IOERR", "SQLITE_AUTH")):
        return StoreUnavailable(f"{path} cannot be used: {error} ({name})")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreUnavailable(f"{path} is damaged or not a database: {error}; run 'lcm doctor'")
    return StoreError(f"{path}: {error} ({name or type(error).__name__})")


def create_private_file(path: Path) -> None:
    """Makes an empty file readable by its owner only, unless there is one.

    It is made under another name and linked into place, so that no handle on the database's own
    name is ever opened or closed outside SQLite.
    """
    if path.exists():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        try:
            with suppress(FileExistsError):
                _link(Path(temporary), path)
        finally:
            os.unlink(temporary)
    except OSError as error:
        raise StoreUnavailable(f"cannot create the database {path}: {error.strerror or error}") from error


def _link(temporary: Path, path: Path) -> None:
    """Gives a file its name; on a file system without links a new one is made, which nobody can have open yet."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def retry_while_busy(action: object, deadline_ms: int) -> None:
    """Calls ``action`` until it stops raising `StoreBusy` or the time is over.

    Switching a new file to WAL ignores the busy timeout, so several processes that start together
    on one fresh file need this.
    """
    assert callable(action)
    deadline = time.monotonic() + deadline_ms / 1000
    pause = 0.005
    while True:
        try:
            action()
            return
        except StoreBusy:
            if time.monotonic() + pause > deadline:
                raise
            time.sleep(pause)
            pause = min(pause * 2, 0.1)
