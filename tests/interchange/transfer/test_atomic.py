"""A file is there as a whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lcm_plugin.errors import InputError
from lcm_plugin.interchange.transfer.atomic import whole_file


def write_half(path: Path, *, overwrite: bool = False) -> None:
    with whole_file(path, overwrite=overwrite) as file:
        file.write(b"half")
        raise RuntimeError("stop")


def write_while_others_do(path: Path) -> None:
    with whole_file(path) as file:
        file.write(b"mine")
        path.write_text("theirs")


def test_a_file_appears_when_it_is_done_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "out.txt"
    with whole_file(path) as file:
        file.write(b"all of it")
        assert not path.exists()
    assert path.read_bytes() == b"all of it"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stop"):
        write_half(tmp_path / "out.txt")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays_unless_told(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("precious")
    with pytest.raises(InputError, match="exists already"), whole_file(path):
        pass
    with pytest.raises(RuntimeError, match="stop"):
        write_half(path, overwrite=True)
    assert path.read_text() == "precious"
    with whole_file(path, overwrite=True) as file:
        file.write(b"new")
    assert path.read_text() == "new"


def test_a_file_that_came_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with pytest.raises(InputError, match="exists already"):
        write_while_others_do(path)
    assert path.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot write"), whole_file(tmp_path / "file" / "out.txt"):
        pass
    with pytest.raises(InputError, match="is no file to write to"), whole_file(tmp_path):
        pass


def test_a_file_system_without_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    # What such a file system answers; everything else is as it is.
    monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "out.txt"
    with whole_file(path) as file:
        file.write(b"all of it")
    assert path.read_bytes() == b"all of it"
    with pytest.raises(InputError, match="exists already"):
        write_while_others_do(tmp_path / "other.txt")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["other.txt", "out.txt"]
