"""Under any umask nobody but the owner may read what is stored."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.shell import run_here
from messages import user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.config.file import write_value
from lcm_plugin.private_files import make_private_folder

LANE = Session("agent:main:main", "run-1")


@pytest.fixture
def open_to_all() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def readable_by_others(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if stat.S_IMODE(path.lstat().st_mode) & 0o077]


@pytest.mark.usefixtures("open_to_all")
def test_everything_that_is_written_is_private_with_umask_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "deep" / "deeper" / "lcm.db"
    monkeypatch.setenv("LCM_CONFIG", str(tmp_path / "settings" / "of" / "lcm.json"))
    write_value("freshTailCount", 8)
    write_value("freshTailCount", 9)
    with Engine.open(LcmConfig(database=str(database), large_file_token_threshold=1_000)) as engine:
        engine.ingest(LANE, [user("a long text " * 2_000)])
        engine.backup()
        database.unlink()
        engine.ingest(LANE, [user("after it was deleted")])
        engine.backup(str(tmp_path / "elsewhere.db"))
        os.replace(tmp_path / "elsewhere.db", database)
        engine.ingest(LANE, [user("after it was replaced")])
        assert readable_by_others(tmp_path) == []
    out = tmp_path / "exports" / "of" / "today.jsonl"
    done = run_here("export", "--database", database, "--output", out)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.rglob("*"))) > 15
    assert readable_by_others(tmp_path) == []


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError):
        make_private_folder(tmp_path / "file" / "below")
    make_private_folder(tmp_path)
