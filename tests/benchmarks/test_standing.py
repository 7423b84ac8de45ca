"""Nothing that should stand in every context is ever missing; the benchmark would see it if it were."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from databases import FreshDatabase
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcm_plugin.assembly import assembler
from lcm_plugin.sessions import standing_rows

pytestmark = pytest.mark.both_stores_under_ci

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "standing.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("standing", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["standing"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_pins_instructions_and_the_running_request_stand_in_every_context_of_any_history(
    benchmark: ModuleType, fresh_database: FreshDatabase
) -> None:
    names = [f"standing{number}" for number in range(12)]

    @settings(max_examples=examples(8, 4), suppress_health_check=[HealthCheck.too_slow])
    @given(st.integers(0, 10**6), st.integers(5, 25))
    def play(seed: int, steps: int) -> None:
        from contextlib import ExitStack

        with ExitStack() as databases:
            places = iter(names)
            history = benchmark.History(
                seed, lambda: databases.enter_context(fresh_database(next(places, names[-1])))
            )
            try:
                for _ in range(steps):
                    assert history.step() == Counter()
            finally:
                history.close()

    play()


@pytest.mark.long
@pytest.mark.sqlite_only
def test_the_benchmark_counts_what_is_missing(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = iter(range(10_000))

    def place() -> str:
        return str(tmp_path / f"{next(places)}.db")

    assert benchmark.run(3, 12, 0, place)["missing"] == {}
    monkeypatch.setattr(standing_rows, "pins_of", lambda reader, conversation: ())
    monkeypatch.setattr(assembler, "turn_opening", lambda reader, renderer, view, run: None)
    assert set(benchmark.run(6, 25, 0, place)["missing"]) == {"pin", "request"}
