"""The database file is deleted or replaced while hosts have it open: nothing that was acknowledged is gone."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import textwrap
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from fakes.processes import run

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.errors import StoreUnavailable
from lcm_plugin.events import Event
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import Turn

LANE = Session("agent:main:main", "run-1")


def say(engine: Engine, first: int, count: int, session: Session = LANE) -> list[str]:
    """Stores messages one by one and returns their texts."""
    texts = [f"message {number}" for number in range(first, first + count)]
    for text in texts:
        assert engine.ingest(session, [{"role": "user", "content": text}]).stored == 1
    return texts


def stored(database: Path | str, session: Session = LANE) -> list[str]:
    """The texts that a fresh engine finds, after a whole check."""
    with Engine.open(LcmConfig(database=str(database))) as engine:
        assert engine.check().ok
        return [message["content"] for message in engine.messages(session)]


def remove_name(database: Path) -> None:
    database.unlink()


def remove_all(database: Path) -> None:
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()


def remove_folder(database: Path) -> None:
    shutil.rmtree(database.parent)


def rename_all(database: Path) -> None:
    (database.parent / "elsewhere").mkdir()
    for path in list(database.parent.glob(f"{database.name}*")):
        path.rename(database.parent / "elsewhere" / path.name)


@pytest.mark.parametrize("remove", [remove_name, remove_all, remove_folder, rename_all])
def test_a_deleted_database_is_written_again_whole(tmp_path: Path, remove: Callable[[Path], None]) -> None:
    database = tmp_path / "data" / "lcm.db"
    with Engine.open(LcmConfig(database=str(database))) as engine:
        events: list[Event] = []
        engine.subscribe(events.append)
        said = say(engine, 0, 60)
        remove(database)
        said += say(engine, 60, 5)
        assert [event.name for event in events if event.name == "store.moved"] == ["store.moved"]
        (notice,) = engine.assemble(LANE).notices
        assert "deleted while it was in use" in notice
        assert engine.assemble(LANE).notices == ()
        other = Session("agent:main:other")
        assert notice in engine.command(other, "/lcm status").text
        assert notice not in engine.command(other, "/lcm status").text
        assert database.stat().st_mode & 0o777 == 0o600
    assert stored(database) == said
    assert [path.name for path in database.parent.glob(".*")] == []


def test_a_database_deleted_after_the_last_message_is_written_again_at_the_end(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    with Engine.open(LcmConfig(database=str(database))) as engine:
        said = say(engine, 0, 60)
        remove_all(database)
    assert stored(database) == said


def test_a_deleted_database_is_written_again_before_a_read(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    with Engine.open(LcmConfig(database=str(database))) as engine:
        said = say(engine, 0, 3)
        remove_all(database)
        assert [message["content"] for message in engine.messages(LANE)] == said
        assert database.exists()


def test_what_was_acknowledged_after_a_deletion_survives_a_kill(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    program = f"""
        import os, signal
        from pathlib import Path
        from lcm_plugin import Engine, LcmConfig, Session
        engine = Engine.open(LcmConfig(database={str(database)!r}))
        for number in range(40):
            if number == 20:
                for path in Path({str(tmp_path)!r}).glob("lcm.db*"):
                    path.unlink()
            engine.ingest(Session("k"), [{{"role": "user", "content": f"message {{number}}"}}])
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = run("-c", textwrap.dedent(program))
    assert done.returncode == -signal.SIGKILL
    assert stored(database, Session("k")) == [f"message {number}" for number in range(40)]


@pytest.mark.parametrize("log_stays", [True, False])
def test_a_backup_renamed_over_the_database(tmp_path: Path, log_stays: bool) -> None:
    """Today's messages go into the file that stands there; what the old one held is kept beside it."""
    database, backup = tmp_path / "lcm.db", tmp_path / "backup.db"
    with Engine.open(LcmConfig(database=str(database))) as engine:
        said = say(engine, 0, 20)
        engine.backup(str(backup))
        lost = say(engine, 20, 40)
        os.replace(backup, database)
        if not log_stays:
            for ending in ("-wal", "-shm"):
                Path(f"{database}{ending}").unlink()
        later = say(engine, 60, 401)
        (notice,) = engine.assemble(LANE).notices
        (copy,) = engine.store.copies()
        assert copy in notice
        assert "40 of its messages are newer" in notice
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert stored(database) == [*said, *later]
    assert stored(copy) == [*said, *lost]
    assert Path(copy).stat().st_mode & 0o777 == 0o600


