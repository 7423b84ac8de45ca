"""The systemd units of the pages, by systemd's own check, and their commands by the program's."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from lcm_plugin.cli.app import app

DOCS = Path(__file__).resolve().parents[2] / "docs"
UNIT = re.compile(r"^# ~/\.config/systemd/user/(\S+)\n(.*?)(?=^# ~|^```)", re.MULTILINE | re.DOTALL)
UNITS = {
    name: text for page in sorted(DOCS.glob("*.md")) for name, text in UNIT.findall(page.read_text("utf-8"))
}


def commands(text: str) -> list[str]:
    """The calls of ``lcm`` in a unit, with ``today`` for what a shell puts in."""
    lines = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    called = (found[1].strip("'") for line in lines if (found := re.search(r"/lcm (.*)$", line)))
    return [re.sub(r"\$\(.*\)", "today", words) for words in called]


def test_the_pages_have_units_for_a_worker_a_nightly_copy_and_imports() -> None:
    assert {"lcm-worker.service", "lcm-nightly.service", "lcm-nightly.timer", "lcm-import.timer"} <= set(
        UNITS
    )


@pytest.mark.parametrize("name", [name for name in UNITS if name.endswith(".service")])
def test_a_units_commands_take_their_arguments(name: str) -> None:
    program: Any = get_command(app)
    for words in map(shlex.split, commands(UNITS[name])):
        with program.commands[words[0]].make_context(words[0], words[1:]) as context:
            assert context.info_name == words[0]
    assert commands(UNITS[name])


def complaints(folder: Path, units: dict[str, str]) -> list[str]:
    """What systemd's check says of units; `lcm` is where they look for it."""
    for place in (".venv/bin", ".local/bin"):
        (folder / place).mkdir(parents=True, exist_ok=True)
        (folder / place / "lcm").write_text("#!/bin/sh\n", encoding="utf-8")
        (folder / place / "lcm").chmod(0o755)
    for name, text in units.items():
        (folder / name).write_text(text.replace("%h", str(folder)), encoding="utf-8")
    command = ["systemd-analyze", "verify", "--user", *(str(folder / name) for name in units)]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return [line for line in done.stderr.splitlines() if any(name in line for name in units)]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    assert complaints(tmp_path, UNITS) == []
    wrong = UNITS["lcm-worker.service"].replace("on-failure", "sometimes")
    assert complaints(tmp_path, {"lcm-wrong.service": wrong}) != []
