"""The corruption bench's promises: every damage is found, named, and mended or refused; nothing else changes."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from postgres_server import running_server

from lcm_plugin.maintenance.rules import RULES

ROOT = Path(__file__).resolve().parents[2]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("corruption", ROOT / "benchmarks" / "corruption.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["corruption"] = module
    spec.loader.exec_module(module)
    return module


bench = load()
# What PostgreSQL does in its own way; benchmarks/corruption.py --postgres does all of them.
OWN_WAY = frozenset(
    [
        "message_unreadable",
        "file_changed",
        "summary_link_lost",
        "summary_orphan",
        "summary_unsupported",
        "schema_differs",
        "index_differs",
        "structure",
        "context_order",
        "blob_orphan",
    ]
)
IN_SQLITE = [damage for damage in bench.DAMAGES if damage.only != "postgres"]
IN_POSTGRES = [damage for damage in bench.DAMAGES if damage.only != "sqlite" and damage.code in OWN_WAY]


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("grown")
    bench.grow(str(folder / "lcm.db"))
    return folder


@pytest.fixture(scope="module")
def template() -> Iterator[tuple[str, str]]:
    """A server of its own, whose databases go with it, and the grown database on it."""
    with running_server() as server:
        yield server, bench.make_template(server)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(damage, id=damage.title, marks=[pytest.mark.long] if index % 4 else [])
        for index, damage in enumerate(IN_SQLITE)
    ],
)
def test_damage_in_sqlite_is_found_and_dealt_with(damage: Any, grown: Path, tmp_path: Path) -> None:
    outcome = bench.examine(bench.SqliteDatabase(grown, tmp_path / "copy"), damage, "sqlite")
    assert outcome.faults == ()


@pytest.mark.long
@pytest.mark.parametrize("damage", IN_POSTGRES, ids=lambda damage: damage.title)
def test_damage_in_postgres_is_found_and_dealt_with(
    damage: Any, template: tuple[str, str], tmp_path: Path
) -> None:
    outcome = bench.examine(bench.PostgresDatabase(*template, tmp_path), damage, "postgres")
    assert outcome.faults == ()


def test_every_class_of_finding_has_a_damage() -> None:
    not_of_a_database = {
        "interrupted",
        "log_missing",
        "host_other_engine",
        "hook_failing",
        "message_quarantined",
        "context_nearly_full",
    }
    assert {damage.code for damage in bench.DAMAGES} == set(RULES) - not_of_a_database
