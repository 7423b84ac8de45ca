"""The PostgreSQL store: one database for many hosts, shared by any number of processes and machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from lcm_plugin.errors import StoreUnavailable
from lcm_plugin.store.insight.table import InsightTable
from lcm_plugin.store.maps.table import MapTable
from lcm_plugin.store.postgres.audit import PostgresAudit
from lcm_plugin.store.postgres.connection import Connection, Connections
from lcm_plugin.store.postgres.known_words import KnownWords
from lcm_plugin.store.postgres.messages import PostgresMessages
from lcm_plugin.store.postgres.schema import prepare_schema, require_schema
from lcm_plugin.store.postgres.search import PostgresSearch
from lcm_plugin.store.postgres.transfer import PostgresTransfer
from lcm_plugin.store.postgres.url import split_schema
from lcm_plugin.store.records import FileMoved
from lcm_plugin.store.tables.context import ContextTable
from lcm_plugin.store.tables.conversations import ConversationTable
from lcm_plugin.store.tables.debt import DebtTable
from lcm_plugin.store.tables.files import FileTable
from lcm_plugin.store.tables.jobs import JobTable
from lcm_plugin.store.tables.removal import RemovalTable
from lcm_plugin.store.tables.rewriting import RewritingTable
from lcm_plugin.store.tables.status import StatusTable
from lcm_plugin.store.tables.withdrawal import WithdrawalTable

_GROWING = (
    "messages",
    "message_parts",
    "summaries",
    "summary_messages",
    "summary_parents",
    "context_items",
    "context_snapshots",
    "large_files",
    "file_blobs",
    "compaction_debt",
    "removed_messages",
    "map_items",
)


class PostgresTransaction(
    PostgresMessages,
    PostgresTransfer,
    PostgresSearch,
    PostgresAudit,
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
    """All queries and changes, bound to one transaction."""

    def __init__(
        self, connection: Connection, location: str, known: KnownWords, *, writing: bool = False
    ) -> None:
        super().__init__(connection, location, writing=writing)
        self.known = known


class PostgresStore:
    """Opens, migrates and serves one schema of one database."""

    def __init__(
        self,
        url: str,
        *,
        durability: str = "normal",
        busy_timeout_ms: int = 5_000,
        read_only: bool = False,
        create: bool = True,
    ) -> None:
        plain, schema = split_schema(url)
        self._known = KnownWords()
        self._connections = Connections(
            plain, schema, durability=durability, busy_timeout_ms=busy_timeout_ms, read_only=read_only
        )
        self._connections.open()
        try:
            if read_only:
                with self._connections.reading() as connection:
                    require_schema(connection, schema)
            else:
                with self._connections.writing() as connection:
                    prepare_schema(connection, schema, create=create)
        except BaseException:
            self._connections.close()
            raise

    @property
    def location(self) -> str:
        """The URL without its password."""
        return self._connections.location

    @property
    def indexes_late(self) -> bool:
        """No: the database indexes each row as it is written."""
        return False

    @contextmanager
    def read(self) -> Iterator[PostgresTransaction]:
        """One consistent view of the database."""
        with self._connections.reading() as connection:
            yield PostgresTransaction(connection, self.location, self._known)

    @contextmanager
    def write(self) -> Iterator[PostgresTransaction]:
        """One write transaction."""
        with self._connections.writing() as connection:
            yield PostgresTransaction(connection, self.location, self._known, writing=True)

    def backup(self, destination: str) -> str:
        """Refuses: a server's database is backed up with its own tools."""
        raise StoreUnavailable(
            f"back up {self.location} with pg_dump: pg_dump --schema={self._connections.schema} …"
        )

    def before_fork(self) -> None:
        """Nothing: the parent's connections are left alone in the child."""

    def after_fork_in_parent(self) -> None:
        """Nothing."""

    def after_fork_in_child(self) -> None:
        """Connects anew when it is needed."""
        self._connections = self._connections.for_child()

    def on_moved(self, listener: Callable[[FileMoved], None]) -> None:
        """Nothing: a server looks after its own files."""

    def copies(self) -> list[str]:
        """None: they are made with the server's own tools."""
        return []

    def siblings(self) -> list[str]:
        """None: each database and schema of a server keeps its payloads itself."""
        return []

    def open_copy(self, path: str) -> AbstractContextManager[PostgresStore]:
        """Refuses, since there are none."""
        raise StoreUnavailable(f"{self.location} has no copy {path}")

    def give_back_space(self, *, scrub: bool = False) -> None:
        """Frees the space of deleted rows for reuse; with ``scrub`` rewrites the tables, which locks each meanwhile."""
        with self._connections.outside_transactions() as connection:
            for table in _GROWING:
                connection.execute(
                    f'VACUUM {"FULL " if scrub else ""}"{self._connections.schema}".{table}'.encode()
                )

    def close(self) -> None:
        """Closes every connection."""
        self._connections.close()
