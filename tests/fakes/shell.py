"""Running ``lcm`` as a person does: in this process where that is enough, or as a program of its own."""

from __future__ import annotations

import subprocess
import sys
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
