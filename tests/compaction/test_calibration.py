"""Learning how a provider counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_talk import Model, turns

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.compaction.calibration import LEAST, MOST, Calibration
from lcm_plugin.store.guards import StoredGuards
from lcm_plugin.store.sqlite.store import SqliteStore
from lcm_plugin.types import Turn, Usage

SESSION = Session("agent:calibration:main")


@pytest.fixture
def calibration(tmp_path: Path) -> Calibration:
    return Calibration(StoredGuards(SqliteStore(tmp_path / "states.db")))


def test_without_counts_the_estimate_stands(calibration: Calibration) -> None:
    assert calibration.factor("m") == 1.0
    assert calibration.room(100_000, 2_000, "m") == 96_000


def test_a_provider_that_counts_more_is_believed_per_model(calibration: Calibration) -> None:
    for _ in range(8):
        calibration.observe("dense", 40_000, 52_000)
    assert calibration.factor("dense") == pytest.approx(1.3, rel=0.02)
    assert calibration.factor("other") == 1.0
    assert calibration.room(100_000, 0, "dense") < 100_000 / 1.29


def test_c14_the_factor_is_clamped(calibration: Calibration) -> None:
    for _ in range(20):
        calibration.observe("m", 2_000, 400_000)
    assert calibration.factor("m") == pytest.approx(MOST)
    for _ in range(40):
        calibration.observe("m", 50_000, 10)
    assert calibration.factor("m") == pytest.approx(LEAST, rel=0.1)


def test_a_small_conversation_says_little(calibration: Calibration) -> None:
    """A host that does not tell its 20,000 tokens of tools must not make large conversations look huge."""
    calibration.observe("m", 200, 20_200)
    assert calibration.factor("m") == 1.0
    calibration.observe("m", 60_000, 61_000)
    calibration.observe("m", 1_200, 21_200)
    assert calibration.factor("m") < 1.07


def test_what_was_learned_survives_a_restart(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "states.db")
    for _ in range(5):
        Calibration(StoredGuards(store)).observe("m", 10_000, 14_000)
    assert Calibration(StoredGuards(store)).factor("m") == pytest.approx(1.4, rel=0.02)
    store.close()


def test_counts_that_confirm_ours_make_the_margin_small(calibration: Calibration) -> None:
    before = calibration.margin("m")
    for _ in range(12):
        calibration.observe("m", 30_000, 30_010)
    assert calibration.margin("m") < before / 2
    for ratio in (0.7, 1.5, 0.8, 1.6) * 3:
        calibration.observe("n", 30_000, int(30_000 * ratio))
    assert calibration.margin("n") > before


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**7)), max_size=30))
def test_no_count_whatever_leaves_the_bounds(samples: list[tuple[int, int]]) -> None:
    class Memory:
        def load_guard(self, key: str) -> None:
            return None

        def save_guard(self, key: str, state: dict[str, object]) -> None:
            assert state

    learned = Calibration(Memory())
    for estimated, observed in samples:
        learned.observe("m", estimated, observed)
        assert LEAST <= learned.factor("m") <= MOST
        assert 0 <= learned.room(50_000, 1_000, "m") <= 50_000


def test_usage_of_a_turn_is_compared_with_what_was_sent_in_it(tmp_path: Path) -> None:
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db")), Model()) as engine:
        engine.ingest(SESSION, turns(30))
        engine.ingest(SESSION, [{"role": "user", "content": "and now?"}])
        sent = engine.assemble(SESSION, 50_000).tokens
        step = [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "found " * 50},
        ]
        answer = {"role": "assistant", "content": "done " * 400}
        engine.ingest(SESSION, [*step, answer])
        real = sent + engine.count_tokens(step) + 500
        engine.note_usage(Turn(SESSION, [], model="m", overhead_tokens=500, usage=Usage(prompt_tokens=real)))
        assert engine.calibration.factor("m") == pytest.approx(1.0, rel=0.001)
        engine.note_usage(
            Turn(SESSION, [], model="n", overhead_tokens=500, usage=Usage(prompt_tokens=int(1.5 * real)))
        )
        assert engine.calibration.factor("n") == pytest.approx(1.5, rel=0.001)
        assert (
            engine.evaluate(SESSION, 4_000, model="n").threshold < engine.evaluate(SESSION, 4_000).threshold
        )
        assert engine.assemble(SESSION, 3_000, model="n").tokens <= 2_000


def test_c15_pressure_is_the_stored_total_once_and_falls_after_compaction(tmp_path: Path) -> None:
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"), fresh_tail_count=4), Model()) as engine:
        engine.ingest(SESSION, turns(60))
        engine.assemble(SESSION, 50_000)
        engine.note_usage(Turn(SESSION, [], model="m", usage=Usage(prompt_tokens=7_900)))
        items = engine.context_items(SESSION)
        assert engine.evaluate(SESSION, 50_000, model="m").tokens == sum(item.tokens for item in items)
        outcome = engine.compact(SESSION, force=True, budget=50_000, model="m")
        after = engine.evaluate(SESSION, 50_000, model="m")
        assert after.tokens == outcome.tokens_after < outcome.tokens_before / 2
        assert not after.due
