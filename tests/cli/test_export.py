"""``export`` and ``migrate-store``, driven as a person does."""

from __future__ import annotations

import json
import signal
import stat
from contextlib import closing
from pathlib import Path

import pytest
from fakes.processes import Running
from fakes.shell import program, run_here, run_in_terminal, run_program
from messages import assistant, user
from waiting import eventually

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.store.records import NewMessage, Part
from lcm_plugin.store.sqlite.store import SqliteStore

MAIN = Session("agent:main:main", "run-1")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "lcm.db"
    with Engine.open(LcmConfig(database=str(path), large_file_token_threshold=1_000)) as engine:
        engine.ingest(MAIN, [user("before the reset"), assistant("yes")])
        engine.reset_session(MAIN)
        engine.ingest(MAIN, [user("after it"), user("long " * 2_000)])
        engine.ingest(Session("agent:main:other:x", "run-2"), [user("elsewhere")])
    return path


def add_rows(database: Path, count: int) -> None:
    """Many messages in no time: as rows, uncounted."""
    parts = (Part(0, "text", "content", "some words " * 20),)
    with closing(SqliteStore(database)) as store, store.write() as writer:
        conversation = writer.find_conversation(MAIN)
        assert conversation is not None
        writer.append(conversation, [NewMessage("user", None, 50, n, n, parts) for n in range(count)], 1)


def test_an_export_comes_back_as_an_equal_database(database: Path, tmp_path: Path) -> None:
    file, second = tmp_path / "all.jsonl", tmp_path / "again.jsonl"
    done = run_here("export", "--output", file, "--database", database, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["conversations"], report["messages"], report["files"]) == (3, 5, 1)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    copy = tmp_path / "copy" / "lcm.db"
    taken = run_here("import", file, "--database", copy, "--apply")
    assert taken.returncode == 0, taken.stderr
    assert run_here("export", "-o", second, "--database", copy).returncode == 0
    ours, theirs = (one.read_text().splitlines()[1:] for one in (file, second))
    assert ours == theirs


def test_the_ending_names_the_format(database: Path, tmp_path: Path) -> None:
    for ending, begin in (
        (".md", "# agent:main:main\n"),
        (".html", "<!doctype html>"),
        (".jsonl", '{"lcm":"export"'),
    ):
        file = tmp_path / f"out{ending}"
        done = run_here("export", "-o", file, "--database", database)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"{file}: 3 conversations, 5 messages, ")
        assert file.read_text().startswith(begin)
    done = run_here("export", "-o", tmp_path / "out.txt", "--database", database)
    assert done.returncode == 2
    assert "names no format" in done.stderr
    assert (
        run_here("export", "-o", tmp_path / "out.txt", "-f", "markdown", "--database", database).returncode
        == 0
    )


@pytest.mark.long
def test_sessions_are_chosen_by_number_key_glob_and_state(database: Path, tmp_path: Path) -> None:
    def held(*arguments: str) -> list[str]:
        done = run_here("export", *arguments, "-o", "-", "-f", "jsonl", "--database", database)
        assert done.returncode == 0, done.stderr
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return [row["values"]["text"][:16] for row in rows if row.get("row") == "message_parts"]

    assert held("1") == ["before the reset", "yes"]
    assert held("agent:main:main")[:3] == ["before the reset", "yes", "after it"]
    assert held("agent:main:main", "--active")[0] == "after it"
    assert held("run-2") == held("agent:main:other:*") == ["elsewhere"]
    assert len(held("**")) == len(held()) == 5
    missing = run_here("export", "nobody:*", "-o", tmp_path / "x.md", "--database", database)
    assert missing.returncode == 3
    assert not (tmp_path / "x.md").exists()


def test_nothing_is_overwritten_unless_forced(database: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.md"
    file.write_text("precious")
    done = run_here("export", "-o", file, "--database", database)
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert file.read_text() == "precious"
    assert run_here("export", "-o", file, "--database", database, "--force").returncode == 0
    assert "before the reset" in file.read_text()


def test_standard_output_holds_the_export_alone(database: Path) -> None:
    done = run_program("export", "1", "-o", "-", "-f", "markdown", "--database", database)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith("# agent:main:main\n")
    assert done.stdout.endswith("yes\n\n")


def test_a_file_that_is_gone_is_told(database: Path, tmp_path: Path) -> None:
    next((database.parent / "lcm-files").glob("*/*")).unlink()
    done = run_here("export", "-o", tmp_path / "out.jsonl", "--database", database, "--json")
    assert done.returncode == 0
    assert "the bytes of 1 file are missing or damaged" in done.stderr
    assert len(json.loads(done.stdout)["missing_files"]) == 1


def test_killed_in_the_middle_no_half_file_has_the_name(database: Path, tmp_path: Path) -> None:
    add_rows(database, 6_000)
    file = tmp_path / "out.jsonl"
    child = Running(*program("export", "-o", file, "--database", database)[1:])
    eventually(lambda: any(one.stat().st_size > 100_000 for one in tmp_path.glob(".out*")))
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert not file.exists()


def test_migrate_store_copies_and_says_so(database: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "lcm.db"
    done = run_here("migrate-store", database, copy)
    assert done.returncode == 0, done.stderr
    assert f"{copy}: " in done.stdout
    assert "5 of them messages, all equal" in done.stdout
    assert "1 large file (" in done.stdout
    assert json.loads(run_here("status", "--database", copy, "--json").stdout)["messages"] == 5
    inside = json.loads(run_here("migrate-store", copy, tmp_path / "in.db", "--files", "db", "--json").stdout)
    assert inside["rows"]["messages"] == 5
    assert not (tmp_path / "lcm-files").exists()


def test_migrate_store_refuses_what_it_must(database: Path, tmp_path: Path) -> None:
    same = run_here("migrate-store", database, database)
    assert (same.returncode, "are the same database" in same.stderr) == (2, True)
    gone = run_here("migrate-store", tmp_path / "none.db", tmp_path / "copy.db")
    assert (gone.returncode, "there is no database at" in gone.stderr) == (3, True)
    assert not (tmp_path / "copy.db").exists()
    typo = run_here("migrate-store", database, "postgrse://host/agents")
    assert (typo.returncode, "postgrse://… is no database" in typo.stderr) == (2, True)
    nobody = run_here("migrate-store", database, "postgresql://127.0.0.1:1/agents")
    assert (nobody.returncode, "cannot be reached" in nobody.stderr) == (5, True)
    filled = tmp_path / "filled.db"
    with Engine.open(LcmConfig(database=str(filled))) as engine:
        engine.ingest(MAIN, [user("mine")])
    full = run_here("migrate-store", database, filled)
    assert (full.returncode, "is not empty" in full.stderr) == (2, True)


def test_a_terminal_shows_how_far_it_is(database: Path, tmp_path: Path) -> None:
    add_rows(database, 3_000)
    code, shown = run_in_terminal("migrate-store", database, tmp_path / "copy.db", columns=100)
    assert code == 0, shown
    assert "copying" in shown
    assert "rows/s" in shown
    code, shown = run_in_terminal("export", "-o", tmp_path / "out.html", "--database", database, columns=100)
    assert code == 0, shown
    assert "messages/s" in shown
