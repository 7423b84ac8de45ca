"""What disks, other processes and other programs do to a database file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pluggy
import pytest
from fakes.processes import FORKS, run
from fakes.shell import run_here
from messages import assistant, user
from old_schema import take_back

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.errors import StoreBusy, StoreUnavailable
from lcm_plugin.plugin import register
from lcm_plugin.store.records import NewMessage, Part
from lcm_plugin.store.sqlite.store import SqliteStore
from lcm_plugin.types import Turn

Open = Callable[..., Engine]
SETTINGS: dict[str, Any] = {"fresh_tail_count": 4, "leaf_chunk_tokens": 300, "leaf_target_tokens": 64}


def fill(engine: Engine, session: Session, count: int = 30) -> list[str]:
    texts = [f"bed {number}: water the lilies, " + "slowly " * 30 for number in range(count)]
    engine.ingest(session, [user(text) for text in texts])
    return texts


def locks_of(*paths: Path) -> int:
    """How many POSIX locks this process holds on files, as the kernel lists them."""
    inodes = {path.stat().st_ino for path in paths if path.exists()}
    held = 0
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.replace("-> ", "").split()
        if fields[1] == "POSIX" and fields[4] == str(os.getpid()) and int(fields[5].split(":")[2]) in inodes:
            held += 1
    return held


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the kernel lists no locks here")
def test_no_command_drops_a_lock_on_the_live_file(
    open_engine: Open, session: Session, tmp_path: Path
) -> None:
    engine = open_engine(**SETTINGS)
    fill(engine, session)
    engine.compact(session, force=True)
    # A sample of the rows, which reads behind the compaction, holds a lock that it gives back.
    assert engine.wait_idle(60)
    database = tmp_path / "lcm.db"
    files = (database, tmp_path / "lcm.db-shm")
    database.chmod(0o640)
    with engine.store.read() as reader:
        reader.conversations()
        before = locks_of(*files)
        assert before > 0
        actions: list[Callable[[], object]] = [
            engine.check,
            engine.backup,
            lambda: engine.repair(engine.plan_repairs(engine.check())),
            *(
                lambda text=text: engine.command(session, f"/lcm {text}")
                for text in ("status", "doctor", "doctor apply delete", "backup", "config")
            ),
            lambda: engine.call_tool(session, "lcm_grep", {"pattern": "lilies"}),
        ]
        for action in actions:
            action()
            assert locks_of(*files) >= before, action
    assert database.stat().st_mode & 0o077 == 0


def prints(folder: Path) -> dict[str, tuple[str, int]]:
    """Hash and time of change of each file but SQLite's shared memory, which holds no data."""
    return {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.iterdir()
        if path.is_file() and not path.name.endswith("-shm")
    }


@pytest.mark.parametrize("running", [False, True], ids=["at rest", "with a log that a host left"])
def test_a_dry_run_leaves_no_trace(
    running: bool, open_engine: Open, session: Session, tmp_path: Path
) -> None:
    engine = open_engine(**SETTINGS)
    fill(engine, session)
    folder = tmp_path / "copied"
    folder.mkdir()
    if not running:
        engine.close()
    for name in ("lcm.db", "lcm.db-wal"):
        if (tmp_path / name).exists():
            shutil.copy(tmp_path / name, folder / name)
    (folder / "lcm.db").chmod(0o400)
    assert (folder / "lcm.db-wal").exists() == running
    before, names = prints(folder), {path.name for path in folder.iterdir()}
    done = run_here("doctor", "--database", str(folder / "lcm.db"), "--json")
    assert done.returncode == 0, done.output
    assert {finding["code"] for finding in json.loads(done.stdout)["findings"]} <= {"lane_stale"}
    assert prints(folder) == before
    if not running:
        assert {path.name for path in folder.iterdir()} == names


def test_a_full_disk_is_named_stores_no_half_turn_and_passes(tmp_path: Path) -> None:
    child = Path(__file__).with_name("storage_child.py")
    done = run(child, tmp_path / "lcm.db")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["said"].startswith("StoreUnavailable: ")
    assert "lcm.db" in told["said"]
    assert told["during"] == 1
    assert told["texts"] == ["before", "after"]
    assert told["findings"] == []
    assert told["asked"] == 0


def test_a_log_deleted_after_a_crash_loses_its_turns_and_nothing_else(
    open_engine: Open, session: Session, tmp_path: Path
) -> None:
    engine = open_engine(**SETTINGS)
    texts = fill(engine, session)
    engine.close()
    engine = open_engine(**SETTINGS)
    engine.ingest(session, [user("only in the log")])
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    shutil.copy(tmp_path / "lcm.db", crashed / "lcm.db")  # the log was deleted with the process
    with Engine.open(LcmConfig(database=str(crashed / "lcm.db"), **SETTINGS)) as survivor:
        assert survivor.check().ok
        assert [message["content"] for message in survivor.messages(session)] == texts
        survivor.ingest(session, [*(user(text) for text in texts), user("only in the log")], "sync")
        assert [message["content"] for message in survivor.messages(session)] == [*texts, "only in the log"]


def test_a_log_deleted_under_a_running_host_is_told_and_nothing_acknowledged_is_lost(
    open_engine: Open, session: Session, tmp_path: Path
) -> None:
    engine = open_engine(**SETTINGS)
    texts = fill(engine, session)
    (tmp_path / "lcm.db-wal").unlink()
    assert "log_missing" in {finding.code for finding in engine.check().findings}
    engine.ingest(session, [user("after that")])
    engine.close()
    again = open_engine(**SETTINGS)
    assert [message["content"] for message in again.messages(session)] == [*texts, "after that"]
    assert again.check().ok


