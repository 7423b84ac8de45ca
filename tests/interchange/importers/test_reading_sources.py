"""Reading a source: bounded, told by line, and never changing it."""

from __future__ import annotations

import hashlib
import io
import json
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imported_store import Imported
from peer_databases import CLAW, Peer, claw_database

from lcm_plugin import Engine
from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers import json_files
from lcm_plugin.interchange.importers.formats import format_of
from lcm_plugin.interchange.importers.importing import check_broken, find_sources, look_over
from lcm_plugin.interchange.importers.json_files import LineFile, array_elements, json_objects
from lcm_plugin.interchange.importers.sources.tree import Tree
from lcm_plugin.store.foreign import ForeignDatabase

FixtureFile = Callable[[str], Path]


@pytest.mark.parametrize(
    ("name", "format_name"),
    [
        ("claude-code.jsonl", "claude-code"),
        ("openclaw.jsonl", "openclaw"),
        ("codex.jsonl", "codex"),
        ("conversations.json", "chatgpt"),
        ("openai.jsonl", "openai"),
        ("openai-conversations.jsonl", "openai"),
    ],
)
def test_a_format_is_known_by_what_the_file_holds(
    fixture_file: FixtureFile, tmp_path: Path, name: str, format_name: str
) -> None:
    found = format_of(fixture_file(name))
    assert found is not None
    assert found.name == format_name


def test_what_no_format_knows_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no json here")
    (tmp_path / "other.json").write_text('{"weather": "fine"}')
    Peer(tmp_path / "other.db", "CREATE TABLE pets (name TEXT)").done()
    for name in ("notes.txt", "other.json", "other.db"):
        with pytest.raises(InputError, match="no format that can be imported"):
            find_sources([str(tmp_path / name)])
    with pytest.raises(InputError, match="there is no such file"):
        find_sources([str(tmp_path / "missing.json")])
    with pytest.raises(InputError, match="unknown format 'csv'"):
        find_sources([str(tmp_path / "notes.txt")], "csv")


def test_a_folder_stands_for_the_files_that_are_known(fixture_file: FixtureFile, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.jsonl").write_bytes(fixture_file("claude-code.jsonl").read_bytes())
    (tmp_path / "settings.json").write_text("{}")
    sources, unknown = find_sources([str(tmp_path)])
    assert [source.path.name for source in sources] == ["a.jsonl"]
    assert [Path(path).name for path in unknown] == ["settings.json"]


def test_broken_lines_are_told_by_number_and_skipped_or_refused(imported: Imported, tmp_path: Path) -> None:
    good = json.dumps({"role": "user", "content": "fine"}).encode()
    path = tmp_path / "broken.jsonl"
    path.write_bytes(
        b"\n".join(
            [
                good,
                b'{"role": "user", ',
                good,
                b"\xff\xfe",
                b"[1]",
                b"",
                good,
                b'{"role": ""}',
                b'{"role": "user", "n": NaN}',
            ]
        )
    )
    (source,), _ = find_sources([str(path)])
    report = look_over(source)
    assert [broken.line for broken in report.broken] == [2, 4, 5, 8, 9]
    with pytest.raises(InputError, match=r"broken\.jsonl, line 2: broken JSON at column 17"):
        check_broken([report], "refuse")
    check_broken([report], "skip")
    assert imported.bring(path).total("new") == 3


def test_a_line_without_end_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "huge.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": "' + b"x" * 5_000 + b'"}\n{"c": 3}\n')
    with LineFile(path, max_bytes=1_000) as lines:
        found = [(line.number, line.value, line.error) for line in lines]
        assert lines.at(0) == {"a": 1}
    assert found == [(1, {"a": 1}, ""), (2, {}, "longer than 1,000 bytes"), (3, {"c": 3}, "")]


def test_one_object_that_is_too_large_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "session-1.json"
    message = {"id": "m1", "type": "user", "content": "hello"}
    chat = {"sessionId": "g1", "projectHash": "h", "messages": [message] * 100}
    path.write_text(json.dumps(chat, indent=2))
    assert [line.error for line in json_objects(path)] == [""]
    monkeypatch.setattr(json_files, "_MAX_DOCUMENT_BYTES", 1_000)
    assert [line.error for line in json_objects(path)] == ["one object of more than 1,000 bytes"]
    with pytest.raises(InputError, match="one object of more than 1,000 bytes"):
        find_sources([str(path)])
    log = tmp_path / "log.jsonl"
    log.write_text('{"role":\n' + json.dumps({"role": "user", "content": "hello"}) + "\n" + " " * 1_000)
    assert [bool(line.error) for line in json_objects(log)] == [True, False]


def test_nested_beyond_measure_is_broken_and_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_text('{"role": "user", "content": "x"}\n' + '{"a":' * 200_000 + "1" + "}" * 200_000 + "\n")
    (source,), _ = find_sources([str(path)])
    assert [broken.line for broken in look_over(source).broken] == [2]


