"""``lcm context``: the items of the active context, and what the calls of earlier turns were given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fakes.shell import Done, run_here
from messages import assistant, user

from lcm_plugin import Engine, LcmConfig, Session

TALK = Session("agent:main:talk")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    place = tmp_path / "a.db"
    with Engine.open(LcmConfig(database=str(place))) as engine:
        for text in ("What of the lantern?", "And the harbour?"):
            engine.ingest(TALK, [user(text)])
            engine.assemble(TALK, 8_000)
            engine.ingest(TALK, [assistant("Noted.")])
    return place


def lcm(database: Path, *arguments: str) -> Done:
    return run_here("context", TALK.key, "--database", database, *arguments)


def data(database: Path, *arguments: str) -> Any:
    done = lcm(database, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_turns_are_listed_newest_first(database: Path) -> None:
    listed = data(database, "--turns")["turns"]
    assert [(one["turn"], one["text"]) for one in listed] == [
        (2, "And the harbour?"),
        (1, "What of the lantern?"),
    ]
    assert listed[0]["same"] == listed[1]["tokens"]
    assert [row.split("\t")[0] for row in lcm(database, "--turns").stdout.splitlines()[1:]] == ["2", "1"]


def test_a_turn_is_shown_with_what_changed_since_the_one_before(database: Path) -> None:
    found = data(database, "--turn", "2")
    assert [one["id"] for one in found["items"]] == ["msg_1", "msg_2", "msg_3"]
    assert [(one["first"], one["last"]) for one in found["difference"]["came"]] == [("msg_2", "msg_3")]
    shown = lcm(database, "--turn", "2").stdout
    assert "for msg_3" in shown
    assert "since turn 1: " in shown
    assert "it came since then" in shown


def test_why_is_answered_for_a_turn_and_for_the_next_call(database: Path) -> None:
    assert (
        "msg_3 is not in view: it came after this call"
        in lcm(database, "--turn", "1", "--why", "msg_3").stdout
    )
    assert "msg_3 is in view" in lcm(database, "--why", "msg_3").stdout
    assert "msg_9 is not in view: there is no msg_9" in lcm(database, "--why", "msg_9").stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--turn", "7"), "turn 7 is not on record; there are 1 to 2"),
        (("--against", "1"), "with --turn"),
        (("--brief",), "with --turn"),
    ],
)
def test_what_cannot_be_shown_is_named(database: Path, arguments: tuple[str, ...], named: str) -> None:
    done = lcm(database, *arguments)
    assert (done.returncode != 0, named in done.stderr) == (True, True), done.stderr
