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
RANKED = ("all", "recalled")
"""Which messages fit a request is weighed anew with every change of the search: a tenth more or less is no news."""
PICTURE = README.partition("```console\n")[2].partition("```")[0]


def tokens_of(cell: str) -> int:
    return int(cell.replace(",", ""))


def test_the_readme_shows_what_its_commands_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    replay, context = (shlex.split(line[2:])[1:] for line in PICTURE.splitlines() if line.startswith("$"))

    report = json.loads(run_here(*replay, "--json").stdout)
    shown = run_here(*context).stdout

    printed = [line.split("\t") for line in shown.splitlines()[1:]]
    lines = [line.strip() for line in PICTURE.splitlines() if not line.startswith("$")]
    pictured = [re.split(r"  +", line) for line in lines[1:]]
    said = f"the README's picture is not what its commands print:\n{shown}"
    assert [cells[1] for cells in printed] == [cells[1] for cells in pictured], said
    for (tokens, layer, what), cells in zip(pictured, printed, strict=True):
        if layer in RANKED:
            assert tokens_of(tokens) == pytest.approx(tokens_of(cells[0]), rel=0.1), said
        else:
            # A terminal cuts the last column short.
            assert (tokens, cells[2].startswith(what.removesuffix("…"))) == (cells[0], True), said
    assert f"All {report['recovered_through_summaries']} messages below the summaries" in README
