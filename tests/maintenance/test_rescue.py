"""A damaged file is read into a new one: what can be read is there, what cannot is told, the old file stays."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fakes.shell import run_here
from messages import assistant, call, result, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.errors import InputError, NotFound, StoreUnavailable
from lcm_plugin.store.sqlite.rescue import rescue
from lcm_plugin.store.sqlite.salvage import Salvage

SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 300,
    "leaf_target_tokens": 64,
    "condensed_target_tokens": 96,
}
LANE = Session("agent:main:main", "run-1")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database at rest, with two depths of summaries and a payload."""
    path: Path = tmp_path_factory.mktemp("whole") / "lcm.db"
    with Engine.open(LcmConfig(database=str(path), **SETTINGS)) as engine:
        for number in range(120):
            engine.ingest(
                LANE,
                [
                    user(f"question {number} about host-{number} " + "word " * 30),
                    call(f"c{number}"),
                    result(f"c{number}", f"value {number} " + "line " * 30),
                    assistant(f"answer {number} " + "text " * 30),
                ],
            )
        engine.ingest(LANE, [user("a long text " * 30_000)])
        while engine.compact(LANE, force=True).compacted:
            pass
    return path


@pytest.fixture
def damaged(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole.parent, tmp_path / "old")
    return tmp_path / "old" / "lcm.db"


def messages_of(path: Path) -> list[dict[str, Any]]:
    with Engine.open(LcmConfig(database=str(path), **SETTINGS)) as engine:
        return engine.messages(LANE)


def pages_of(path: Path, table: str) -> tuple[int, list[int]]:
    """The page size, and the pages of a table (or index) below its root."""
    connection = sqlite3.connect(path)
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
    connection.close()
    data = path.read_bytes()
    page = data[(root - 1) * size : root * size]
    assert page[0] in (2, 5), "the table has only one page"
    cells = int.from_bytes(page[3:5])
    places = [int.from_bytes(page[12 + 2 * n : 14 + 2 * n]) for n in range(cells)]
    return size, [int.from_bytes(page[place : place + 4]) for place in places]


def overwrite(path: Path, size: int, page: int, filling: bytes = b"\x00") -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(filling * size)


def rescued(path: Path) -> tuple[Path, dict[str, Any], int]:
    new = path.with_name("rescued.db")
    done = run_here("rescue", str(path), str(new), "--json")
    return new, json.loads(done.stdout), done.returncode


@pytest.mark.long
def test_a_whole_database_is_rescued_whole(damaged: Path) -> None:
    before = damaged.read_bytes()
    expected = messages_of(damaged)
    new, told, code = rescued(damaged)
    assert code == 0, told
    assert told["findings"] == []
    assert messages_of(new) == expected
    assert new.stat().st_mode & 0o077 == 0
    assert damaged.read_bytes() == before
    with Engine.open(LcmConfig(database=str(new), **SETTINGS)) as engine:
        assert engine.call_tool(LANE, "lcm_grep", {"pattern": "host-7"})["hits"]
        assert engine.ingest(LANE, [user("and on it goes")]).stored == 1


