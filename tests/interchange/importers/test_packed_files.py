"""Compressed files: read as what they hold, known again when a tool compresses what was imported before."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from imported_store import Imported, words

from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.importing import find_sources, load
from lcm_plugin.interchange.importers.packed import unpacked

KEY = "agent:codex:019a-thread"
FixtureFile = Callable[[str], Path]


def compressed(kind: str, plain: Path, folder: Path) -> Path:
    data = plain.read_bytes()
    path = folder / f"{plain.name}.{kind}"
    path.write_bytes(gzip.compress(data) if kind == "gz" else zstandard.compress(data))
    return path


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_compressed_rollout_is_imported_like_the_plain_one(
    kind: str, imported: Imported, fixture_file: FixtureFile, tmp_path: Path
) -> None:
    plain = fixture_file("codex.jsonl")
    report = imported.bring(compressed(kind, plain, tmp_path))
    assert report.path.endswith(f"codex.jsonl.{kind}")
    before = words(imported.active(KEY))
    assert before
    again = imported.bring(plain)
    assert again.total("new") == 0
    assert words(imported.active(KEY)) == before


def test_a_name_that_stands_for_the_session_loses_the_suffix_of_the_compression(
    imported: Imported, fixture_file: FixtureFile, tmp_path: Path
) -> None:
    report = imported.bring(compressed("zst", fixture_file("openai.jsonl"), tmp_path))
    assert [lane.key for lane in report.conversations] == ["agent:openai:openai"]


def test_a_folder_is_searched_for_compressed_files_too(fixture_file: FixtureFile, tmp_path: Path) -> None:
    packed_one = compressed("zst", fixture_file("codex.jsonl"), tmp_path)
    (tmp_path / "notes.txt.gz").write_bytes(gzip.compress(b"nothing of ours"))
    sources, unknown = find_sources([str(tmp_path)])
    assert [source.path for source in sources] == [packed_one]
    assert unknown == []


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_file_that_ends_early_is_refused_by_name_and_nothing_is_left_behind(
    kind: str, imported: Imported, fixture_file: FixtureFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workplace = tmp_path / "tmp"
    workplace.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(workplace))
    whole = compressed(kind, fixture_file("codex.jsonl"), tmp_path)
    (source,), _ = find_sources([str(whole)])
    whole.write_bytes(whole.read_bytes()[:200])
    with pytest.raises(InputError, match=rf"codex\.jsonl\.{kind}: cannot be unpacked"):
        load(imported.engine, source)
    assert not list(workplace.iterdir())
    assert not list(imported.engine.library.conversations())


def test_without_the_package_the_error_says_how_to_get_it(
    fixture_file: FixtureFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = compressed("zst", fixture_file("codex.jsonl"), tmp_path)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    with pytest.raises(InputError, match=r"pip install 'lcm_plugin\[zstd\]'.* or unpack it with zstd -d"):
        find_sources([str(path)])


def test_several_frames_in_one_file_are_all_read(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl.zst"
    path.write_bytes(zstandard.compress(b"one\n") + zstandard.compress(b"two\n" * 100_000))
    with unpacked(path) as plain:
        assert plain.name == "talk.jsonl"
        assert plain.read_bytes() == b"one\n" + b"two\n" * 100_000
    assert not plain.exists()


def test_damaged_contents_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl.zst"
    whole = zstandard.compress(b"words " * 1_000)
    path.write_bytes(whole[:6] + b"\xff\xff\xff\xff" + whole[10:])
    with pytest.raises(InputError, match="cannot be unpacked"), unpacked(path):
        pass
