"""SIGKILL inside the model call, and before every statement of a publication."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from clock import Clock
from fakes.processes import run
from invariants import assert_sound
from kill_child import SESSION, SETTINGS
from small_talk import Model, turns

from lcm_plugin import Engine, LcmConfig

_CHILD = Path(__file__).with_name("kill_child.py")
_TURNS = 14


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Databases whose processes were killed while they compacted, by where that was."""
    folder = tmp_path_factory.mktemp("kill")
    filled = folder / "filled.db"
    with Engine.open(LcmConfig(database=str(filled), **SETTINGS)) as engine:
        engine.ingest(SESSION, turns(_TURNS))
    done = run(_CHILD, filled, folder)
    assert done.returncode == 0, done.stderr
    return {Path(line).stem.removeprefix("killed-"): Path(line) for line in done.stdout.split()}


def test_processes_were_killed_in_the_model_call_and_before_every_statement(killed: dict[str, Path]) -> None:
    statements = sorted(int(place) for place in killed if place != "model")
    assert "model" in killed
    assert len(statements) >= 10
    assert statements == list(range(1, len(statements) + 1))


def copied(database: Path, folder: Path) -> Path:
    """A copy with its log, as the killed process left both."""
    for part in database.parent.glob(f"{database.name}*"):
        shutil.copy(part, folder / part.name)
    return folder / database.name


@pytest.mark.long
def test_after_any_kill_the_database_is_sound_and_the_work_goes_on(
    killed: dict[str, Path], tmp_path: Path
) -> None:
    clock = Clock()
    clock.now = 4_000_000_000_000  # far past the dead process's lease
    for place, left in killed.items():
        database = copied(left, tmp_path)
        assert_sound(database)
        config = LcmConfig(database=str(database), **SETTINGS)
        with Engine.open(config, Model(), clock=clock) as engine:
            assert engine.messages(SESSION) == turns(_TURNS), place
            before = engine.evaluate(SESSION).tokens
            outcome = engine.compact(SESSION, force=True)
            assert outcome.compacted, f"killed at {place}: {outcome}"
            assert outcome.tokens_after < before
            assert engine.assemble(SESSION, 4_000).tokens <= 4_000
        assert_sound(database)


def test_the_lease_of_a_killed_process_is_taken_over_at_once(killed: dict[str, Path], tmp_path: Path) -> None:
    database = copied(killed["model"], tmp_path)
    with Engine.open(LcmConfig(database=str(database), **SETTINGS), Model()) as engine:
        with engine.store.read() as reader:
            debt = reader.debt(1)
        assert debt is not None
        assert debt.state == "running"
        assert debt.lease_until > engine.clock()
        assert engine.compact(SESSION, force=True).compacted
