"""The context that the README opens with is what its two commands print."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from fakes.shell import run_here

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURE = README.partition("```console\n")[2].partition("```")[0]


def test_the_readme_shows_what_its_commands_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    replay, context = (shlex.split(line[2:])[1:] for line in PICTURE.splitlines() if line.startswith("$"))

    report = json.loads(run_here(*replay, "--json").stdout)
    shown = run_here(*context).stdout

    printed = [line.split("\t") for line in shown.splitlines()]
    pictured = [re.split(r"  +", line.strip()) for line in PICTURE.splitlines() if not line.startswith("$")]
    for line, cells in zip(pictured, printed, strict=True):
        # A terminal cuts the last column short.
        assert cells[:2] == line[:2], f"the README's picture is not what its commands print:\n{shown}"
        assert cells[2].startswith(line[2].removesuffix("…"))
    assert f"All {report['recovered_through_summaries']} messages below the summaries" in README
