"""Hits, talks and messages as people read them in a terminal; what a shell completes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.shell import run_here, run_in_terminal
from messages import assistant, call, result, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.cli import completion
from lcm_plugin.cli.errors import DATABASE, NOT_FOUND, USAGE

KEY = "agent:main:harbour"
STYLES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("reading") / "a.db"
    with Engine.open(LcmConfig(database=str(place))) as engine:
        session = Session(KEY)
        engine.ingest(session, [user("Where do the ferries go?"), call("c1", "timetable", '{"line": 7}')])
        engine.ingest(session, [result("c1", "line 7: quay 3"), assistant("They leave from **quay 3**.")])
        engine.ingest(session, [user("word " * 200 + "the zanzibar crane " + "word " * 200)])
        engine.ingest(session, [assistant("It is broken.")])
        engine.call_tool(session, "lcm_grep", {"pattern": "zanzibar"})  # brings the index up to date
    return place


def plain(*arguments: str | Path, columns: int = 80) -> tuple[int, list[str]]:
    code, output = run_in_terminal(*arguments, columns=columns)
    return code, [line.rstrip() for line in STYLES.sub("", output).splitlines()]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_hit_is_a_heading_and_its_passage_with_neighbours(database: Path, columns: int) -> None:
    code, output = run_in_terminal("grep", "zanzibar", "--database", database, columns=columns)
    lines = [line.rstrip() for line in STYLES.sub("", output).splitlines()]
    assert code == 0
    heading = next(line for line in lines if "msg_5" in line)
    assert heading.startswith("Where do")
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d  user  msg_5$", heading)
    assert "\x1b[1;33mzanzibar\x1b[0m" in output
    assert any(line.startswith("  assistant: It is broken") for line in lines)
    assert max(map(len, lines)) <= columns


def test_the_match_stands_in_the_middle_of_a_long_passage(database: Path) -> None:
    _, lines = plain("grep", "zanzibar", "--database", database)
    passage = " ".join(line.strip() for line in lines if "word" in line or "zanzibar" in line)
    before, _, after = passage.partition("zanzibar")
    assert before.startswith("…")
    assert min(len(before), len(after)) > 60


def test_nothing_found_is_said_and_may_be_an_exit_code(database: Path) -> None:
    silent = run_here("grep", "qqzzqq", "--database", database)
    assert (silent.returncode, silent.stdout, silent.stderr.strip()) == (0, "", "nothing found")
    assert run_here("grep", "qqzzqq", "--exit-code", "--database", database).returncode == 1
    assert run_here("grep", "zanzibar", "--exit-code", "--database", database).returncode == 0
    as_json = run_here("grep", "qqzzqq", "--exit-code", "--json", "--database", database)
    assert (as_json.returncode, json.loads(as_json.stdout)["hits"]) == (1, [])


def test_a_pipe_gets_lines_with_tabs(database: Path) -> None:
    lines = run_here("grep", "zanzibar", "--database", database).stdout.splitlines()
    assert lines[0].split("\t") == ["id", "time", "who", "text"]
    assert lines[1].startswith("msg_5\t")


def test_a_talk_is_rendered_with_a_line_for_each_call(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", "cat")
    code, lines = plain("talk", KEY, "--database", database)
    text = "\n".join(lines)
    assert code == 0
    assert re.search(r"^user  \d\d:\d\d:\d\d  msg_1$", text, re.MULTILINE)
    assert '  calls timetable {"line": 7}' in lines
    assert "  result of timetable line 7: quay 3" in lines
    assert "They leave from quay 3." in text
    assert text.index("msg_1") < text.index("msg_6")


def test_a_talk_opens_round_a_message(database: Path) -> None:
    done = run_here("talk", KEY, "--around", "msg_2", "--limit", "2", "--database", database)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"msg_\d", done.stdout) == ["msg_2", "msg_3"]
    assert "▶" in done.stdout
    answer = json.loads(run_here("talk", KEY, "--limit", "1", "--json", "--database", database).stdout)
    assert [one["id"] for one in answer["messages"]] == ["msg_6"]
    assert run_here("talk", KEY, "--around", "msg_99", "--database", database).returncode == NOT_FOUND
    assert run_here("talk", KEY, "--around", "x", "--database", database).returncode == USAGE
    assert run_here("talk", "nobody", "--database", database).returncode == NOT_FOUND


def test_a_message_is_shown_as_text_and_as_json_on_demand(database: Path, tmp_path: Path) -> None:
    assert run_here("show", "msg_4", "--database", database).stdout == "They leave from **quay 3**.\n"
    shown = run_here("show", "msg_2", "--database", database).stdout
    assert shown == '[calls timetable]\n{\n  "line": 7\n}\n'
    stored = json.loads(run_here("show", "msg_2", "--json", "--database", database).stdout)
    assert stored["message"]["tool_calls"][0]["function"]["arguments"] == '{"line": 7}'
    assert "session key\tagent:main:harbour" in run_here("show", "1", "--database", database).stdout
    with Engine.open(LcmConfig(database=str(tmp_path / "b.db"), large_file_token_threshold=1_000)) as engine:
        engine.ingest(Session(KEY), [user("long " * 4_000 + "the end")])
    assert run_here("show", "msg_1", "--database", tmp_path / "b.db").stdout.endswith("long the end\n")


def test_a_damaged_file_names_what_rescues_it(database: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.db"
    shutil.copy(database, damaged)
    damaged.write_bytes(b"this is no database" * 1_000)
    done = run_here("status", "--database", damaged)
    assert done.returncode == DATABASE
    assert f"lcm rescue {damaged}" in done.stderr


def test_one_is_never_written_as_several(database: Path, tmp_path: Path) -> None:
    copy = tmp_path / "a.db"
    shutil.copy(database, copy)
    done = run_here("worker", "--until-idle", "--database", copy)
    assert done.returncode == 0
    for command in (("compact", KEY), ("compact", KEY, "--due"), ("worker", "--until-idle")):
        text = run_here(*command, "--database", copy).stdout
        assert not re.search(r"\b1 (?:passes|compactions|new summaries|integrity checks|tokens)\b", text)


def test_a_shell_completes_sessions_ids_and_settings(database: Path, tmp_path: Path) -> None:
    here = SimpleNamespace(params={"database": str(database)})
    assert completion.sessions(here, "agent:m") == [KEY]
    assert completion.sessions(here, "x") == []
    assert completion.ids(here, "agent:") == [KEY]
    assert completion.ids(here, "sum_") == completion.stored_ids(here, "file_") == []
    assert completion.ids(here, "msg_")[0].startswith("msg_")
    assert completion.stored_ids(here, "msg_") == completion.ids(here, "msg_")
    assert completion.ids(here, "agent:m") == [KEY]
    assert "leafChunkTokens" in completion.settings("leaf")
    full = SimpleNamespace(params={"database": str(tmp_path / "full.db")})
    small = {"large_file_token_threshold": 1_000, "leaf_min_fanout": 2, "fresh_tail_count": 2}
    with Engine.open(LcmConfig(database=full.params["database"], **small)) as engine:
        engine.ingest(Session(KEY), [user("word " * 3_000), *(user(f"number {n}") for n in range(20))])
        engine.compact(Session(KEY), force=True, budget=1_000)
    for kind in ("sum_", "file_"):
        [one, *_] = found = completion.stored_ids(full, kind)
        assert all(ref.startswith(kind) for ref in found)
        assert completion.ids(full, one[:-2]) == [one]
    nowhere = SimpleNamespace(params={"database": str(tmp_path / "none.db")})
    assert completion.sessions(nowhere, "") == []
