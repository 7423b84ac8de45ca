"""Running ``lcm`` as a person does: in this process where that is enough, or as a program of its own."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import struct
import sys
import termios
import threading
from collections.abc import Mapping
from pathlib import Path

import typer.main
import typer.testing

from fakes.processes import Done, Running, run

# The runner would build all fifty commands anew for each run: a tenth of a second.
typer.testing._get_command = functools.cache(typer.main.get_command)  # type: ignore[attr-defined]


def run_here(*arguments: str | Path, environment: Mapping[str, str] | None = None, stdin: str = "") -> Done:
    """Runs a command in this process: the same code without the cost of a new interpreter."""
    from lcm_plugin.cli.app import app

    result = typer.testing.CliRunner().invoke(
        app, list(map(str, arguments)), env=dict(environment or {}), input=stdin
    )
    return Done(result.exit_code, result.stdout, result.stderr)


def program(*arguments: str | Path) -> list[str]:
    """The command line of ``lcm`` as a program of its own."""
    return [sys.executable, "-c", "from lcm_plugin.cli import main; main()", *map(str, arguments)]


def run_program(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, stdin: str = ""
) -> Done:
    """Runs a command as a program of its own, without a terminal."""
    return run(*program(*arguments)[1:], env=environment, stdin=stdin)


def run_in_terminal(*arguments: str | Path, columns: int = 80) -> tuple[int, str]:
    """Runs a command as a program in a pseudo-terminal; its exit code and all that it wrote there."""
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns)}
    screen, chunks = os.ttyname(follower), []

    def read() -> None:
        # Reading fails once nobody holds the other end any more.
        with contextlib.suppress(OSError):
            while chunk := os.read(leader, 65_536):
                chunks.append(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    words = program(*arguments)[1:]
    code = Running(*words, env=environment, stdin=screen, stdout=screen, stderr=screen).wait()
    os.close(follower)
    reader.join()
    os.close(leader)
    return code, b"".join(chunks).decode("utf-8", "replace")
