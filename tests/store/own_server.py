"""A PostgreSQL server that a test may stop, start and ask for passwords: not the one that the other tests share."""

from __future__ import annotations

import shutil
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from postgres_server import _owner, _run, find_programs

PASSWORD = "correct-horse"


class OwnServer:
    """Listens on a port of 127.0.0.1 and in a folder.

    Over TCP the users of ``with_password`` are asked for `PASSWORD`; everybody else is let in. ``copied_from`` makes
    it a standby of another one.
    """

    def __init__(self, *, with_password: tuple[str, ...] = (), copied_from: OwnServer | None = None) -> None:
        self._programs = find_programs()
        self._owner = _owner()
        self.folder = Path(tempfile.mkdtemp(prefix="lcmpg"))
        if self._owner is not None:
            shutil.chown(self.folder, self._owner)
        self._data = self.folder / "data"
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port: int = taken.getsockname()[1]
        if copied_from is None:
            self._make(with_password)
        else:
            self._copy(copied_from)

    @property
    def url(self) -> str:
        """The administrator's URL."""
        return self.url_for("postgres")

    def url_for(
        self, user: str, password: str = "", *, port: int | None = None, database: str = "postgres"
    ) -> str:
        """A URL over TCP."""
        word = f":{password}" if password else ""
        return f"postgresql://{user}{word}@127.0.0.1:{port or self.port}/{database}?sslmode=disable"

    def start(self) -> None:
        """Starts and waits until it takes connections."""
        options = (
            f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=40 "
            "-c shared_buffers=16MB"
        )
        self._control("-l", self.folder / "log", "-w", "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stops: ``fast`` ends all sessions, ``immediate`` is a crash."""
        self._control("-m", mode, "-w", "stop")

    def restart(self, mode: str = "fast") -> None:
        """Stops and starts."""
        self.stop(mode)
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(RuntimeError):  # a test may have stopped it
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _make(self, with_password: tuple[str, ...]) -> None:
        options = ["-D", self._data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync"]
        _run([self._programs / "initdb", *options], self._owner)
        lines = [f"host all {user} 127.0.0.1/32 scram-sha-256" for user in with_password]
        (self._data / "pg_hba.conf").write_text(
            "\n".join(
                [
                    *lines,
                    "local all all trust",
                    "host all all all trust",
                    "host replication all all trust",
                    "",
                ]
            )
        )

    def _copy(self, other: OwnServer) -> None:
        options = [
            "-h",
            "127.0.0.1",
            "-p",
            str(other.port),
            "-U",
            "postgres",
            "-R",
            "-c",
            "fast",
            "--no-sync",
        ]
        _run([self._programs / "pg_basebackup", "-D", self._data, *options], self._owner)

    def _control(self, *words: str | Path) -> None:
        _run([self._programs / "pg_ctl", "-D", self._data, *words], self._owner)
