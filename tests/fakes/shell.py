"""Running ``lcm`` as a person does: in this process where that is enough, or as a program of its own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner


@dataclass(frozen=True)
class Done:
    """How a command ended and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def run_here(*arguments: str | Path, environment: Mapping[str, str] | None = None, stdin: str = "") -> Done:
    """Runs a command in this process: the same code without the cost of a new interpreter."""
    from lcm_plugin.cli.app import app

    result = CliRunner().invoke(app, list(map(str, arguments)), env=dict(environment or {}), input=stdin)
    return Done(result.exit_code, result.stdout, result.stderr)


def program(*arguments: str | Path) -> list[str]:
    """The command line of ``lcm`` as a program of its own."""
    return [sys.executable, "-c", "from lcm_plugin.cli import main; main()", *map(str, arguments)]


def run_program(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs a command as a program of its own, without a terminal."""
    return subprocess.run(
        program(*arguments),
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run_in_terminal(*arguments: str | Path, columns: int = 80) -> tuple[int, str]:
    """Runs a command as a program in a pseudo-terminal; its exit code and all that it wrote there."""
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns)}
    child = subprocess.Popen(
        program(*arguments), stdin=follower, stdout=follower, stderr=follower, env=environment, close_fds=True
    )
    os.close(follower)
    chunks = []
    # Reading fails once the program, the last one to hold the other end, has ended.
    with contextlib.suppress(OSError):
        while chunk := os.read(leader, 65_536):
            chunks.append(chunk)
    os.close(leader)
    return child.wait(timeout=60), b"".join(chunks).decode("utf-8", "replace")
