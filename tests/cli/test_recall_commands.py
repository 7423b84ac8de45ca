"""``grep, describe, expand, ask`` on a database that a replay made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes.shell import Done, run_here
from replayed import INCIDENT, Replayed

KEY = "agent:replay:main"


@pytest.fixture
def database(incident: Replayed) -> Path:
    return incident.database


def data(database: Path, *arguments: str) -> dict:
    done = run_here(*arguments, "--database", database, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run(database: Path, *arguments: str) -> Done:
    return run_here(*arguments, "--database", database)


@pytest.mark.long
def test_grep_finds_what_was_summarised_away(database: Path) -> None:
    hits = data(database, "grep", "poison message idempotency_key null")["hits"]
    assert hits
    assert any("7f3e-90ac-41d2" in hit["snippet"] for hit in hits)


def test_grep_takes_regular_expressions_roles_and_one_conversation(database: Path) -> None:
    hits = data(database, "grep", "-E", r"rf_[0-9a-f]{10}", "--role", "tool", "--in", KEY, "--limit", "200")[
        "hits"
    ]
    assert len(hits) == 37
    assert {hit["role"] for hit in hits} == {"tool"}


def test_grep_prints_one_line_a_hit(database: Path) -> None:
    done = run(database, "grep", "EDGE-2093", "--limit", "3")
    head, *rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert head == ["id", "time", "who", "text"]
    assert 1 <= len(rows) <= 3
    assert all(len(row) == 4 for row in rows)


def test_describe_prints_a_message_word_for_word(database: Path) -> None:
    played = [json.loads(line) for line in INCIDENT.read_text(encoding="utf-8").splitlines()]
    assert played[7]["content"] in run(database, "describe", "msg_8").stdout


def test_expand_opens_a_leaf_down_to_its_messages(database: Path) -> None:
    listed = run_here("summaries", KEY, "--depth", "0", "--limit", "1", "--database", database, "--json")
    leaf = json.loads(listed.stdout)["summaries"][0]["summary_id"]
    opened = data(database, "expand", leaf, "--cap", "2000")
    assert "msg_2" in json.dumps(opened)


def test_ask_without_a_model_gives_passages_with_ids(database: Path) -> None:
    answer = data(database, "ask", "What was the id of the poison message?")
    assert answer["evidence"]
    assert all(row["id"].startswith(("msg_", "sum_")) for row in answer["evidence"])
    assert "7f3e-90ac-41d2" in json.dumps(answer)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("describe", "msg_99999"), 3),
        (("describe", "nonsense"), 2),
        (("expand", "sum_0000000000000000"), 3),
        (("grep", "-E", "(unclosed"), 2),
        (("grep", "x", "--scope", "everywhere"), 2),
        (("grep", "x", "--in", "agent:nobody"), 3),
    ],
)
def test_errors_have_their_exit_code_and_one_line(
    database: Path, arguments: tuple[str, ...], code: int
) -> None:
    done = run(database, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.count("\n") == 1
