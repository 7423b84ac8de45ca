"""``backup`` and ``restore``: the database with its files, and the way back."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest
from fakes.shell import run_here
from messages import assistant, user
from old_schema import take_back

from lcm_plugin import Engine, LcmConfig, Session

MAIN = Session("agent:main:main", "run-1")
LONG = "".join(f"line {number} of a long text\n" for number in range(2_000))
SETTINGS = {"large_file_token_threshold": 1_000}


def opened(path: Path) -> Engine:
    return Engine.open(LcmConfig(database=str(path), **SETTINGS))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "lcm.db"
    with opened(path) as engine:
        engine.ingest(MAIN, [user("first"), user(LONG), assistant("yes"), user(LONG.upper())])
    return path


def payloads(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*/*") if path.is_file())


def test_a_backup_holds_the_files_and_opens_by_itself(database: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copies" / "b.db"
    done = run_here("backup", copy, "--database", database, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["files"], report["missing"]) == (2, [])
    assert report["file_bytes"] == 2 * len(LONG)
    files = payloads(Path(f"{copy}.files"))
    assert len(files) == 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    shutil.rmtree(database.parent)
    with opened(copy) as engine:
        assert [message["content"] for message in engine.messages(MAIN)] == [
            "first",
            LONG,
            "yes",
            LONG.upper(),
        ]
        assert engine.check().ok


def test_on_one_disk_files_take_no_space_of_their_own(database: Path) -> None:
    written = Path(json.loads(run_here("backup", "--database", database, "--json").stdout)["path"])
    assert written.parent == database.parent
    ours, theirs = payloads(database.with_name("lcm-files")), payloads(Path(f"{written}.files"))
    assert [path.stat().st_ino for path in ours] == [path.stat().st_ino for path in theirs]


def test_on_another_disk_files_are_copied(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_disk(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    # What a link across two disks answers; everything else is as it is.
    monkeypatch.setattr(os, "link", other_disk)
    copy = tmp_path / "b.db"
    assert run_here("backup", copy, "--database", database).returncode == 0
    ours, theirs = payloads(database.with_name("lcm-files")), payloads(Path(f"{copy}.files"))
    assert [path.read_bytes() for path in ours] == [path.read_bytes() for path in theirs]
    assert [path.stat().st_ino for path in ours] != [path.stat().st_ino for path in theirs]


def test_a_file_that_is_damaged_already_is_told_and_left_out(database: Path, tmp_path: Path) -> None:
    victim = payloads(database.with_name("lcm-files"))[0]
    victim.write_bytes(b"something else")
    done = run_here("backup", tmp_path / "b.db", "--database", database, "--json")
    assert done.returncode == 0
    assert "bytes of 1 file were missing or damaged already" in done.stderr
    assert len(json.loads(done.stdout)["missing"]) == 1
    assert len(payloads(tmp_path / "b.db.files")) == 1


def test_a_backup_is_never_overwritten(database: Path, tmp_path: Path) -> None:
    copy = tmp_path / "b.db"
    Path(f"{copy}.files").mkdir()
    done = run_here("backup", copy, "--database", database)
    assert done.returncode == 5
    assert not copy.exists()


@pytest.mark.long
def test_a_backup_is_of_one_moment_while_a_host_writes(database: Path, tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        with opened(database) as engine:
            number = 0
            while not stop.is_set():
                number += 1
                engine.ingest(MAIN, [user(f"{number} " + LONG), assistant(f"answer {number}")])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(4):
            assert run_here("backup", tmp_path / f"{number}.db", "--database", database).returncode == 0
    finally:
        stop.set()
        writer.join()
    for number in range(4):
        done = run_here("restore", tmp_path / f"{number}.db", "--check", "--json")
        assert done.returncode == 0, done.stdout
        assert json.loads(done.stdout)["ok"]


def test_restore_brings_a_lost_database_back(database: Path, tmp_path: Path) -> None:
    copy = tmp_path / "b.db"
    run_here("backup", copy, "--database", database)
    shutil.rmtree(database.parent)
    done = run_here("restore", copy, "--database", database)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{database}: 4 messages, 2 files\n"
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    shutil.rmtree(f"{copy}.files")
    copy.unlink()
    with opened(database) as engine:
        assert engine.messages(MAIN)[1]["content"] == LONG
        engine.ingest(MAIN, [user("and on")])
        assert engine.check().ok


def test_a_copy_of_an_older_version_is_brought_up_to_date_and_stays_as_it_is(
    database: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "old.db"
    run_here("backup", copy, "--database", database)
    take_back(copy, "integrity_jobs")
    before = copy.read_bytes()
    checked = run_here("restore", copy, "--check")
    assert (checked.returncode, checked.stdout) == (0, f"{copy} is whole: 4 messages\n"), checked.stderr
    shutil.rmtree(database.parent)
    done = run_here("restore", copy, "--database", database)
    assert (done.returncode, done.stdout) == (0, f"{database}: 4 messages, 2 files\n"), done.stderr
    assert copy.read_bytes() == before
    assert not list(tmp_path.glob(".lcm-restore-*"))
    with opened(database) as engine:
        assert engine.messages(MAIN)[1]["content"] == LONG
        assert engine.check().ok


@pytest.mark.long
def test_restore_replaces_a_database_only_when_told_and_keeps_what_was_there(
    database: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "b.db"
    run_here("backup", copy, "--database", database)
    with opened(database) as engine:
        engine.ingest(MAIN, [user("written since")])
    refused = run_here("restore", copy, "--database", database)
    assert refused.returncode == 2
    assert "exists already; --force replaces it" in refused.stderr
    with opened(database) as running:
        assert len(running.messages(MAIN)) == 5
        done = run_here("restore", copy, "--database", database, "--force", "--json")
        assert done.returncode == 0, done.stderr
        assert len(running.messages(MAIN)) == 4
        running.ingest(MAIN, [user("goes on")])
        assert running.check().ok
    saved = json.loads(done.stdout)["saved"]
    with opened(Path(saved)) as engine:
        assert engine.messages(MAIN)[-1] == user("written since")


def test_a_copy_that_is_not_whole_is_not_restored(database: Path, tmp_path: Path) -> None:
    copy = tmp_path / "b.db"
    run_here("backup", copy, "--database", database)
    victim = payloads(Path(f"{copy}.files"))[0]
    victim.unlink()
    checked = run_here("restore", copy, "--check", "--json")
    assert checked.returncode == 1
    assert not json.loads(checked.stdout)["ok"]
    done = run_here("restore", copy, "--database", database, "--force")
    assert done.returncode == 1
    assert "is not whole, so nothing was restored" in done.stdout
    with opened(database) as engine:
        assert engine.check().ok


def test_what_is_no_copy_is_refused(database: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as db, db:
        db.execute("CREATE TABLE things (name TEXT)")
    assert run_here("restore", other, "--database", database, "--force").returncode == 5
    (tmp_path / "text.db").write_text("not a database at all, but long enough to be looked at" * 30)
    assert run_here("restore", tmp_path / "text.db", "--check").returncode == 5
    assert run_here("restore", tmp_path / "none.db").returncode == 3
    same = run_here("restore", database, "--database", database, "--force")
    assert same.returncode == 2
    assert run_here("restore", database, "--database", "postgresql:///x").returncode == 2
    with opened(database) as engine:
        assert len(engine.messages(MAIN)) == 4


@pytest.mark.parametrize("choice", ["rewrite", "delete"])
def test_what_is_redacted_is_gone_from_a_backups_files_too(database: Path, choice: str) -> None:
    with opened(database) as engine:
        engine.ingest(MAIN, [user(f"{LONG} the key is zebra-4711-zebra {LONG}")])
    copy = Path(json.loads(run_here("backup", "--database", database, "--json").stdout)["path"])
    everything = [database.with_name("lcm-files"), Path(f"{copy}.files")]
    holding = [
        path for folder in everything for path in payloads(folder) if b"zebra-4711" in path.read_bytes()
    ]
    assert len(holding) == 2
    done = run_here(
        "redact",
        "--literal",
        "zebra-4711-zebra",
        "--apply",
        "--confirm",
        "redact",
        "--copies",
        choice,
        "-d",
        database,
    )
    assert done.returncode == 0, done.stderr
    left = [
        path for path in database.parent.rglob("*") if path.is_file() and b"zebra-4711" in path.read_bytes()
    ]
    assert left == []
    assert copy.exists() is (choice == "rewrite")
    assert everything[1].exists() is (choice == "rewrite")
    if choice == "rewrite":
        checked = run_here("restore", copy, "--check")
        assert checked.returncode == 0, checked.stdout
