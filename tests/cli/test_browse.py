"""The reading commands, run as a person runs them, on a database that a replay made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.shell import Done, run_here
from replayed import INCIDENT, Replayed

KEY = "agent:replay:main"


def lcm(*arguments: str | Path, **environment: str) -> Done:
    return run_here(*arguments, environment=environment)


@pytest.fixture
def database(incident: Replayed) -> Path:
    return incident.database


def data(*arguments: str | Path) -> dict:
    done = lcm(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def text(*arguments: str | Path) -> list[list[str]]:
    done = lcm(*arguments)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.mark.long
def test_status_counts_what_is_there(database: Path) -> None:
    status = data("status", "--database", database)
    assert (status["messages"], status["conversations"]) == (591, 1)
    assert sum(status["summaries_by_depth"].values()) > 10
    assert any(row[1].startswith("591 messages") for row in text("status", "--database", database))


def test_status_of_one_conversation(database: Path) -> None:
    assert data("status", KEY, "--database", database)["message_count"] == 591
    assert data("status", "1", "--database", database)["session_key"] == KEY


def test_the_database_can_come_from_the_environment(database: Path) -> None:
    done = lcm("status", "--json", LCM_DATABASE_PATH=str(database))
    assert json.loads(done.stdout)["location"] == str(database)


@pytest.mark.parametrize(("glob", "found"), [("**", 1), ("agent:*:main", 1), ("agent:*", 0), (KEY, 1)])
def test_conversations_are_chosen_by_key_or_glob(database: Path, glob: str, found: int) -> None:
    assert len(data("conversations", glob, "--database", database)["conversations"]) == found


def test_a_conversation_is_named_by_number_key_session_id_or_glob(database: Path) -> None:
    for name in ("1", KEY, "replay", "agent:*:main"):
        assert data("status", name, "--database", database)["session_key"] == KEY


def test_conversations_can_be_chosen_by_when_they_were_used(database: Path) -> None:
    used = ("conversations", "--database", database)
    assert len(data(*used, "--since", "2026-01-01")["conversations"]) == 1
    assert len(data(*used, "--until", "2026-01-01")["conversations"]) == 0


def test_messages_come_in_pages_and_are_what_was_played(database: Path) -> None:
    played = [json.loads(line) for line in INCIDENT.read_text(encoding="utf-8").splitlines()]
    read: list[dict] = []
    after = 0
    while after is not None:
        page = data("messages", KEY, "--database", database, "--limit", "200", "--after", str(after))
        read += [row["message"] for row in page["messages"]]
        after = page["next"]
    assert read == played


def test_messages_can_be_chosen_by_role_and_time(database: Path) -> None:
    users = data("messages", KEY, "--database", database, "--role", "user", "--limit", "1000")
    assert len(users["messages"]) == 54
    rows = data(
        "messages", KEY, "--database", database, "--since", "2026-01-01T01:00", "--until", "2026-01-01T01:10"
    )
    assert 10 < len(rows["messages"]) < 40


def test_a_pipe_gets_tabs_and_a_hint_about_more(database: Path) -> None:
    done = lcm("messages", KEY, "--database", database, "--limit", "3")
    head, *rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert head == ["position", "id", "time", "role", "tokens", "text"]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert done.stderr == "more: --after 3\n"


def test_summaries_context_and_tree_tell_the_same_story(database: Path) -> None:
    listed = data("summaries", KEY, "--database", database, "--limit", "1000")["summaries"]
    items = data("context", KEY, "--database", database)["items"]
    tree = data("tree", KEY, "--database", database)["context"]
    assert [node["id"] for node in tree] == [item["id"] for item in items]
    reached = list(leaves(tree))
    assert reached == [f"msg_{number}" for number in range(1, 592)]
    assert {row["summary_id"] for row in listed} == set(summaries(tree))


def leaves(nodes: list) -> list[str]:
    found = []
    for node in nodes:
        if isinstance(node, str):
            found.append(node)
        elif "sources" in node:
            found += leaves(node["sources"])
        else:
            found.append(node["id"])
    return found


def summaries(nodes: list) -> list[str]:
    own = [node["id"] for node in nodes if isinstance(node, dict) and "sources" in node]
    below = [name for node in nodes if isinstance(node, dict) for name in summaries(node.get("sources", []))]
    return own + below


def test_summaries_can_be_listed_by_depth(database: Path) -> None:
    rows = data("summaries", KEY, "--database", database, "--depth", "1")["summaries"]
    assert rows
    assert {row["depth"] for row in rows} == {1}


def test_the_drawn_tree_fits_and_can_be_widened(database: Path) -> None:
    narrow = lcm("tree", KEY, "--database", database, "--levels", "1").stdout
    wide = lcm("tree", KEY, "--database", database, "--levels", "9", "--branches", "99").stdout
    assert len(narrow.splitlines()) < len(wide.splitlines())
    assert wide.count("leaf") == data("status", "--database", database)["summaries_by_depth"]["0"]


def test_show_prints_messages_and_summaries_in_full(database: Path) -> None:
    shown = data("show", "msg_2", "--database", database)
    assert shown["message"]["content"].startswith("Pager just went")
    first = data("summaries", KEY, "--database", database, "--limit", "1")["summaries"][0]
    assert lcm("show", first["summary_id"], "--database", database).stdout == first["content"] + "\n"


@pytest.mark.long
def test_a_reader_that_closes_the_pipe_early_is_no_error(database: Path) -> None:
    command = f"{sys.executable} -c 'from lcm_plugin.cli import main; main()' messages {KEY} -d {database} --limit 5000"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} | head -n 1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("show", "msg_99999"), 3, "no message msg_99999"),
        (("show", "sum_0000000000000000"), 3, "no summary sum_0000000000000000"),
        (("messages", "agent:nobody"), 3, "no conversation 'agent:nobody'"),
        (("messages", "agent:x*"), 3, "no conversation"),
        (("messages", KEY, "--since", "yesterday-ish"), 2, "is no time"),
        (("messages", KEY, "--limit", "0"), 2, "--limit"),
        (("messages",), 2, "CONVERSATION"),
        (("sing",), 2, "sing"),
    ],
)
def test_errors_name_what_is_wrong(
    database: Path, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    done = lcm(*arguments, "--database", database) if arguments != ("sing",) else lcm(*arguments)
    assert done.returncode == code
    assert complaint in done.stderr
    assert done.stdout == ""


def test_a_database_that_is_not_there_is_a_database_error_and_is_not_made(tmp_path: Path) -> None:
    done = lcm("status", "--database", tmp_path / "none.db")
    assert done.returncode == 5
    assert "none.db" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_reading_commands_write_nothing_and_work_beside_a_writer(database: Path) -> None:
    before = database.read_bytes()
    for name in ("status", "conversations"):
        assert lcm(name, "--database", database).returncode == 0
    assert database.read_bytes() == before


def test_it_starts_fast_since_it_loads_nothing_but_its_own_options() -> None:
    code = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
        "from lcm_plugin.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=True
    )
    loaded = done.stderr.split()
    assert len(loaded) < 300
    assert {"sqlite3", "pydantic", "asyncio", "lcm_plugin.engine", "lcm_plugin.config"}.isdisjoint(loaded)
