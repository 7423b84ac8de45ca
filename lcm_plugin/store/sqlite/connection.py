"""Connections to one SQLite file: one writer, a pool of readers, one way to name errors.

Nothing but SQLite ever opens the database file: closing any other handle on it would drop the
process's POSIX locks (SQLite, "How To Corrupt An SQLite Database File", 2.2).
"""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lcm_plugin.errors import EngineClosed, LcmError, StoreBusy, StoreError, StoreUnavailable
from lcm_plugin.private_files import make_private_folder
from lcm_plugin.store.records import FileMoved
from lcm_plugin.store.sqlite.error_mapping import naming_errors
from lcm_plugin.store.sqlite.ground import (
    OpenFile,
    file_identity,
    newer_messages,
    put_back,
    save_beside,
    side_file,
)

JOURNAL_SIZE_LIMIT = 64 * 1024 * 1024


_FORK_WAIT_S = 5.0
# Between two looks for the lock: a write takes some milliseconds, and no two that wait keep step.
_PAUSES_S = (0.0005, 0.002)
# Connections that a process inherited in use; collecting them would close them.
_left_to_parents: list[object] = []


class Connections:
    """Opens, pools and closes the connections to one file.

    When another file stands at the path, or none, the next transaction first writes out what is open (`ground`) and
    goes on with the file that stands there then.
    """

    def __init__(self, path: Path, *, durability: str, busy_timeout_ms: int, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self.busy_timeout_ms = busy_timeout_ms
        self._durability = durability
        self._idle: list[sqlite3.Connection] = []
        self._readers = 0
        self._suspended = self._carried = self._holds_for_fork = False
        self._new_locks()
        self._writer: sqlite3.Connection | None = None
        self._closed = False
        self._found_alone = read_only and not side_file(path, "-wal").exists()
        self._prepare: Callable[[sqlite3.Connection], None] = _prepare_nothing
        self._file: OpenFile | None = None
        self._saved = ""
        self._moves: list[FileMoved] = []
        self.on_moved: Callable[[FileMoved], None] = _tell_nobody

    def _new_locks(self) -> None:
        self._idle_lock = threading.Condition()
        self._write_lock = threading.Lock()

    def before_fork(self) -> None:
        """Waits for transactions to end and closes every connection, which a new process must not inherit.

        SQLite remembers its locks per process and does not notice a fork: in the child a reader would not be
        protected from a checkpoint (SQLite, "How To Corrupt An SQLite Database File", 2.6).
        """
        end = time.monotonic() + _FORK_WAIT_S
        self._holds_for_fork = self._write_lock.acquire(timeout=_FORK_WAIT_S)
        self._idle_lock.acquire()
        alone = self._idle_lock.wait_for(lambda: not self._readers, max(0.0, end - time.monotonic()))
        self._carried = not (alone and self._holds_for_fork)
        if self._carried or self._closed:
            return
        if self._has_moved and not self.read_only:
            # What only the deleted file holds is written out by the process that stays.
            self._carried = True
            return
        for connection in [*self._idle, *([self._writer] if self._writer else [])]:
            connection.close()
        self._idle.clear()
        self._writer, self._file, self._suspended = None, None, True

    def after_fork_in_parent(self) -> None:
        """Lets others go on."""
        self._carried = False
        self._idle_lock.release()
        if self._holds_for_fork:
            self._holds_for_fork = False
            self._write_lock.release()

    def after_fork_in_child(self) -> None:
        """Opens nothing yet. What could not be closed is kept for ever, since closing it would be harmful, too."""
        if self._carried:
            _left_to_parents.append((self._writer, list(self._idle)))
        self._idle, self._writer, self._file, self._readers = [], None, None, 0
        self._holds_for_fork = False
        self._suspended = True
        self._new_locks()

    def _resume(self) -> None:
        """Opens the file again after a fork. The write lock is held."""
        if self._suspended:
            self._check_open()
            if self._carried:
                raise StoreUnavailable(
                    f"{self.path} was in use when this process was forked, so that it cannot be used here; fork at a "
                    "quieter moment, or open the engine in the new process"
                )
            self._use_file_at_path()
            self._suspended = False

    def open(self, prepare: Callable[[sqlite3.Connection], None]) -> None:
        """Prepares the file at the path with ``prepare`` and holds it open, so that it can be written out later."""
        self._prepare = prepare
        with self._write_lock, naming_errors(self.path):
            self._use_file_at_path()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection inside a read transaction."""
        if self._suspended:
            with self._write_lock, naming_errors(self.path):
                self._resume()
        self.follow_unless_writing()
        connection, file = self._take_reader()
        try:
            with naming_errors(self.path):
                connection.execute("BEGIN")
                yield connection
        finally:
            with suppress(sqlite3.Error):
                connection.rollback()
            self._give_back(connection, file)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The writer inside an immediate transaction: commits at the end, rolls back on any error."""
        with self._alone_writing(), naming_errors(self.path):
            connection = self._begin_writing()
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.rollback()
                raise
            if self._has_moved:
                # Committed to a file that was deleted meanwhile: it must not wait for a next transaction.
                with suppress(StoreError, sqlite3.Error, OSError):
                    self._follow()

    @contextmanager
    def outside_transactions(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own for what cannot run inside a transaction; this process writes nothing meanwhile."""
        with self._alone_writing():
            self._resume()
            self._follow_if_moved()
            connection = self.connect()
            try:
                with naming_errors(self.path):
                    yield connection
            finally:
                connection.close()

    @contextmanager
    def _alone_writing(self) -> Iterator[None]:
        if self.read_only:
            raise StoreUnavailable(f"{self.path} was opened read-only")
        if not self._write_lock.acquire(timeout=self.busy_timeout_ms / 1000):
            raise StoreBusy(
                f"another thread has been writing to {self.path} for {self.busy_timeout_ms} ms; nothing was "
                "written, try again"
            )
        try:
            yield
        finally:
            self._write_lock.release()
            self._tell_moves()

    def connect(self) -> sqlite3.Connection:
        """A new connection to the file that is open. Raises `StoreUnavailable` when it has lost its name."""
        self._check_open()
        if self._has_moved:
            raise StoreUnavailable(f"{self.path} was deleted or replaced while it was open")
        return self.connect_to_path()

    def connect_to_path(self) -> sqlite3.Connection:
        """A new connection, with this project's settings, to whatever file stands at the path."""
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
        with self._write_lock:
            if self._has_moved and not self._closed and not self.read_only:
                with suppress(StoreError, sqlite3.Error, OSError):
                    self._follow()
        self._tell_moves()
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

    def _begin_writing(self) -> sqlite3.Connection:
        """The writer inside a transaction on the file that stands at the path."""
        self._check_open()
        self._resume()
        while True:
            self._follow_if_moved()
            assert self._writer is not None
            self._lock(self._writer)
            if not self._has_moved:
                return self._writer
            self._writer.rollback()

    def _lock(self, writer: sqlite3.Connection) -> None:
        """Begins to write as soon as no other process does.

        SQLite by itself would look again after ever longer pauses, up to 100 ms, while those that came later get the lock.
        """
        end = time.monotonic() + self.busy_timeout_ms / 1000
        while True:
            try:
                writer.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                    raise
                time.sleep(random.uniform(*_PAUSES_S))
            else:
                return

    @property
    def _has_moved(self) -> bool:
        return self._file is not None and not self._file.in_place

    def follow_unless_writing(self) -> None:
        """Before a read: leaves it to a write that is under way, and goes on with the old file when that fails."""
        if not self._has_moved or not self._write_lock.acquire(blocking=False):
            return
        try:
            with suppress(StoreError, sqlite3.Error, OSError):
                self._follow()
        finally:
            self._write_lock.release()
            self._tell_moves()

    def _follow_if_moved(self) -> None:
        if not self._has_moved:
            return
        try:
            self._follow()
        except OSError as error:
            raise StoreUnavailable(
                f"{self.path} was deleted or replaced while it was open, and what it held cannot be written "
                f"beside it: {error.strerror or error}"
            ) from error

    def _follow(self) -> None:
        """Writes out what is open, then uses the file at the path. On any error the old one stays open."""
        self._check_open()
        if self.read_only:
            self._use_file_at_path()
            return
        writer, file = self._writer, self._file
        assert writer is not None
        assert file is not None
        writer.execute(f"PRAGMA busy_timeout = {self.busy_timeout_ms}")
        try:
            deleted = file_identity(self.path) is None and put_back(writer, file)
            if not deleted and not self._saved:
                if writer.in_transaction:
                    writer.rollback()
                self._saved = str(save_beside(writer, file))
            file.take_log_away()
            try:
                self._use_file_at_path()
            except LcmError as error:
                raise StoreUnavailable(
                    f"{self.path} was replaced while it was open, and the file that stands there now cannot be used "
                    f"({error}); what the old one held is in {self._saved}"
                ) from error
        finally:
            with suppress(sqlite3.Error):
                writer.rollback()
        assert self._writer is not None
        missing = 0 if deleted else newer_messages(writer, than=self._writer)
        writer.close()
        self._moves.append(FileMoved(str(self.path), self._saved, missing))
        self._saved = ""

    def _use_file_at_path(self) -> None:
        """Prepares the file at the path and opens it, then forgets the connections to the one before."""
        connection = self.connect_to_path()
        try:
            self._prepare(connection)
            # Reading opens the log, whose identity has to be known before it may lose its name.
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except BaseException:
            connection.close()
            raise
        with self._idle_lock:
            old, self._idle = self._idle, []
            self._file = OpenFile.at(self.path)
            if self.read_only:
                self._idle.append(connection)
            else:
                self._writer = connection
                connection.execute("PRAGMA busy_timeout = 0")  # `_lock` waits
        for reader in old:
            reader.close()

    def _tell_moves(self) -> None:
        while self._moves:
            self.on_moved(self._moves.pop(0))

    def _take_reader(self) -> tuple[sqlite3.Connection, OpenFile | None]:
        self._check_open()
        with self._idle_lock:
            file = self._file
            self._readers += 1
            if self._idle:
                return self._idle.pop(), file
        try:
            connection = self.connect()
            connection.execute("PRAGMA query_only = ON")
        except BaseException:
            self._one_reader_less()
            raise
        return connection, file

    def _one_reader_less(self) -> None:
        with self._idle_lock:
            self._readers -= 1
            self._idle_lock.notify_all()

    def _give_back(self, connection: sqlite3.Connection, file: OpenFile | None) -> None:
        with self._idle_lock:
            keeps = not self._closed and file is self._file
            if keeps:
                self._idle.append(connection)
        if not keeps:
            connection.close()
        self._one_reader_less()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineClosed(f"the store {self.path} is closed")


def _prepare_nothing(connection: sqlite3.Connection) -> None:
    """A file that is only read is used as it is."""


def _tell_nobody(moved: FileMoved) -> None:
    """Until a listener is set."""


def create_private_file(path: Path) -> None:
    """Makes an empty file readable by its owner only, unless there is one.

    It is made under another name and linked into place, so that no handle on the database's own
    name is ever opened or closed outside SQLite.
    """
    if path.exists():
        return
    try:
        make_private_folder(path.parent)
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