def test_a_writer_held_up_longer_than_the_busy_timeout_holds_no_host_up(tmp_path: Path) -> None:
    path, lane = tmp_path / "lcm.db", Session("agent:main:held")
    manager = pluggy.PluginManager("lcm")
    plugin = register(manager, LcmConfig(database=str(path), busy_timeout_ms=200))
    manager.hook.before_turn(turn=Turn(lane, [user("one")], mode="append", window=8_000))
    events: list[str] = []
    plugin.engine.subscribe(lambda event: events.append(event.name))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    manager.hook.after_turn(turn=Turn(lane, [assistant("uno")], mode="append", window=8_000))
    manager.hook.session_end(session=lane, reason="shutdown")
    manager.hook.before_turn(turn=Turn(lane, [user("two")], mode="append", window=8_000))
    assert time.monotonic() - began < 30
    assert "ingest.waiting" in events
    other.execute("ROLLBACK")
    other.close()
    manager.hook.before_turn(turn=Turn(lane, [user("three")], mode="append", window=8_000))
    stored = [message["content"] for message in plugin.engine.messages(lane)]
    assert stored == ["one", "uno", "two", "three"]
    plugin.close()


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE messages_fts_data SET block = zeroblob(length(block))",
        "DELETE FROM messages_trigram_idx; DELETE FROM messages_trigram_data",
        "DROP TABLE index_state",
    ],
)
def test_a_broken_full_text_index_blocks_no_message_and_is_built_again(
    harm: str, open_engine: Open, session: Session, tmp_path: Path
) -> None:
    engine = open_engine(**SETTINGS)
    fill(engine, session)
    engine.call_tool(session, "lcm_grep", {"pattern": "lilies"})
    damage = sqlite3.connect(tmp_path / "lcm.db", isolation_level=None)
    damage.executescript(harm)
    damage.close()
    engine.ingest(session, [user("a rare word: marigold")])
    assert engine.compact(session, force=True).compacted
    assert engine.messages(session)[-1]["content"] == "a rare word: marigold"
    found = engine.call_tool(session, "lcm_grep", {"pattern": "marigold"})
    assert found["hits"]
    engine.doctor.mend(engine.check, None)
    assert engine.check().findings == ()
    assert engine.call_tool(session, "lcm_grep", {"pattern": "marigold"})["hits"]


def make_older(path: Path) -> sqlite3.Connection:
    """Gives the database an older schema."""
    take_back(path, "integrity_jobs")
    return sqlite3.connect(path, isolation_level=None)


def test_a_migration_that_another_process_holds_up_gives_up_in_time_and_works_later(
    open_engine: Open, session: Session, tmp_path: Path
) -> None:
    engine = open_engine(**SETTINGS)
    fill(engine, session, 3)
    engine.close()
    path = tmp_path / "lcm.db"
    other = make_older(path)
    other.execute("BEGIN IMMEDIATE")
    config = LcmConfig(database=str(path), busy_timeout_ms=100, **SETTINGS)
    with pytest.raises(StoreBusy):
        Engine.open(config)
    other.execute("ROLLBACK")
    other.close()
    assert list(tmp_path.glob("*.bak")) == []
    with Engine.open(config) as later:
        assert len(later.messages(session)) == 3
        assert later.check().ok


def test_tools_answer_before_the_first_message(engine: Engine, session: Session) -> None:
    found = engine.call_tool(session, "lcm_grep", {"pattern": "anything"})
    assert found["hits"] == []
    assert engine.check().findings == ()
    assert engine.command(session, "/lcm doctor").ok


def test_no_copy_is_begun_without_room_for_it(
    open_engine: Open, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(**SETTINGS)
    fill(engine, session)
    damage = sqlite3.connect(tmp_path / "lcm.db", isolation_level=None)
    damage.execute("UPDATE conversations SET raw_tokens = raw_tokens + 1")
    plan = engine.plan_repairs(engine.check())
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=4_096))
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(StoreUnavailable, match="a copy needs"):
        engine.repair(plan)
    assert {path.name for path in tmp_path.iterdir()} == before
    assert "counters" in {finding.code for finding in engine.check().findings}


def test_the_log_stays_small_after_much_was_written(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "lcm.db")
    for number, size in enumerate((40_000_000, 40_000_000, 1, 1)):
        row = NewMessage("user", None, 1, number, number, (Part(0, "text", "content", "x" * size),))
        with store.write() as writer:
            writer.append(writer.open_conversation(Session("k"), 1), [row], 1)
    assert (tmp_path / "lcm.db-wal").stat().st_size <= 64 * 1024 * 1024
    store.close()


def start_and_count(path: str, start: Any, told: Any) -> None:
    start.wait()
    with Engine.open(LcmConfig(database=path, busy_timeout_ms=20_000)) as engine:
        told.put(len(engine.messages(Session("agent:main:main"))))


def test_processes_that_start_together_on_an_older_database_migrate_it_once(
    open_engine: Open, session: Session, tmp_path: Path
) -> None:
    engine = open_engine(**SETTINGS)
    fill(engine, session, 3)
    engine.close()
    path = tmp_path / "lcm.db"
    make_older(path).close()
    start, told = FORKS.Event(), FORKS.Queue()
    processes = [FORKS.Process(target=start_and_count, args=(str(path), start, told)) for _ in range(3)]
    for process in processes:
        process.start()
    start.set()
    assert [told.get(timeout=60) for _ in processes] == [3, 3, 3]
    for process in processes:
        process.join()
    assert len(list(tmp_path.glob("*.bak"))) == 1
