"""``lcm import`` from the command line: a dry run first, clear refusals, progress in a terminal."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
import zstandard
from fakes.shell import run_here, run_in_terminal
from peer_databases import claw_database
from session_logs import ClaudeLog, CodexLog

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.messages.merging import COUNTS

FIXTURES = Path(__file__).with_name("fixtures")
BOOK = FIXTURES / "openai.jsonl"


def test_without_apply_nothing_is_written(tmp_path: Path) -> None:
    done = run_here("import", FIXTURES / "claude-code.jsonl", "-v", "-d", tmp_path / "lcm.db")
    assert done.returncode == 0, done.stderr
    assert "would store\t15 messages, 1 summary and 6 records" in done.stdout
    assert "branch\tagent:claude-code:claude-code\t2\t0" in done.stdout
    assert "Nothing was written" in done.stdout
    assert not list(tmp_path.iterdir())


def test_apply_stores_and_a_dry_run_then_knows_it(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    done = run_here("import", BOOK, "--apply", "-d", database, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["applied"] is True
    assert report["files"][0]["new"] == 6
    assert report["files"][0]["sessions"][0]["key"] == "agent:openai:openai"
    again = json.loads(run_here("import", BOOK, "-d", database, "--json").stdout)
    assert (again["files"][0]["new"], again["files"][0]["known"]) == (0, 6)
    found = run_here("grep", "table", "--in", "agent:openai:openai", "-d", database)
    assert "Book a" in found.stdout


def test_only_an_import_of_megabytes_counts_with_tables(tmp_path: Path) -> None:
    COUNTS.release()
    rows = [{"role": "user", "content": f"The harbour opens at {hour}."} for hour in range(24)]
    small, large = tmp_path / "small.jsonl", tmp_path / "large.jsonl"
    small.write_text("".join(json.dumps(row) + "\n" for row in rows))
    large.write_text(json.dumps({"role": "user", "content": "x " * 2_100_000}) + "\n")
    stored = {}
    for path, with_tables in ((small, False), (large, True)):
        done = run_here("import", path, "--apply", "-d", tmp_path / "lcm.db", "--json")
        assert done.returncode == 0, done.stderr
        assert COUNTS.has_tables == with_tables
        stored[path.name] = json.loads(done.stdout)["files"][0]["new"]
    COUNTS.release()
    assert stored == {"small.jsonl": 24, "large.jsonl": 1}


def test_broken_lines_are_refused_unless_they_are_to_be_skipped(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text('{"role": "user", "content": "fine"}\n{"role": \n')
    refused = run_here("import", path, "--apply", "-d", tmp_path / "lcm.db")
    assert refused.returncode == 2
    assert "talk.jsonl, line 2: broken JSON" in refused.stderr
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as engine:
        assert not list(engine.library.conversations())
    skipped = run_here("import", path, "--apply", "--broken", "skip", "-d", tmp_path / "lcm.db")
    assert skipped.returncode == 0, skipped.stderr
    assert "broken\t1 place cannot be read" in skipped.stdout
    assert "stored\t1 message and 0 records beside the talk" in skipped.stdout


def test_a_dry_run_over_broken_lines_exits_as_an_import_would(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text('{"role": "user", "content": "fine"}\n{"role": \n')
    looked = run_here("import", path, "-d", tmp_path / "lcm.db")
    stored = run_here("import", path, "--apply", "-d", tmp_path / "lcm.db")
    assert looked.returncode == stored.returncode == 2
    assert "talk.jsonl, line 2: broken JSON" in looked.stderr
    assert "would store\t1 message" in looked.stdout
    assert run_here("import", path, "--broken", "skip", "-d", tmp_path / "lcm.db").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.jsonl"], "there is no such file"),
        ([str(BOOK), "--format", "csv"], "unknown format 'csv'"),
        ([str(FIXTURES / "conversations.json"), "--session", "one"], "put {id} into it"),
    ],
)
def test_wrong_arguments_are_named(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = run_here("import", *arguments, "-d", tmp_path / "lcm.db")
    assert done.returncode == 2
    assert words in done.stderr


def test_several_files_and_kinds_in_one_go(tmp_path: Path) -> None:
    claw_database(tmp_path / "claw.db")
    done = run_here("import", tmp_path / "claw.db", FIXTURES, "--apply", "-d", tmp_path / "lcm.db", "--json")
    assert done.returncode == 0, done.stderr
    files = json.loads(done.stdout)["files"]
    assert sorted({one["format"] for one in files}) == [
        "chatgpt",
        "claude-code",
        "codex",
        "lossless-claw",
        "openai",
        "openclaw",
    ]
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as engine:
        assert engine.check().ok
        assert engine.messages(Session("agent:main:telegram:42"))


def test_a_folder_is_reported_in_seven_lines_and_in_full_on_demand(tmp_path: Path) -> None:
    done = run_here("import", FIXTURES, "-d", tmp_path / "lcm.db")
    assert len(done.stdout.splitlines()) <= 7
    assert "6 files: 7 sessions, 5 branches, 2 sub-agents" in done.stdout
    full = run_here("import", FIXTURES, "-v", "-d", tmp_path / "lcm.db")
    assert "file\tformat\tmessages\trecords\tknown\tconversations\tbroken" in full.stdout
    assert f"{FIXTURES / 'codex.jsonl'}\tcodex\t10\t9\t0\t2\t0" in full.stdout


def test_a_run_that_finds_nothing_new_prints_one_line(tmp_path: Path) -> None:
    first = run_here("import", FIXTURES, "--apply", "-d", tmp_path / "lcm.db")
    assert len(first.stdout.splitlines()) <= 7
    again = run_here("import", FIXTURES, "--apply", "-d", tmp_path / "lcm.db")
    assert (again.stdout, again.stderr) == ("Nothing new in 6 files: 75 rows here already.\n", "")


def test_a_file_in_which_no_row_speaks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text('{"type": "system", "uuid": "a", "sessionId": "s"}\n')
    for options in ([], ["--apply"]):
        refused = run_here("import", path, *options, "-d", tmp_path / "lcm.db")
        assert refused.returncode == 2
        assert f"{path}: read as claude-code, none of its 1 records is a message" in refused.stderr
    (tmp_path / "talk.jsonl").write_text('{"role": "user", "content": "words"}\n')
    done = run_here("import", tmp_path, "--apply", "-d", tmp_path / "db" / "lcm.db")
    assert "1 file without a message" in done.stdout
    with Engine.open(LcmConfig(database=str(tmp_path / "db" / "lcm.db"))) as engine:
        assert [one.session_key for one in engine.library.conversations()] == ["agent:openai:talk"]


def test_files_that_hold_no_talk_are_left_out_of_a_folder_with_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "talk.jsonl").write_bytes(b'\xef\xbb\xbf{"role": "user", "content": "words"}\r\n')
    odd: dict[str, tuple[bytes, str]] = {
        "blank.jsonl": (b"\n \n", "it is empty"),
        "latin.jsonl": (b'{"role": "user", "content": "caf\xe9"}\n', "not UTF-8 text at byte 32"),
        "nested.jsonl": (b"[" * 100_000, "broken JSON on line 1"),
        "package.json": (b'{"name": "app"}', "no format known"),
        "chat.json": (b'{"requests": [], "responderUsername": "GitHub Copilot"}', "chats of Copilot"),
        "0.json": (b'{"source": "user", "action": "message"}', "events of OpenHands"),
        "broken.zip": (b"PK\x03\x04", "no format known"),
    }
    for name, (data, _) in odd.items():
        (folder / name).write_bytes(data)
    done = run_here("import", folder, "-v", "--apply", "-d", tmp_path / "lcm.db")
    assert done.returncode == 0, done.stderr
    assert "stored\t1 message" in done.stdout
    assert "7 files of no known format" in done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("left out, ")]
    assert len(lines) == len(odd)
    for name, (_, why) in odd.items():
        (line,) = [line for line in lines if line.endswith(name)]
        assert why in line


def test_a_running_session_does_not_hold_back_its_folder(tmp_path: Path) -> None:
    log = ClaudeLog(tmp_path / "in" / "s1.jsonl")
    log.user("Move the tables")
    half = log.path.with_name("s2.jsonl")
    half.write_bytes(log.path.read_bytes() + b'{"type": "user", "uuid": "s1-2", "messa')
    done = run_here("import", tmp_path / "in", "--apply", "-d", tmp_path / "lcm.db", "--json")
    assert done.returncode == 0, done.stderr
    files = json.loads(done.stdout)["files"]
    assert [(one["messages"], one["broken_count"], one["unfinished_line"]) for one in files] == [
        (1, 0, None),
        (0, 0, 2),
    ]
    log.assistant("Moved.")
    half.write_bytes(log.path.read_bytes())
    again = run_here("import", half, "--apply", "-d", tmp_path / "lcm.db", "--json")
    assert json.loads(again.stdout)["files"][0]["messages"] == 1


def test_a_terminal_shows_rate_and_remaining_time(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text(
        "".join(json.dumps({"role": "user", "content": f"m {n} " * 50}) + "\n" for n in range(1_200))
    )
    code, output = run_in_terminal("import", path, "--apply", "-d", tmp_path / "lcm.db", columns=100)
    assert code == 0
    assert re.search(r"importing .*\d+/1200", output)
    assert "records/s" in output
    assert re.search(r"\d:\d\d:\d\d", output)


def test_a_pipe_shows_no_progress(tmp_path: Path) -> None:
    done = run_here("import", BOOK, "--apply", "-d", tmp_path / "lcm.db")
    assert done.stderr == ""


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_compressed_export_of_this_package_goes_back(tmp_path: Path, kind: str) -> None:
    first, second, file = tmp_path / "a.db", tmp_path / "b.db", tmp_path / "all.jsonl"
    run_here("import", FIXTURES / "openclaw.jsonl", "--apply", "-d", first)
    assert run_here("export", "--output", file, "-d", first).returncode == 0
    packed = tmp_path / "in" / f"all.jsonl.{kind}"
    packed.parent.mkdir()
    data = file.read_bytes()
    packed.write_bytes(gzip.compress(data) if kind == "gz" else zstandard.compress(data))
    done = run_here("import", packed.parent, "--apply", "-d", second)
    assert done.returncode == 0, done.stderr
    assert "stored\t2 conversations" in done.stdout
    session = Session("agent:openclaw:b7300bff")
    with (
        Engine.open(LcmConfig(database=str(first))) as one,
        Engine.open(LcmConfig(database=str(second))) as other,
    ):
        assert one.messages(session) == other.messages(session)


def test_two_tools_are_found_in_one_command(tmp_path: Path) -> None:
    claude = ClaudeLog(tmp_path / ".claude" / "projects" / "-work" / "s1.jsonl")
    claude.user("hello")
    codex = CodexLog(tmp_path / ".codex" / "sessions" / "2026" / "11" / "02" / "rollout-x-019a.jsonl")
    codex.meta("019a")
    codex.turn("hello", "Hello.")
    folders = tmp_path / ".claude" / "projects", tmp_path / ".codex" / "sessions"
    done = run_here("import", *folders, "--apply", "-d", tmp_path / "lcm.db", "--json")
    assert [one["format"] for one in json.loads(done.stdout)["files"]] == ["claude-code", "codex"]


def test_a_search_finds_what_a_fork_copied_once(tmp_path: Path) -> None:
    log = CodexLog(tmp_path / "in" / "rollout-2026-11-02T00-00-00-019a-t.jsonl")
    meta = log.meta("019a-t")
    log.turn("mark the cranes", "Marked.")
    fork = CodexLog(tmp_path / "in" / "rollout-2026-11-02T00-01-00-019b-f.jsonl", 60)
    fork.meta("019b-f", forked_from_id="019a-t")
    fork.line("session_meta", **meta["payload"])
    fork.turn("mark the cranes", "Marked.")
    fork.turn("paint the ships", "Painted.")
    done = run_here("import", tmp_path / "in", "--apply", "-d", tmp_path / "lcm.db")
    assert done.returncode == 0, done.stderr
    assert "1 session, 1 fork" in done.stdout
    for words in ("cranes", "ships"):
        found = json.loads(run_here("grep", words, "-d", tmp_path / "lcm.db", "--json").stdout)
        assert len(found["hits"]) == 1


def test_an_export_of_this_package_goes_back_as_it_was(tmp_path: Path) -> None:
    first, second, file = tmp_path / "a.db", tmp_path / "b.db", tmp_path / "all.jsonl"
    run_here("import", FIXTURES / "openclaw.jsonl", "--apply", "-d", first)
    exported = run_here("export", "--output", file, "-d", first)
    assert exported.returncode == 0, exported.stderr
    looked = run_here("import", file, "-d", second)
    assert "would store\t2 conversations" in looked.stdout
    assert not second.exists()
    done = run_here("import", file, "--apply", "-d", second)
    assert "stored\t2 conversations" in done.stdout
    again = run_here("import", file, "--apply", "-d", second)
    assert "known\t2 conversations are here already" in again.stdout
    session = Session("agent:openclaw:b7300bff")
    with (
        Engine.open(LcmConfig(database=str(first))) as one,
        Engine.open(LcmConfig(database=str(second))) as other,
    ):
        assert one.messages(session) == other.messages(session)
        assert one.context_items(session) == other.context_items(session)
