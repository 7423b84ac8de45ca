"""From SQLite to PostgreSQL and back: equal rows, whole files, and a next turn that works."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from fakes.processes import run
from messages import assistant, user
from one_of_everything import LOG, LONG, ODD, OTHER, PICTURE, open_engine
from small_talk import turns

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.errors import InputError, StoreError, StoreUnavailable
from lcm_plugin.interchange.export.html import write_page
from lcm_plugin.interchange.export.markdown import write_markdown
from lcm_plugin.interchange.transfer.migrate import Bar, MigrationReport, Side, migrate
from lcm_plugin.interchange.transfer.payloads import PayloadPlace
from lcm_plugin.services import payload_folder
from lcm_plugin.store.open import open_store
from lcm_plugin.store.transfer import MESSAGES, table_hashes

_CHILD = Path(__file__).with_name("migrate_child.py")


@contextmanager
def silent(title: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    yield lambda done: None


@contextmanager
def side(database: str, **settings: object) -> Iterator[Side]:
    config = LcmConfig(database=database, **settings)
    with Engine(config, open_store(config, unfinished=True)) as engine:
        yield Side(engine.store, PayloadPlace(payload_folder(config, engine.store)), engine.check)


def copy(source: str, target: str, bar: Bar = silent, *, restart: bool = False) -> MigrationReport:
    with side(source) as left, side(target) as right:
        return migrate(left, right, bar, restart=restart, now=5)


def hashes(database: str) -> dict[str, str]:
    with open_engine(database) as engine, engine.store.read() as reader:
        return table_hashes(reader)


def everything(engine: Engine) -> list[object]:
    return [
        view
        for session in (LONG, OTHER, ODD)
        for view in (engine.messages(session), engine.context_items(session), engine.assemble(session, 8_000))
    ]


@pytest.mark.long
def test_there_and_back_again_is_equal(filled: str, tmp_path: Path, new_schema: Callable[[], str]) -> None:
    url, back = new_schema(), str(tmp_path / "back" / "lcm.db")
    first, second = copy(filled, url), copy(url, back)
    assert first.rows == second.rows
    assert first.files == second.files == 3
    assert hashes(filled) == hashes(url) == hashes(back)
    with open_engine(filled) as one, open_engine(url) as two, open_engine(back) as three:
        assert everything(one) == everything(two) == everything(three)
        for engine in (one, two, three):
            assert engine.check().ok
    with closing(sqlite3.connect(filled)) as before, closing(sqlite3.connect(back)) as after:
        places = "SELECT file_id, storage_uri FROM large_files ORDER BY 1"
        assert before.execute(places).fetchall() == after.execute(places).fetchall()


@pytest.mark.long
def test_the_next_turn_works_in_the_copy(filled: str, tmp_path: Path, new_schema: Callable[[], str]) -> None:
    for target in (new_schema(), str(tmp_path / "copy.db")):
        copy(filled, target)
        with open_engine(target) as engine:
            before = engine.messages(LONG)
            known = {item.id for item in engine.context_items(LONG)}
            engine.ingest(LONG, [*before, user("One more?"), assistant("One more.")], "sync")
            assert engine.messages(LONG) == [*before, user("One more?"), assistant("One more.")]
            assert len({item.id for item in engine.context_items(LONG)} - known) == 2
            engine.ingest(LONG, turns(30, start=200))
            assert engine.compact(LONG, force=True, budget=4_000).compacted
            engine.new_session(LONG, 2)
            assert engine.undo_new(LONG) > 0
            engine.reset_session(LONG)
            engine.ingest(LONG, turns(1, start=300))
            assert engine.check().ok


def test_texts_are_found_in_the_copy(filled: str, tmp_path: Path, new_schema: Callable[[], str]) -> None:
    for target in (new_schema(), str(tmp_path / "copy.db")):
        copy(filled, target)
        with open_engine(target) as engine:
            found = engine.call_tool(ODD, "lcm_grep", {"pattern": "surrogate"})
            assert found["total"] == 1, found


def pages(database: str) -> tuple[bytes, bytes]:
    html: list[bytes] = []
    markdown: list[bytes] = []
    with open_engine(database) as engine, engine.store.read() as reader:
        rows = list(engine.library.conversations())
        limits = partial(engine.compaction.known_limits, reader)
        write_page(reader, html.append, rows, engine.config, limits=limits, now=7)
        write_markdown(reader, markdown.append, rows, zone="UTC", now=7)
    return b"".join(html), b"".join(markdown)


def test_pages_for_people_are_the_same_from_either_store(filled: str, new_schema: Callable[[], str]) -> None:
    url = new_schema()
    copy(filled, url)
    assert pages(filled) == pages(url)


def test_odd_texts_and_files_come_through_word_for_word(filled: str, new_schema: Callable[[], str]) -> None:
    url = new_schema()
    copy(filled, url)
    with open_engine(url) as engine:
        assert engine.messages(ODD)[0]["content"] == "nul \x00 and a lone \ud83d surrogate"
        contents = [message["content"] for message in engine.messages(LONG)]
        assert LOG in contents
        pictures = [content for content in contents if isinstance(content, list)]
        assert pictures[0][1]["image_url"]["url"] == f"data:image/png;base64,{PICTURE}"
        with engine.store.read() as reader:
            assert engine.payloads.read_file(reader, reader.files(1)[0].file_id)


def test_a_target_with_rows_of_its_own_is_refused_and_kept(
    filled: str, new_schema: Callable[[], str]
) -> None:
    url = new_schema()
    with open_engine(url) as engine:
        engine.ingest(LONG, [user("mine")])
    with pytest.raises(InputError, match=r"is not empty \(1 conversations, 1 session_runs, 1 messages"):
        copy(filled, url)
    with open_engine(url) as engine:
        assert engine.messages(LONG) == [user("mine")]


class Interrupted(Exception):
    """What a test raises in the middle of a copy."""


def stopping(title: str, at: int) -> Bar:
    @contextmanager
    def bar(name: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        def tell(done: int) -> None:
            if name == title and done >= at:
                raise Interrupted

        yield tell

    return bar


def test_an_unfinished_copy_is_opened_by_nobody_and_finished_by_the_next_run(
    filled: str, tmp_path: Path
) -> None:
    target = str(tmp_path / "copy.db")
    with pytest.raises(Interrupted):
        copy(filled, target, stopping("comparing", 0))
    with pytest.raises(StoreUnavailable, match="unfinished copy of"):
        open_engine(target)
    with pytest.raises(StoreUnavailable, match="unfinished copy of"):
        Engine.open(LcmConfig(database=target), read_only=True)
    assert copy(filled, target).resumed
    assert hashes(target) == hashes(filled)


def test_an_unfinished_copy_of_another_database_is_kept_unless_restarted(filled: str, tmp_path: Path) -> None:
    target, other = str(tmp_path / "copy.db"), str(tmp_path / "other.db")
    shutil.copy(filled, other)
    with pytest.raises(Interrupted):
        copy(filled, target, stopping("comparing", 0))
    with open_engine(other) as engine:
        engine.ingest(ODD, [user("only here")])
    with pytest.raises(InputError, match="--restart throws it away"):
        copy(other, target)
    assert not copy(other, target, restart=True).resumed
    assert hashes(target) == hashes(other)


def test_a_copy_begins_anew_when_its_source_has_changed(filled: str, tmp_path: Path) -> None:
    target = str(tmp_path / "copy.db")
    with pytest.raises(Interrupted):
        copy(filled, target, stopping("comparing", 0))
    with open_engine(filled) as engine:
        engine.ingest(OTHER, [user("since then")])
    assert not copy(filled, target).resumed
    assert hashes(target) == hashes(filled)


def test_a_row_that_differs_in_the_copy_is_noticed_and_named(filled: str, tmp_path: Path) -> None:
    target = str(tmp_path / "copy.db")

    @contextmanager
    def meddling(title: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        if title == "comparing":
            with closing(sqlite3.connect(target)) as db, db:
                db.execute("UPDATE messages SET tokens = tokens + 1 WHERE message_id = 9")
        yield lambda done: None

    with pytest.raises(StoreError, match="the row of messages with seq 9 differs"):
        copy(filled, target, meddling)
    assert not copy(filled, target).resumed
    assert hashes(target) == hashes(filled)


def test_a_file_that_was_gone_already_is_named_and_no_reason_to_stop(filled: str, tmp_path: Path) -> None:
    gone = next(Path(filled).with_name("lcm-files").glob("*/*"))
    gone.unlink()
    report = copy(filled, str(tmp_path / "copy.db"))
    assert len(report.missing_files) >= 1
    assert report.files + len(report.missing_files) == 3


def test_what_is_written_meanwhile_is_told(filled: str, tmp_path: Path) -> None:
    @contextmanager
    def writing(title: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        if title == "comparing":
            with open_engine(filled) as engine:
                engine.ingest(OTHER, [user("while it is copied")])
        yield lambda done: None

    assert copy(filled, str(tmp_path / "copy.db"), writing).outdated
    assert not copy(filled, str(tmp_path / "again.db")).outdated


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_copy_goes_on_after_kill_9_at_any_point(
    filled: str, tmp_path: Path, new_schema: Callable[[], str], kind: str
) -> None:
    with side(filled) as left, left.store.read() as reader:
        total = sum(reader.row_counts().values())
    for number, share in enumerate((0.02, 0.7)):
        target = new_schema() if kind == "postgres" else str(tmp_path / f"copy{number}.db")
        killed = run(_CHILD, filled, target, str(int(total * share)))
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        with side(target) as there, there.store.read() as reader:
            copied = reader.row_counts()
            assert 0 < sum(copied.values()) - 1 < total
            assert copied["guards"] >= 1
        resumed: list[int] = []

        @contextmanager
        def noting(
            title: str, total: int, unit: str, seen: list[int] = resumed
        ) -> Iterator[Callable[[int], None]]:
            yield lambda done: seen.append(done) if title == "copying" else None

        assert copy(filled, target, noting).resumed
        assert resumed[0] >= int(total * share)
        assert hashes(target) == hashes(filled)
        with open_engine(target) as engine:
            assert engine.check().ok


def test_a_nul_that_only_sqlite_can_hold_is_replaced_and_counted(
    filled: str, new_schema: Callable[[], str]
) -> None:
    with closing(sqlite3.connect(filled)) as db, db:
        db.execute("UPDATE messages SET sender = 'a' || char(0) || 'b' WHERE message_id = 3")
    url = new_schema()
    assert copy(filled, url).altered == 1
    with open_engine(url) as engine, engine.store.read() as reader:
        row = reader.transfer_page(MESSAGES, 1, (2,), 1)[0]
        assert row[MESSAGES.position("sender")] == "a\ufffdb"
