"""``lcm edit``: from an argument, a file, standard input or the editor; and back."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_talk import turns
from typer.testing import CliRunner

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.cli.app import app
from lcm_plugin.cli.commands import edit

GOOD = "Notes on the harbour, a lantern, copper and the ferry, which a person put in better words."


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = str(tmp_path / "lcm.db")
    with Engine.open(LcmConfig(database=path, fresh_tail_count=4, leaf_min_fanout=2)) as engine:
        engine.ingest(Session("agent:main:main"), turns(20))
        engine.compact(Session("agent:main:main"), force=True)
    return path


def lcm(*words: str, code: int = 0, stdin: str = "") -> Any:
    answer = CliRunner().invoke(app, list(words), input=stdin)
    assert answer.exit_code == code, answer.output
    return answer


def test_edits_come_from_everywhere_and_go_back(database: str, tmp_path: Path) -> None:
    on = ("--database", database)
    listed = json.loads(lcm("summaries", "agent:main:main", *on, "--json").stdout)["summaries"]
    name, first = listed[0]["summary_id"], listed[0]["content"]
    said = lcm("edit", name, GOOD, *on).stdout
    assert "has its new text" in said
    shown = lcm("show", name, *on)
    assert shown.stdout.strip() == GOOD
    assert "changed by" in shown.stderr
    assert lcm("show", name, "--text", "1", *on).stdout.strip() == first.strip()
    lcm("show", name, "--text", "9", *on, code=3)
    (tmp_path / "better.md").write_text(f"{GOOD} From a file.")
    data = json.loads(lcm("edit", name, "--file", str(tmp_path / "better.md"), *on, "--json").stdout)
    assert (data["id"], data["level"]) == (name, "person")
    lcm("edit", name, "--file", "-", *on, stdin=f"{GOOD} From a pipe.")
    stored = json.loads(lcm("show", name, *on, "--json").stdout)
    assert stored["content"] == f"{GOOD} From a pipe."
    assert [one["content"] for one in stored["earlier"]] == [first, GOOD, f"{GOOD} From a file."]
    lcm("edit", name, "--back", "--to", "2", *on)
    lcm("edit", name, "--back", *on)
    assert lcm("show", name, *on).stdout.strip() == first.strip()


def test_the_editor_opens_with_the_present_text(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = ("--database", database)
    (found,) = json.loads(lcm("summaries", "agent:main:main", *on, "--json").stdout)["summaries"]
    editor, seen = tmp_path / "editor", tmp_path / "seen"
    editor.write_text(f'#!/bin/sh\ncp "$1" {seen}\nprintf %s "{GOOD}" > "$1"\n')
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    assert "an editor opens in a terminal only" in lcm("edit", found["summary_id"], *on, code=2).stderr
    monkeypatch.setattr(edit, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    lcm("edit", found["summary_id"], *on)
    assert seen.read_text() == found["content"]
    assert lcm("show", found["summary_id"], *on).stdout.strip() == GOOD
    monkeypatch.setenv("VISUAL", "false")
    assert "ended with code 1: nothing was changed" in lcm("edit", found["summary_id"], *on, code=2).stderr
    monkeypatch.setenv("VISUAL", str(tmp_path / "missing"))
    assert "cannot be started" in lcm("edit", found["summary_id"], *on, code=2).stderr


WRONG = [
    (("sum_0000000000000000", "A text."), 3, "there is no summary sum_0000000000000000"),
    (("sum_0000000000000000", "A text.", "--back"), 2, "only one of them"),
    (("sum_0000000000000000", "A text.", "--to", "1"), 2, "--to belongs to --back"),
    (("sum_0000000000000000", "--file", "/no/such/file"), 2, "/no/such/file cannot be read"),
]


@pytest.mark.parametrize(("words", "code", "told"), WRONG)
def test_what_is_wrong_is_told(database: str, words: tuple[str, ...], code: int, told: str) -> None:
    assert told in " ".join(lcm("edit", *words, "--database", database, code=code).stderr.split())
