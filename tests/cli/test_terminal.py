"""In a real terminal: a progress bar while it runs, output that fits, nothing that steers the terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fakes.shell import run_here, run_in_terminal

INCIDENT = Path(__file__).resolve().parents[2] / "examples" / "incident.jsonl"
KEY = "agent:replay:main"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("terminal")
    rows = [json.loads(line) for line in INCIDENT.read_text(encoding="utf-8").splitlines()[:150]]
    rows.append(
        {"role": "user", "content": "a bell \x07 and a red \x1b[31mword\x1b[0m and \x1b]0;a title\x07"}
    )
    transcript = folder / "t.json"
    transcript.write_text(json.dumps(rows), encoding="utf-8")
    done = run_here("replay", transcript, "--database", folder / "a.db", "--budget", "8000", "--json")
    assert done.returncode == 0, done.stderr
    return folder / "a.db"


def lines(output: str) -> list[str]:
    return ESCAPES.sub("", output).replace("\r", "").splitlines()


def test_a_replay_shows_its_progress_with_rate_and_remaining_time() -> None:
    code, output = run_in_terminal("replay", INCIDENT, columns=100)
    assert code == 0
    assert "replaying" in output
    assert re.search(r"\d+/591", output)
    assert re.search(r"messages/s", output)
    assert re.search(r"\d:\d\d:\d\d", output)
    assert "came back byte for byte" in output


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "columns"),
    [("messages", 60), ("messages", 140), ("summaries", 60), ("tree", 60), ("status", 60)],
)
def test_output_fits_the_terminal(database: Path, name: str, columns: int) -> None:
    code, output = run_in_terminal(name, KEY, "--database", database, columns=columns)
    assert code == 0
    assert len(lines(output)) > 2
    assert max(map(len, lines(output))) <= columns


def test_stored_text_cannot_steer_the_terminal(database: Path) -> None:
    for arguments in (("messages", KEY, "--after", "150"), ("describe", "msg_151")):
        code, output = run_in_terminal(*arguments, "--database", database, columns=120)
        assert code == 0
        assert "bell" in output
        assert "\x07" not in output
        assert "\x1b[31m" not in output
        assert "\x1b]0;" not in output


@pytest.mark.long
def test_help_names_every_command_with_examples() -> None:
    code, output = run_in_terminal("--help", columns=100)
    assert code == 0
    for name in ("status", "messages", "tree", "grep", "ask", "backup", "config", "replay"):
        assert name in output
        assert "Example" in run_here(name, "--help").stdout or name == "config"