def test_another_database_in_the_place_is_not_shown_the_old_ones_texts(tmp_path: Path) -> None:
    """Ids of the new file mean other rows than they did in the old one."""
    database, other = tmp_path / "lcm.db", tmp_path / "other.db"
    with Engine.open(LcmConfig(database=str(other))) as engine:
        engine.ingest(LANE, [{"role": "user", "content": "the tulips are red"}] * 2)
    with Engine.open(LcmConfig(database=str(database))) as engine:
        engine.ingest(LANE, [{"role": "user", "content": "my secret plan"}] * 2)
        assert "secret" in str(engine.assemble(LANE).messages)
        os.replace(other, database)
        engine.ingest(LANE, [{"role": "user", "content": "and the roses"}])
        shown = str(engine.assemble(LANE).messages)
        assert "secret" not in shown
        assert "tulips" in shown


def test_several_engines_lose_nothing_of_a_deleted_file(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    config = LcmConfig(database=str(database))
    with Engine.open(config) as one, Engine.open(config) as two:
        said = say(one, 0, 5) + say(two, 5, 5)
        remove_all(database)
        for number in range(10, 20):
            said += say(one if number % 2 else two, number, 1)
    assert stored(database) == said
    assert all(set(stored(copy)) <= set(said) for copy in tmp_path.glob("*.bak"))


def test_what_is_said_waits_while_the_file_in_the_place_cannot_be_used(tmp_path: Path) -> None:
    database, good = tmp_path / "lcm.db", tmp_path / "good.db"
    plugin = LcmPlugin(LcmConfig(database=str(database)))
    say(plugin.engine, 0, 3)
    plugin.engine.backup(str(good))
    noise = tmp_path / "noise"
    noise.write_bytes(b"no database at all" * 100)
    os.replace(noise, database)
    plugin.after_turn(Turn(LANE, [{"role": "user", "content": "while it is broken"}], mode="append"))
    with pytest.raises(StoreUnavailable, match="what the old one held is in"):
        plugin.engine.ingest(Session("agent:main:other"), [{"role": "user", "content": "refused"}])
    assert [message["content"] for message in plugin.engine.messages(LANE)][:3] == say_texts(0, 3)
    os.replace(good, database)
    plugin.after_turn(Turn(LANE, [{"role": "user", "content": "when it is mended"}], mode="append"))
    plugin.close()
    assert stored(database) == [*say_texts(0, 3), "while it is broken", "when it is mended"]


def say_texts(first: int, count: int) -> list[str]:
    return [f"message {number}" for number in range(first, first + count)]


def test_a_place_that_cannot_be_written_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    database = tmp_path / "data" / "lcm.db"
    with Engine.open(LcmConfig(database=str(database))) as engine:
        said = say(engine, 0, 3)
        remove_folder(database)
        database.parent.write_text("in the way")
        with pytest.raises(StoreUnavailable, match="deleted or replaced while it was open"):
            say(engine, 3, 1)
        database.parent.unlink()
        said += say(engine, 3, 1)
    assert stored(database) == said


def test_a_reader_goes_on_with_the_file_in_the_place(tmp_path: Path) -> None:
    database, other = tmp_path / "lcm.db", tmp_path / "other.db"
    for path, text in ((database, "old"), (other, "new")):
        with Engine.open(LcmConfig(database=str(path))) as engine:
            engine.ingest(LANE, [{"role": "user", "content": text}])
    with Engine.open(LcmConfig(database=str(database)), read_only=True) as reader:
        assert reader.messages(LANE)[0]["content"] == "old"
        os.replace(other, database)
        assert reader.messages(LANE)[0]["content"] == "new"
    assert sorted(path.name for path in tmp_path.glob("lcm.db*")) == ["lcm.db"]