@pytest.mark.parametrize("filling", [b"\x00", b"\xff"], ids=["zeroes", "ones"])
def test_a_bad_page_of_texts_costs_those_texts_and_nothing_else(damaged: Path, filling: bytes) -> None:
    expected = messages_of(damaged)
    size, pages = pages_of(damaged, "message_parts")
    overwrite(damaged, size, pages[len(pages) // 2], filling)
    new, told, code = rescued(damaged)
    assert code == 1
    gaps = {table["name"]: table["gaps"] for table in told["tables"]}
    assert gaps["message_parts"] >= 1
    assert sum(gaps.values()) == gaps["message_parts"]
    assert {finding["code"] for finding in told["findings"]} <= {"message_incomplete"}
    found = messages_of(new)
    assert len(found) == len(expected)
    lost = [place for place, message in enumerate(expected) if found[place] != message]
    assert 0 < len(lost) < 60
    assert lost[-1] - lost[0] < 60


def test_lost_links_are_made_again_from_the_summaries_stretches(damaged: Path) -> None:
    expected = messages_of(damaged)
    size, pages = pages_of(damaged, "summary_messages")
    _, by_message = pages_of(damaged, "summary_messages_message")
    overwrite(damaged, size, pages[0])
    overwrite(damaged, size, by_message[0])
    new, told, _ = rescued(damaged)
    assert told["findings"] == []
    assert any("linked" in note for note in told["notes"])
    assert messages_of(new) == expected


def test_an_index_that_holds_a_tables_rows_saves_them(damaged: Path) -> None:
    expected = messages_of(damaged)
    size, pages = pages_of(damaged, "summary_messages")
    for page in pages:
        overwrite(damaged, size, page)
    new, told, _ = rescued(damaged)
    rows = {table["name"]: table["rows"] for table in told["tables"]}
    old = sqlite3.connect(damaged)
    assert (
        rows["summary_messages"]
        == old.execute("SELECT sum(message_count) FROM summaries WHERE depth = 0").fetchone()[0]
    )
    old.close()
    assert told["findings"] == []
    assert messages_of(new) == expected


def test_a_lost_conversation_row_comes_back_under_its_key(damaged: Path) -> None:
    expected = messages_of(damaged)
    connection = sqlite3.connect(damaged)
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("DELETE FROM conversations")
    connection.commit()
    connection.close()
    new, told, _ = rescued(damaged)
    assert any("named anew" in note for note in told["notes"])
    assert messages_of(new) == expected


def test_random_pages_never_keep_a_rescue_from_ending_in_a_sound_file(whole: Path, tmp_path: Path) -> None:
    size, _ = pages_of(whole, "messages")
    count = whole.stat().st_size // size
    rng = Random(5)
    ended = 0
    for trial in range(8):
        bad, new = tmp_path / f"bad{trial}.db", tmp_path / f"new{trial}.db"
        shutil.copy(whole, bad)
        for page in rng.sample(range(12, count), 4):
            overwrite(bad, size, page, bytes([rng.randrange(256)]))
        try:
            report = rescue(str(bad), str(new))
        except StoreUnavailable:
            assert not new.exists()
            continue
        ended += 1
        connection = sqlite3.connect(new)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        connection.close()
        if not report.lossy:
            with Engine.open(
                LcmConfig(database=str(new), large_files_dir=str(whole.parent / "lcm-files"), **SETTINGS)
            ) as engine:
                engine.doctor.mend(engine.check, None, rewrite=False)
                assert engine.check().findings == ()
    assert ended >= 4


def test_without_a_first_page_it_says_what_else_there_is(damaged: Path) -> None:
    overwrite(damaged, 4096, 1)
    new = damaged.with_name("rescued.db")
    with pytest.raises(StoreUnavailable, match="recover"):
        rescue(str(damaged), str(new))
    assert not new.exists()


def test_a_rescue_never_writes_over_a_file_nor_without_a_source(damaged: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exists already"):
        rescue(str(damaged), str(damaged))
    with pytest.raises(NotFound, match="no database"):
        rescue(str(tmp_path / "none.db"), str(tmp_path / "new.db"))


def test_the_row_before_a_gap_and_the_row_after_it_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE rows_of_text (id INTEGER PRIMARY KEY, text TEXT)")
    connection.executemany("INSERT INTO rows_of_text VALUES (?, ?)", [(n, "x" * 500) for n in range(1, 301)])
    connection.commit()
    connection.close()
    size, pages = pages_of(path, "rows_of_text")
    data = path.read_bytes()
    inside = int.from_bytes(data[(pages[5] - 1) * size + 3 : (pages[5] - 1) * size + 5])
    overwrite(path, size, pages[5])
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    salvage = Salvage(connection, "rows_of_text", ("id", "text"))
    ids = [row[0] for row in salvage.by_rowid()]
    connection.close()
    assert len(ids) == 300 - inside
    assert salvage.gaps == 1
    assert ids == sorted(set(ids))
