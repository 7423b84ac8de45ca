"""Export and back: an equal database, or a clear no with nothing changed."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from messages import assistant, user
from one_of_everything import LONG, ODD, OTHER, fill, open_engine
from small_talk import turns

from lcm_plugin import Engine, Session
from lcm_plugin.errors import InputError
from lcm_plugin.interchange.transfer.jsonl_read import Loaded, is_export, load_jsonl
from lcm_plugin.interchange.transfer.jsonl_write import Exported, write_jsonl
from lcm_plugin.interchange.transfer.payloads import PayloadPlace
from lcm_plugin.services import payload_folder
from lcm_plugin.store.records import NewMessage, Part
from lcm_plugin.store.transfer import conversation_ids, table_hashes


def place(engine: Engine) -> PayloadPlace:
    return PayloadPlace(payload_folder(engine.config, engine.store))


def export(engine: Engine, *chosen: int) -> list[bytes]:
    lines: list[bytes] = []
    with engine.store.read() as reader:
        ids = list(chosen) or list(conversation_ids(reader))
        write_jsonl(reader, place(engine), lines.append, conversations=ids, whole=not chosen, now=7)
    return lines


def load(engine: Engine, lines: list[bytes]) -> Loaded:
    return load_jsonl(lines, engine.store, place(engine))


def hashes(engine: Engine) -> dict[str, str]:
    with engine.store.read() as reader:
        return table_hashes(reader)


def views(engine: Engine, *sessions: Session) -> list[Any]:
    return [view for one in sessions for view in (engine.messages(one), engine.assemble(one, 8_000).messages)]


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "files inside"])
def test_an_export_into_an_empty_database_gives_an_equal_one(
    filled: str, tmp_path: Path, new_schema: Callable[[], str], kind: str
) -> None:
    where = new_schema() if kind == "postgres" else str(tmp_path / "new" / "lcm.db")
    inside = {"large_files_dir": "db"} if kind == "files inside" else {}
    with open_engine(filled) as source, open_engine(where, **inside) as target:
        done = load(target, export(source))
        assert (done.conversations, done.known, done.archived, done.files) == (4, 0, 0, 2)
        assert hashes(target) == hashes(source)
        assert views(target, LONG, OTHER, ODD) == views(source, LONG, OTHER, ODD)
        assert target.check().ok
        again = export(target)
        assert [line for line in again if b'"large_files"' not in line] == [
            line for line in export(source) if b'"large_files"' not in line
        ]
        target.ingest(LONG, [user("next"), assistant("yes")])
        target.ingest(Session("a:new:key"), turns(1))
        assert target.check().ok


def test_taking_it_in_twice_changes_nothing(filled: str, tmp_path: Path) -> None:
    with open_engine(filled) as source, open_engine(str(tmp_path / "new" / "lcm.db")) as target:
        lines = export(source)
        load(target, lines)
        before = hashes(target)
        assert load(target, lines).known == 4
        assert hashes(target) == before


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_into_a_used_database_conversations_come_beside_what_is_there(
    filled: str, tmp_path: Path, new_schema: Callable[[], str], kind: str
) -> None:
    where = new_schema() if kind == "postgres" else str(tmp_path / "used" / "lcm.db")
    with open_engine(filled) as source, open_engine(where) as target:
        target.ingest(LONG, [user("mine"), assistant("yours")])
        target.ingest(Session("x:y:z", "r"), turns(20))
        lines = export(source)
        done = load(target, lines)
        assert (done.conversations, done.archived, done.known) == (4, 1, 0)
        assert target.messages(LONG) == [user("mine"), assistant("yours")]
        assert views(target, OTHER, ODD) == views(source, OTHER, ODD)
        report = target.check()
        assert report.ok, report.findings
        [archived] = [
            row for row in target.library.conversations() if row.session_key == LONG.key and not row.active
        ]
        assert archived.archive_cause == "rollover"
        stored = [target.library.whole(row) for row in target.library.messages(archived.conversation_id)]
        assert stored == source.messages(LONG)
        assert target.call_tool(LONG, "lcm_grep", {"pattern": '"What is this"'})["total"] == 1
        assert load(target, lines).known == 4
        target.ingest(ODD, [user("next"), assistant("yes")])
        assert target.check().ok


def test_a_conversation_that_went_on_comes_again_under_other_ids(filled: str, tmp_path: Path) -> None:
    with open_engine(filled) as source, open_engine(str(tmp_path / "new" / "lcm.db")) as target:
        first = export(source, 1)
        assert load(target, first).conversations == 1
        source.ingest(LONG, turns(20, start=400))
        source.compact(LONG, force=True, budget=4_000)
        done = load(target, export(source, 1))
        assert (done.conversations, done.archived) == (1, 1)
        report = target.check()
        assert report.ok, report.findings
        lane = [row for row in target.library.conversations() if row.session_key == LONG.key]
        for conversation, messages in zip(lane, (115, 115 + 40), strict=True):
            walked = list(target.library.walk(conversation.conversation_id))
            assert conversation.message_count == messages, [row.message_count for row in lane]
            assert len({one.ref for one in walked}) == len(walked) > 20
        names = [one.summary_id for row in lane for one in target.library.summaries(row.conversation_id)]
        assert len(set(names)) == len(names)


def test_a_chosen_conversation_takes_along_only_what_is_its_own(filled: str, tmp_path: Path) -> None:
    with open_engine(filled) as source, open_engine(str(tmp_path / "new" / "lcm.db")) as target:
        text = b"".join(export(source, 4))
        assert b"surrogate" in text
        assert b"circuit:m" not in text
        assert b"A log." not in text
        removed = b'"row":"removals"'
        with source.store.read() as reader:
            removals = {one for one in conversation_ids(reader) if removed in b"".join(export(source, one))}
        assert removals == {3}
        load(target, [line + b"\n" for line in text.splitlines()])
        assert views(target, ODD) == views(source, ODD)
        assert target.messages(LONG) == []
        assert target.check().ok


def broken(lines: list[bytes]) -> dict[str, tuple[list[bytes], str]]:
    """Files that must be refused, and what the refusal says."""
    row = next(place for place, line in enumerate(lines) if b'"row":"messages"' in line)
    value = json.loads(lines[row])
    other = json.dumps({**value, "values": {**value["values"], "tokens": 999}}).encode()
    text = json.dumps({**value, "values": {**value["values"], "tokens": "many"}}).encode()
    extra = json.dumps({**value, "values": {**value["values"], "mood": 1}}).encode()
    foreign = json.dumps({**value, "values": {**value["values"], "conversation_id": 99}}).encode()
    piece = next(place for place, line in enumerate(lines) if line.startswith(b'{"bytes":'))
    bad = lines[piece].replace(b'"data":"', b'"data":"AAAA')

    def with_line(place: int, line: bytes) -> list[bytes]:
        return [*lines[:place], line, *lines[place + 1 :]]

    return {
        "cut": (lines[:-1], "cut short"),
        "cut in a line": ([*lines[:row], lines[row][:20]], f"line {row + 1}: not JSON"),
        "a row left out": (with_line(row, b"\n"), "the rows of the file do not fit together"),
        "a changed number": (with_line(row, other), "are not those that its closing line names"),
        "a wrong type": (with_line(row, text), "messages.tokens must be int, not 'many'"),
        "an unknown column": (with_line(row, extra), "has no column 'mood'"),
        "another conversation": (with_line(row, foreign), "belongs to another conversation"),
        "changed bytes": (with_line(piece, bad), "are not those of its digest"),
        "something else": (with_line(row, b'{"a": 1}'), "nothing of an export"),
        "lines after the end": ([*lines, lines[1]], "nothing of an export"),
        "another header": ([b'{"lcm":"export","version":99}', *lines[1:]], "has version 99"),
        "no header": (lines[1:], "line 1: this is no export"),
        "nothing": ([], "line 1: this is no export"),
    }


@pytest.mark.parametrize("used", [False, True], ids=["empty", "used"])
def test_a_broken_file_is_refused_and_changes_nothing(filled: str, tmp_path: Path, used: bool) -> None:
    with open_engine(filled) as source, open_engine(str(tmp_path / "new" / "lcm.db")) as target:
        if used:
            target.ingest(Session("x:y:z", "r"), turns(2))
        before = hashes(target)
        for what, (lines, message) in broken(export(source)).items():
            with pytest.raises(InputError, match=message):
                load(target, lines)
            assert hashes(target) == before, what
        assert load(target, export(source)).conversations == 4


def test_a_payload_that_is_gone_is_told_and_the_rest_written(filled: str) -> None:
    next(Path(filled).with_name("lcm-files").glob("*/*")).unlink()
    with open_engine(filled) as source, source.store.read() as reader:
        done: Exported = write_jsonl(
            reader, place(source), lambda line: None, conversations=[1, 2, 3, 4], whole=True, now=7
        )
    assert done.missing_files
    assert done.rows["large_files"] == 3


def test_only_an_export_looks_like_one(filled: str) -> None:
    with open_engine(filled) as source:
        assert is_export(export(source, 4)[0])
    for line in (b"", b"{}", b"[]", b'{"role": "user"}', b'{"lcm": 3}', b"\xff"):
        assert not is_export(line)


@pytest.mark.long
def test_memory_stays_flat_however_long_the_history(tmp_path: Path) -> None:
    with open_engine(str(tmp_path / "a.db")) as source, open_engine(str(tmp_path / "b.db")) as target:
        with source.store.write() as writer:
            conversation = writer.open_conversation(LONG, 1)
            parts = (Part(0, "text", "content", "a few words " * 500),)
            writer.append(conversation, [NewMessage("user", None, 9, n, n, parts) for n in range(3_000)], 1)
        file = tmp_path / "out.jsonl"
        tracemalloc.start()
        with file.open("wb") as out, source.store.read() as reader:
            write_jsonl(reader, place(source), out.write, conversations=[1], whole=True, now=7)
        with file.open("rb") as back:
            load_jsonl(back, target.store, place(target))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert hashes(target) == hashes(source)
        assert file.stat().st_size > 18_000_000
        assert peak < 9_000_000


def test_fill_makes_the_same_history_every_time(tmp_path: Path) -> None:
    with open_engine(str(tmp_path / "one.db")) as engine:
        fill(engine)
        assert [row.message_count for row in engine.library.conversations()] == [115, 14, 8, 2]
