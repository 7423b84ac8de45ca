"""The SQLite store: one file, one writer per process, a pool of readers."""

from __future__ import annotations

import glob
import random
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lcm_plugin.errors import StoreBusy, StoreUnavailable
from lcm_plugin.store.insight.table import InsightTable
from lcm_plugin.store.maps.table import MapTable
from lcm_plugin.store.records import FileMoved
from lcm_plugin.store.sqlite.audit import SqliteAudit
from lcm_plugin.store.sqlite.connection import (
    Connections,
    create_private_file,
    retry_while_busy,
)
from lcm_plugin.store.sqlite.error_mapping import naming_errors
from lcm_plugin.store.sqlite.messages import SqliteMessages
from lcm_plugin.store.sqlite.schema import SCHEMA_VERSION, migrate, schema_version
from lcm_plugin.store.sqlite.search import SqliteSearch
from lcm_plugin.store.sqlite.siblings import needed_by_others, siblings
from lcm_plugin.store.sqlite.transfer import SqliteTransfer
from lcm_plugin.store.tables.context import ContextTable
from lcm_plugin.store.tables.conversations import ConversationTable
from lcm_plugin.store.tables.debt import DebtTable
from lcm_plugin.store.tables.files import FileTable
from lcm_plugin.store.tables.jobs import JobTable
from lcm_plugin.store.tables.removal import RemovalTable
from lcm_plugin.store.tables.rewriting import RewritingTable
from lcm_plugin.store.tables.status import StatusTable
from lcm_plugin.store.tables.withdrawal import WithdrawalTable

_EMPTY_LOG_SECONDS = 10.0
_FOLDER = "{path} is a folder; name a file in it, as {file}"


class SqliteTransaction(
    SqliteMessages,
    SqliteTransfer,
    SqliteSearch,
    SqliteAudit,
    ConversationTable,
    ContextTable,
    DebtTable,
    FileTable,
    InsightTable,
    JobTable,
    MapTable,
    RemovalTable,
    RewritingTable,
    StatusTable,
    WithdrawalTable,
):
    """All queries and changes, bound to one transaction; a read transaction's connection is query-only."""

    def needed_by_others(self, digests: set[str]) -> set[str]:
        return needed_by_others(Path(self.location), digests)


