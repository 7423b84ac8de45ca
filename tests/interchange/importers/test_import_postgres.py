"""The same imports into a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from imported_store import Imported
from peer_databases import claw_database
from postgres_server import running_server

from lcm_plugin import Engine, LcmConfig

FIXTURES = Path(__file__).with_name("fixtures")


@pytest.fixture(scope="module")
def imported() -> Iterator[Imported]:
    with running_server() as url, Engine.open(LcmConfig(database=url)) as engine:
        yield Imported(engine)


@pytest.mark.long
@pytest.mark.parametrize("name", ["claude-code.jsonl", "openclaw.jsonl", "codex.jsonl", "conversations.json"])
def test_a_file_comes_in_once(imported: Imported, name: str) -> None:
    first = imported.bring(FIXTURES / name)
    assert first.total("new") > 0
    assert imported.bring(FIXTURES / name).total("new") == 0


def test_branches_and_compactions_stand(imported: Imported) -> None:
    imported.bring(FIXTURES / "claude-code.jsonl")
    key = "agent:claude-code:claude-code"
    assert imported.archived(key) == [["Rewrite everything in Rust", "That would take a while."]]
    assert imported.context(key)[0].startswith("sum_")


def test_a_dag_stands(imported: Imported, tmp_path: Path) -> None:
    report = imported.bring(claw_database(tmp_path / "claw.db"))
    assert report.total("summaries") == 3
    root, *raw = imported.context("agent:main:telegram:42")
    assert imported.engine.library.summary(root).message_count == 6
    assert len(raw) == 2
    assert imported.troubles() == []
