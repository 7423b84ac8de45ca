"""A PgBouncer of its own before a test's PostgreSQL server, in session or transaction mode."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import pytest
from effort import FULL
from postgres_server import PostgresServer, _free_port, _owner

_LONGEST_START_S = 10.0


def find_program() -> str:
    """The program. Without it a test is skipped, with the reason; where everything has to run it fails."""
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        why = "PgBouncer is not installed (Debian's package pgbouncer)"
        (pytest.fail if FULL else pytest.skip)(why)
    assert found is not None
    return found


class PgBouncer:
    """Lends out few server connections to many clients; a context manager that starts it.

    ``settings`` are lines of its own configuration, as ``ignore_startup_parameters``.
    """

    def __init__(
        self, server: PostgresServer, mode: Literal["session", "transaction"], **settings: str
    ) -> None:
        self._program = find_program()
        self.port = _free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="lcmbouncer"))
        self._process: subprocess.Popen[bytes] | None = None
        lines = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": str(self._folder / "users"),
            "logfile": str(self._folder / "log"),
            "pool_mode": mode,
            "default_pool_size": "3" if mode == "transaction" else "20",
            **settings,
        }
        (self._folder / "users").write_text('"postgres" ""\n"odd" ""\n"reading" ""\n')
        port = f" port={server.port}" if server.port else ""
        (self._folder / "ini").write_text(
            f"[databases]\n* = host={server.folder}{port}\n[pgbouncer]\n"
            + "".join(f"{name} = {value}\n" for name, value in lines.items())
        )
        self._owner = _owner()
        if self._owner is not None:
            for path in (self._folder, *self._folder.iterdir()):
                shutil.chown(path, self._owner)

    def url(self, user: str = "postgres", more: str = "") -> str:
        """A database URL by way of it."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/postgres?sslmode=disable{more}"

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [self._program, str(self._folder / "ini")],
            user=self._owner,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + _LONGEST_START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                if time.monotonic() >= end or self._process.poll() is not None:
                    self._stop()
                    raise
                time.sleep(0.02)
            else:
                return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