@given(
    values=st.lists(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=8,
        )
    ),
    indent=st.sampled_from([None, 0, 2]),
)
def test_an_array_is_read_as_json_reads_it(values: list[object], indent: int | None) -> None:
    data = json.dumps(values, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
    try:
        data.decode()
    except UnicodeDecodeError:
        with pytest.raises(InputError, match="not UTF-8"):
            list(array_elements(io.BytesIO(data), "f"))
        return
    assert list(array_elements(io.BytesIO(data), "f")) == values


def test_an_array_larger_than_what_is_read_at_once(tmp_path: Path) -> None:
    values = [{"n": n, "text": "ä" * (n % 7) * 9_000} for n in range(200)]
    data = json.dumps(values, ensure_ascii=False).encode()
    assert len(data) > 5_000_000
    assert list(array_elements(io.BytesIO(data), "f")) == values
    with pytest.raises(InputError, match="longer than"):
        list(array_elements(io.BytesIO(b'["' + b"x" * 3_000_000 + b'"]'), "f", max_chars=1_000_000))


@pytest.mark.parametrize("text", ['[{"a": 1}, {"b": ', '[{"a": 1}, {"b" 2}]', '[{"a": 1}', "{}", ""])
def test_a_broken_array_is_named_with_its_line(text: str) -> None:
    with pytest.raises(InputError, match=r"broken JSON on line 1|ends before|expected a JSON array"):
        list(array_elements(io.BytesIO(text.encode()), "f"))


@given(seed=st.integers(0, 10_000), size=st.integers(1, 30))
def test_every_record_of_a_tree_lies_on_the_path_or_in_one_branch(seed: int, size: int) -> None:
    rng = random.Random(seed)
    tree = Tree()
    for number in range(size):
        parent = rng.choice([None, "gone", *map(str, range(size))])
        tree.add(str(number), parent, number, number)
    live = tree.path(size - 1)
    chains = list(tree.branches(set(live), set(range(size))))
    everything = [*live, *(at for chain in chains for at in chain)]
    assert sorted(everything) == list(range(size))


def test_a_database_is_read_and_left_as_it_was(imported: Imported, tmp_path: Path) -> None:
    path = claw_database(tmp_path / "claw.db")
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
    db.close()
    before = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in tmp_path.glob("claw.db*")}
    imported.bring(path)
    after = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in tmp_path.glob("claw.db*")}
    assert after == before


def test_a_database_in_use_is_read_with_what_its_log_holds(imported: Imported, tmp_path: Path) -> None:
    path = claw_database(tmp_path / "claw.db")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("UPDATE conversations SET session_key = 'agent:main:renamed'")
    report = imported.bring(path)
    writer.close()
    assert report.conversations[0].key == "agent:main:renamed"


def test_a_database_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = Peer(tmp_path / "claw.db", CLAW).done()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
    db.close()

    def read_while_it_grows() -> None:
        with ForeignDatabase(path) as database:
            assert not list(database.rows("conversations", ("title",), order=("conversation_id",)))
            path.write_bytes(path.read_bytes() + b"\0" * 4_096)

    with pytest.raises(InputError, match="changed it meanwhile"):
        read_while_it_grows()


def test_a_column_that_a_version_lacks_reads_as_none(tmp_path: Path) -> None:
    peer = Peer(tmp_path / "x.db", "CREATE TABLE t (a INTEGER)")
    peer.add("t", a=1)
    peer.done()
    with ForeignDatabase(tmp_path / "x.db") as database:
        assert list(database.rows("t", ("a", "b"), order=("b",), where={"b": 5})) == [{"a": 1, "b": None}]
        assert list(database.rows("missing", ("a",), order=("a",))) == []
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            database._db.execute("DELETE FROM t")


def test_secrets_are_redacted_before_anything_is_stored(
    open_engine: Callable[..., Engine], fixture_file: FixtureFile
) -> None:
    imported = Imported(open_engine("redacted", redact_patterns=["tokenizer"]))
    imported.bring(fixture_file("claude-code.jsonl"))
    rows = imported.active("agent:claude-code:claude-code")
    assert not any(
        "tokenizer" in part.text or "tokenizer" in str(part.metadata) for row in rows for part in row.parts
    )


def test_an_ignored_session_is_not_stored(
    open_engine: Callable[..., Engine], fixture_file: FixtureFile
) -> None:
    imported = Imported(open_engine("ignored", ignore_session_patterns=["agent:openai:**"]))
    report = imported.bring(fixture_file("openai.jsonl"))
    assert report.total("new") == 0
    assert "is ignored" in report.conversations[0].notes[0]
    assert not list(imported.engine.library.conversations())
