"""What is particular to one SQLite file: modes, pragmas, schema, several processes."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from fakes.processes import FORKS
from messages import assistant, user
from old_schema import take_back

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.errors import SchemaError, StoreBusy, StoreUnavailable
from lcm_plugin.store.records import NewMessage, Part
from lcm_plugin.store.sqlite.rescue import rescue
from lcm_plugin.store.sqlite.schema import SCHEMA_VERSION
from lcm_plugin.store.sqlite.store import SqliteStore
from lcm_plugin.types import Session


def append(store: SqliteStore, count: int, key: str = "k") -> None:
    for number in range(count):
        row = NewMessage("user", None, 1, number, number, (Part(0, "text", "content", "x"),))
        with store.write() as writer:
            writer.append(writer.open_conversation(Session(key), 1), [row], 1)


def test_the_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "deep" / "lcm.db")
    append(store, 1)
    for path in (tmp_path / "deep").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    store.close()


@pytest.mark.parametrize(("durability", "synchronous"), [("normal", 1), ("full", 2)])
def test_pragmas(tmp_path: Path, durability: str, synchronous: int) -> None:
    store = SqliteStore(tmp_path / "lcm.db", durability=durability, busy_timeout_ms=1_234)
    with store.write() as writer:
        values = {
            name: writer.db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "foreign_keys", "journal_size_limit")
        }
    with store.read() as view:
        values["busy_timeout"] = view.db.execute("PRAGMA busy_timeout").fetchone()[0]
    store.close()
    assert values == {
        "journal_mode": "wal",
        "synchronous": synchronous,
        "foreign_keys": 1,
        "busy_timeout": 1_234,
        "journal_size_limit": 64 * 1024 * 1024,
    }


def test_a_second_open_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    SqliteStore(path).close()
    before = path.read_bytes()
    SqliteStore(path).close()
    assert path.read_bytes() == before


def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    SqliteStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name) VALUES ('lcm', 'of_next_year')"
        )
    connection.close()
    with pytest.raises(SchemaError, match=r"of_next_year.*update"):
        SqliteStore(path)


def test_a_database_of_the_last_version_that_kept_its_number_twice_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    with closing(SqliteStore(path)) as store:
        append(store, 2)
    take_back(path, "plain_conditions")
    with closing(SqliteStore(path)) as store, store.read() as reader:
        conversation = reader.find_conversation(Session("k"))
        assert conversation is not None
        assert len(reader.messages(conversation.conversation_id, limit=9)) == 2
    assert (tmp_path / f"lcm.db.before-schema-{SCHEMA_VERSION}.bak").exists()
    with closing(sqlite3.connect(path)) as connection:
        # That version reads this number, and refuses what it does not know.
        assert connection.execute("PRAGMA user_version").fetchone()[0] > 5


@pytest.mark.parametrize("rescued", [False, True])
def test_rows_of_an_older_version_say_where_a_user_speaks(tmp_path: Path, rescued: bool) -> None:
    path = tmp_path / "lcm.db"
    used = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
    given = {"type": "tool_result", "tool_use_id": "c1", "content": "r"}
    with Engine.open(LcmConfig(database=str(path))) as engine:
        engine.ingest(Session("k"), [user("look"), assistant([used]), user([given])])
        engine.ingest(Session("k"), [assistant([used]), user([given, {"type": "text", "text": "and hurry"}])])
        engine.ingest(Session("k"), [user([given])])
    take_back(path, "speaks")
    if rescued:
        rescue(str(path), str(tmp_path / "new.db"))
        path = tmp_path / "new.db"
    store = SqliteStore(path)
    with store.read() as reader:
        spoken = [head.seq for head in reader.heads(1, limit=10) if head.speaks]
        newest = reader.newest_user(1)
    store.close()
    assert spoken == [1, 5]
    assert newest is not None
    assert newest.seq == 5


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("conversations WHERE session_key = 'k' AND active", "conversations_active_key"),
        (
            "messages WHERE conversation_id = 1 AND speaks AND NOT hidden ORDER BY seq DESC",
            "messages_user",
        ),
        ("summaries WHERE conversation_id = 1 AND fallback", "summaries_fallback"),
    ],
)
def test_a_condition_finds_its_partial_index(tmp_path: Path, query: str, index: str) -> None:
    path = tmp_path / "lcm.db"
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN SELECT * FROM {query} LIMIT 1").fetchall()  # noqa: S608
    assert index in plan[0][3]


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(SchemaError, match="another program"):
        SqliteStore(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 100)
    with pytest.raises(StoreUnavailable, match=r"notes\.txt"):
        SqliteStore(path)
    assert path.read_text().startswith("not a database")


def test_a_path_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="cannot be opened: Not a directory"):
        SqliteStore(tmp_path / "file" / "lcm.db")


def test_a_read_only_store_reads_and_refuses_writes(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    writer = SqliteStore(path)
    append(writer, 2)
    reader = SqliteStore(path, read_only=True)
    with reader.read() as view:
        assert view.conversations()[0].message_count == 2
    with pytest.raises(StoreUnavailable, match="read-only"), reader.write():
        pass
    reader.close()
    writer.close()
    with pytest.raises(StoreUnavailable, match="no database"):
        SqliteStore(tmp_path / "missing.db", read_only=True)


def test_a_read_transaction_cannot_write(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "lcm.db")
    with pytest.raises(StoreUnavailable), store.read() as view:
        view.open_conversation(Session("k"), 1)
    store.close()


def test_a_lock_held_by_another_writer_ends_in_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    store = SqliteStore(path, busy_timeout_ms=50)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match="try again"), store.write():
        pass
    other.execute("ROLLBACK")
    other.close()
    append(store, 1)
    store.close()


def test_a_writer_that_waits_looks_for_the_lock_every_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lcm.db"
    store = SqliteStore(path, busy_timeout_ms=60_000)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 50:
            other.execute("ROLLBACK")

    monkeypatch.setattr("lcm_plugin.store.sqlite.connection.time.sleep", sleep)
    append(store, 1)
    # In step, two that wait would always look at the same moment.
    assert len(pauses) == len(set(pauses)) == 50
    assert max(pauses) <= 0.002
    other.close()
    store.close()


def test_a_backup_is_a_whole_database(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "lcm.db")
    append(store, 5)
    copy = SqliteStore(store.backup(str(tmp_path / "copy.db")), read_only=True)
    with copy.read() as view:
        assert view.conversations()[0].message_count == 5
    assert stat.S_IMODE(os.stat(tmp_path / "copy.db").st_mode) == 0o600
    with pytest.raises(StoreUnavailable, match="exists already"):
        store.backup(str(tmp_path / "copy.db"))
    copy.close()
    store.close()


def _start_and_append(path: str, number: int, start: object) -> None:
    start.wait()  # type: ignore[attr-defined]
    store = SqliteStore(path, busy_timeout_ms=30_000)
    append(store, 100, key=f"k{number % 2}")
    store.close()


def test_eight_processes_start_together_on_a_missing_file(tmp_path: Path) -> None:
    path = str(tmp_path / "lcm.db")
    start = FORKS.Event()
    processes = [FORKS.Process(target=_start_and_append, args=(path, n, start)) for n in range(8)]
    for process in processes:
        process.start()
    start.set()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 8
    store = SqliteStore(path)
    with store.read() as view:
        assert sum(row.message_count for row in view.conversations()) == 800
        assert view.db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    store.close()
