"""The figures of the README stand with the command, the version and the data that they were measured with."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from lcm_plugin.cli.app import app
from lcm_plugin.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EVALUATION = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
SECTION = README.partition("## Measured\n")[2].partition("\n## ")[0]
FIGURE = re.compile(r"\d[\d,.]*")


def rows() -> list[list[str]]:
    """The cells of each row: what, with the plugin, without it, command, data."""
    lines = [line for line in SECTION.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_table_names_the_version_that_it_was_measured_with() -> None:
    assert f"`{VERSION}`" in SECTION
    assert len(rows()) >= 5


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_each_figure_has_a_command_that_can_be_run_and_the_page_of_evaluations_has_it(row: list[str]) -> None:
    _, *figures, command, data = row
    words = shlex.split(command.strip("`"))
    assert words[:2] == ["lcm", "eval"]
    program: Any = get_command(app)
    group = program.commands["eval"]
    with group.commands[words[2]].make_context(words[2], words[3:]) as context:
        seed = context.params.get("seed")
    if data.startswith("seed"):
        assert data == f"seed {seed}"
    else:
        assert re.search(rf"\b{data.strip('`')}[0-9a-f]{{56}}\b", EVALUATION)
    assert command in EVALUATION
    for figure in FIGURE.findall(" ".join(figures)):
        assert re.search(rf"(?<![\d,.]){re.escape(figure)}(?![\d,]|\.\d)", EVALUATION), figure