class SqliteStore:
    """Opens, migrates and serves one database file."""

    def __init__(
        self,
        path: str | Path,
        *,
        durability: str = "normal",
        busy_timeout_ms: int = 5_000,
        read_only: bool = False,
        create: bool = True,
        copy_before_migrating: bool = True,
    ) -> None:
        self.path = Path(path).expanduser()
        _require_file(self.path, must_exist=read_only or not create)
        self._copies_first = copy_before_migrating
        self._connections = Connections(
            self.path, durability=durability, busy_timeout_ms=busy_timeout_ms, read_only=read_only
        )
        if read_only:
            self._connections.open(self._require_present_schema)
        else:
            create_private_file(self.path)
            retry_while_busy(lambda: self._connections.open(self._prepare), max(busy_timeout_ms, 1_000))

    @property
    def location(self) -> str:
        """The file's path."""
        return str(self.path)

    @property
    def indexes_late(self) -> bool:
        """Yes: indexing would take longer than all else that a turn stores."""
        return True

    @contextmanager
    def read(self) -> Iterator[SqliteTransaction]:
        """One consistent view of the database."""
        with self._connections.reading() as connection:
            yield SqliteTransaction(connection, self.location)

    @contextmanager
    def write(self) -> Iterator[SqliteTransaction]:
        """One write transaction."""
        with self._connections.writing() as connection:
            yield SqliteTransaction(connection, self.location)

    def backup(self, destination: str) -> str:
        """Copies the live database with ``VACUUM INTO`` and checks the copy by reading it."""
        target = Path(destination).expanduser()
        if target.is_dir():
            raise StoreUnavailable(_FOLDER.format(path=target, file=target / "lcm.db"))
        if target.exists():
            raise StoreUnavailable(f"the backup {target} exists already")
        create_private_file(target)
        self._connections.follow_unless_writing()
        connection = self._connections.connect_to_path()
        try:
            with naming_errors(self.path):
                _require_room(connection, target.absolute().parent)
                connection.execute("VACUUM INTO ?", (str(target),))
            _verify_copy(target)
        except BaseException:
            # What is not a whole database must never be taken for one.
            for ending in ("", "-journal"):
                target.with_name(target.name + ending).unlink(missing_ok=True)
            raise
        finally:
            connection.close()
        return str(target)

    def before_fork(self) -> None:
        """Closes every connection: SQLite's locks do not outlive a fork."""
        self._connections.before_fork()

    def after_fork_in_parent(self) -> None:
        """Lets writers go on; the file is opened again when it is needed."""
        self._connections.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """The file is opened again when it is needed."""
        self._connections.after_fork_in_child()

    def on_moved(self, listener: Callable[[FileMoved], None]) -> None:
        """Calls ``listener`` after the open file was found deleted or replaced, outside any transaction."""
        self._connections.on_moved = listener

    def copies(self) -> list[str]:
        """The copies beside the file, which have its name and end in ``.bak``."""
        found = self.path.absolute().parent.glob(f"{glob.escape(self.path.name)}.*.bak")
        return sorted(str(path) for path in found if path.is_file() and not path.is_symlink())

    def siblings(self) -> list[str]:
        """Other databases in the folder; one that cannot be opened counts, too."""
        return [str(path) for path in siblings(self.path)]

    @contextmanager
    def open_copy(self, path: str) -> Iterator[SqliteStore]:
        """A copy as a store of its own, of the present schema; afterwards it is one checked file again."""
        copy = SqliteStore(path, copy_before_migrating=False)
        try:
            yield copy
        finally:
            copy.close()
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            with naming_errors(copy.path):
                connection.execute("PRAGMA journal_mode = DELETE")
        finally:
            connection.close()
        copy.path.chmod(0o600)
        _verify_copy(copy.path)

    def give_back_space(self, *, scrub: bool = False) -> None:
        """Merges the full-text index, rewrites the file without free pages and empties the log."""
        with self.write() as writer:
            writer.merge_index()
        with self._connections.outside_transactions() as connection:
            connection.execute("VACUUM")
            # Hosts read all the time, for a moment each; short waits find one between two of them.
            connection.execute("PRAGMA busy_timeout = 20")
            end = time.monotonic() + _EMPTY_LOG_SECONDS
            while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if time.monotonic() > end:
                    break
                time.sleep(random.uniform(0.001, 0.01))
            else:
                return
        raise StoreBusy(
            f"somebody reads {self.path} all the time, so that its log cannot be emptied; try again"
        )

    def close(self) -> None:
        """Closes every connection."""
        self._connections.close()

    def _require_present_schema(self, connection: sqlite3.Connection) -> None:
        version = schema_version(connection)
        if version == 0:
            raise StoreUnavailable(f"{self.path} is empty: no host has used it yet")
        if version < SCHEMA_VERSION:
            raise StoreUnavailable(
                f"{self.path} has schema version {version} of {SCHEMA_VERSION}: whatever writes to it brings it up to "
                "date, after a copy, as a host does or 'lcm worker --until-idle'"
            )

    def _free_name(self, purpose: str) -> str:
        """Where a copy may go; one of an earlier try that was given up stays."""
        endings = ("", *(f"-{number}" for number in range(2, 1_000)))
        names = (f"{self.path}.{purpose}{ending}.bak" for ending in endings)
        return next(name for name in names if not Path(name).exists())

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Switches to WAL and migrates, in one exclusive transaction, after a backup if there is data."""
        version = schema_version(connection)
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise StoreUnavailable(f"{self.path} cannot use write-ahead logging (its mode stays {mode})")
        if version == SCHEMA_VERSION:
            return
        connection.execute("BEGIN EXCLUSIVE")
        try:
            # Of several processes that start together only the first one copies and migrates.
            version = schema_version(connection)
            if 0 < version < SCHEMA_VERSION and self._copies_first:
                self.backup(self._free_name(f"before-schema-{SCHEMA_VERSION}"))
            if version < SCHEMA_VERSION:
                migrate(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise


def _require_room(connection: sqlite3.Connection, folder: Path) -> None:
    """Raises `StoreUnavailable` when a disk has not room for a copy of the database."""
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    needed = pages * connection.execute("PRAGMA page_size").fetchone()[0]
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StoreUnavailable(
            f"a copy needs {needed:,} bytes, and {folder} has {free:,} left; nothing was changed"
        )


def _verify_copy(path: Path) -> None:
    with naming_errors(path):
        copy = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            verdict = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
        finally:
            copy.close()
    if verdict != "ok":
        raise StoreUnavailable(f"the backup {path} did not pass its check: {verdict}")


def _require_file(path: Path, *, must_exist: bool) -> None:
    """Refuses a path that no file is or can be at, with the reason, which SQLite's own errors do not name."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if must_exist:
            raise StoreUnavailable(f"there is no database at {path}") from None
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be opened: {error.strerror or error}") from error
    else:
        if stat.S_ISDIR(mode):
            raise StoreUnavailable(_FOLDER.format(path=path, file=path / "lcm.db"))
