"""Learning how a provider counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import assistant, user
from small_talk import Model, text_of, turns

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.compaction.calibration import LEAST, MOST, Calibration, Sample, fit
from lcm_plugin.memory import Memory
from lcm_plugin.messages.tokens import files_in
from lcm_plugin.store.guards import StoredGuards
from lcm_plugin.store.sqlite.store import SqliteStore
from lcm_plugin.types import Turn, Usage

SESSION = Session("agent:calibration:main")


@pytest.fixture
def calibration(tmp_path: Path) -> Calibration:
    return Calibration(StoredGuards(SqliteStore(tmp_path / "states.db")))


def growing(factor: float, hidden: int = 0, calls: int = 12, lane: int = 1) -> list[Sample]:
    """Calls of a talk that grows by 800 tokens each."""
    sizes = [2_000 + 800 * n for n in range(calls)]
    return [Sample(lane, size, int(factor * size) + hidden) for size in sizes]


def test_without_counts_the_estimate_stands(calibration: Calibration) -> None:
    assert calibration.factor("m") == 1.0
    assert calibration.room(100_000, 2_000, "m") == 96_000


@pytest.mark.parametrize("factor", [0.6, 0.8, 1.0, 1.3, 2.0, 2.5])
@pytest.mark.parametrize("hidden", [0, 6_000, 20_000])
def test_factor_and_hidden_overhead_are_told_apart(factor: float, hidden: int) -> None:
    known = fit(growing(factor, hidden))
    assert known.factor == pytest.approx(factor, rel=0.01)
    assert known.hidden.get(1, 0) == pytest.approx(hidden, abs=200)
    assert known.deviation is not None
    assert known.deviation < 0.01


def test_a_provider_that_counts_more_is_believed_per_model(calibration: Calibration) -> None:
    for sample in growing(1.3):
        calibration.observe("dense", sample)
    assert calibration.factor("dense") == pytest.approx(1.3, rel=0.01)
    assert calibration.factor("other") == 1.0
    assert calibration.room(100_000, 0, "dense") < 100_000 / 1.29


def test_an_overhead_named_in_the_providers_tokens_is_not_scaled() -> None:
    samples = [Sample(1, 1_000 * n + 6_000, 2_500 * n + 6_000, 6_000) for n in range(1, 12)]
    known = fit(samples)
    assert known.factor == pytest.approx(2.5)
    assert known.hidden == {1: -9_000}


def test_few_calls_say_nothing_and_equal_calls_say_only_how_much_is_missing() -> None:
    assert fit(growing(2.0, calls=3)).factor == 1.0
    known = fit([Sample(1, 20_000 + n, 26_000 + n) for n in range(10)])
    assert known.factor == 1.0
    assert known.hidden == {1: 6_000}


def test_c14_no_count_leaves_the_bounds() -> None:
    wild = [Sample(1, 2_000 + 100 * n, 400_000 + 90_000 * n) for n in range(30)]
    assert fit(wild).factor == MOST
    assert fit([Sample(1, 2_000 + 1_000 * n, 50 + n) for n in range(30)]).factor == LEAST


def test_images_are_no_talk() -> None:
    """Each image costs 37,000 tokens instead of 1,600; the talk itself is counted as we do."""
    samples = [
        Sample(1, 2_000 + 800 * n + 1_600 * (n // 4), 2_000 + 800 * n + 37_000 * (n // 4), 0, n // 4)
        for n in range(24)
    ]
    assert fit(samples).factor == pytest.approx(1.0, abs=0.01)
    picture = {"type": "image_url", "image_url": {"url": "https://example.test/a.png"}}
    assert files_in([user("no"), {"role": "user", "content": [{"type": "text", "text": "x"}, picture]}]) == 1


def test_tools_that_come_and_go_unnamed_are_no_talk() -> None:
    samples = [Sample(1, 2_000 + 200 * n, 2_000 + 200 * n + (5_000 if n % 2 else 0)) for n in range(30)]
    assert fit(samples).factor == pytest.approx(1.0, abs=0.01)


def test_what_was_learned_survives_a_restart(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "states.db")
    for sample in growing(1.4, 3_000):
        Calibration(StoredGuards(store)).observe("m", sample)
    again = Calibration(StoredGuards(store))
    assert again.factor("m") == pytest.approx(1.4, rel=0.02)
    assert again.hidden("m", 1) == pytest.approx(3_000 / 1.4, rel=0.05)
    store.close()


def test_what_an_older_version_learned_is_forgotten(tmp_path: Path) -> None:
    """It compared counts with other overheads than were sent, and kept the result under this key."""
    store = SqliteStore(tmp_path / "states.db")
    StoredGuards(store).save_guard("tokens:m", {"observed": 3_000, "estimated": 1_000, "samples": 9})
    assert Calibration(StoredGuards(store)).factor("m") == 1.0
    store.close()


def test_counts_that_confirm_ours_make_the_margin_small(calibration: Calibration) -> None:
    before = calibration.margin("m")
    for sample in growing(1.0):
        calibration.observe("m", sample)
    assert calibration.margin("m") < before / 2
    for number, ratio in enumerate((0.7, 1.5, 0.8, 1.6) * 3):
        calibration.observe("n", Sample(1, 30_000, int(30_000 * ratio) + number))
    assert calibration.margin("n") > before


counts = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 10**6), st.integers(1, 10**7), st.just(0), st.integers(0, 2)),
    max_size=30,
)


@settings(deadline=None, max_examples=examples(100))
@given(counts)
def test_no_count_whatever_leaves_the_bounds(rows: list[tuple[int, int, int, int, int]]) -> None:
    samples = [Sample(*row) for row in rows]
    known = fit(samples)
    assert LEAST <= known.factor <= MOST
    assert all(known.hidden.values())
    if known.factor > 1:
        slopes = [
            (newer.counted - older.counted) / (newer.ours - older.ours)
            for place, newer in enumerate(samples)
            for older in samples[:place]
            if newer.lane == older.lane and newer.ours != older.ours
        ]
        assert max(slopes) >= known.factor


@settings(deadline=None, max_examples=examples(100))
@given(
    st.lists(st.integers(50, 5_000), min_size=3, max_size=40),
    st.lists(st.integers(0, 8_000), min_size=40, max_size=40),
    st.data(),
)
def test_honest_counts_change_nothing(steps: list[int], overheads: list[int], data: st.DataObject) -> None:
    """Whatever the sizes and the named overheads, a compaction among them; one count may be anything."""
    size, samples = 0, []
    for step, overhead in zip(steps, overheads, strict=False):
        size = size // 3 if size > 60_000 else size + step
        samples.append(Sample(1, size + overhead, size + overhead, overhead))
    known = fit(samples)
    assert (known.factor, known.hidden) == (1.0, {})
    if len(samples) >= 6:
        place = data.draw(st.integers(0, len(samples) - 1))
        wrong = replace(samples[place], counted=data.draw(st.integers(1, 10**6)))
        known = fit([*samples[:place], wrong, *samples[place + 1 :]])
        assert known.hidden == {}
        assert known.factor == 1.0 or len({sample.ours for sample in samples}) < 6


@settings(deadline=None, max_examples=examples(100))
@given(
    st.floats(0.6, 2.5),
    st.integers(0, 20_000),
    st.lists(st.integers(300, 3_000), min_size=12, max_size=40),
    st.integers(0, 39),
    st.integers(1, 10**6),
)
def test_one_outlier_moves_nothing_lastingly(
    factor: float, hidden: int, steps: list[int], place: int, wrong: int
) -> None:
    size, samples = 0, []
    for step in steps:
        size += step
        samples.append(Sample(1, size, int(factor * size) + hidden))
    place %= len(samples)
    spoilt = [*samples[:place], Sample(1, samples[place].ours, wrong), *samples[place + 1 :]]
    more = [Sample(1, size + 1_000 * n, int(factor * (size + 1_000 * n)) + hidden) for n in range(1, 130)]
    assert fit([*spoilt, *more][-128:]).factor == pytest.approx(factor, rel=0.02)


def through_memory(
    path: Path,
    count: Any,
    *,
    overhead: Any = lambda turn: 6_000,
    report: bool = True,
    picture: bool = False,
) -> int:
    """How many of 60 short messages are shown after 30 turns; ``count(ours, turn)`` is the provider's."""
    with Memory(str(path), window=32_000, model="m") as memory:
        for turn in range(30):
            said: dict[str, Any] = user(text_of(40, 2 * turn))
            if picture and turn % 5 == 0:
                image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5_000}}
                said = {"role": "user", "content": [{"type": "text", "text": said["content"]}, image]}
            memory.add(said)
            sent = memory.context(overhead_tokens=overhead(turn))
            ours = memory.engine.count_tokens(sent) + memory.engine.count_tokens(memory.tools)
            memory.add(assistant(text_of(40, 2 * turn + 1)))
            counted = count(ours, turn)
            usage = {"prompt_tokens": counted, "prompt_tokens_details": {"cached_tokens": counted // 2}}
            memory.end_turn(usage if report else None)
        assert memory.engine.wait_idle(60)
        return len([one for one in memory.context(overhead_tokens=overhead(30)) if one["role"] != "system"])


def test_honest_counts_beside_a_large_overhead_shrink_nothing(tmp_path: Path) -> None:
    """2 of 60 messages were shown: the whole overhead became a factor."""
    without = through_memory(tmp_path / "without.db", lambda ours, turn: 0, report=False)
    shown = through_memory(tmp_path / "with.db", lambda ours, turn: ours + 6_000)
    assert shown == without
    assert shown >= 59


@pytest.mark.parametrize(
    ("factor", "scaled"), [(0.6, 6_000), (0.6, 0), (1.3, 6_000), (1.8, 6_000), (1.8, 0), (2.5, 0)]
)
def test_counts_of_other_vocabularies_shrink_nothing_that_fits(
    tmp_path: Path, factor: float, scaled: int
) -> None:
    """The host named its overhead in our tokens (``scaled``) or in the provider's."""

    def count(ours: int, turn: int) -> int:
        return int(factor * (ours + scaled)) + 6_000 - scaled

    assert through_memory(tmp_path / "lcm.db", count) >= 59


@pytest.mark.parametrize("named", [0, 1_000, 9_000])
def test_a_wrong_overhead_shrinks_nothing_that_fits(tmp_path: Path, named: int) -> None:
    shown = through_memory(tmp_path / "lcm.db", lambda ours, turn: ours + 6_000, overhead=lambda turn: named)
    assert shown >= 59


@pytest.mark.parametrize("told", [True, False])
def test_tools_that_change_between_turns_shrink_nothing_that_fits(tmp_path: Path, told: bool) -> None:
    real = [1_000, 8_000, 3_000, 6_000, 8_000]
    shown = through_memory(
        tmp_path / "lcm.db",
        lambda ours, turn: ours + real[turn % 5],
        overhead=lambda turn: real[turn % 5] if told else 0,
    )
    assert shown >= 59


@pytest.mark.long
def test_images_that_cost_otherwise_shrink_nothing_that_fits(tmp_path: Path) -> None:
    without = through_memory(tmp_path / "without.db", lambda ours, turn: 0, report=False, picture=True)
    cheap = through_memory(
        tmp_path / "with.db", lambda ours, turn: ours + 6_000 - 1_300 * (turn // 5 + 1), picture=True
    )
    assert cheap == without


def test_usage_of_a_turn_is_compared_with_what_was_sent_in_it(tmp_path: Path) -> None:
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db")), Model()) as engine:
        engine.ingest(SESSION, turns(30))
        engine.ingest(SESSION, [{"role": "user", "content": "and now?"}])
        sent = engine.assemble(SESSION, 50_000, 500).tokens
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
        seen: list[dict[str, Any]] = []
        engine.subscribe(lambda event: seen.append({"name": event.name, **event.fields}))
        engine.note_usage(Turn(SESSION, [], model="m", usage=Usage(prompt_tokens=real)))
        [observed] = [event for event in seen if event["name"] == "calibration.observed"]
        assert (observed["estimated"], observed["observed"]) == (real, real)


@pytest.mark.long
def test_usage_is_compared_with_the_call_that_it_answers_and_not_with_a_later_one(tmp_path: Path) -> None:
    """Two runs in one session: the first one's usage comes after the second one's context."""
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db")), Model()) as engine:
        seen: list[dict[str, Any]] = []
        engine.subscribe(lambda event: seen.append({"name": event.name, **event.fields}))
        engine.ingest(SESSION, [user("first " * 200)])
        first = engine.assemble(SESSION, 50_000, 700)
        engine.ingest(SESSION, [assistant("yes " * 300), user("second " * 900)])
        engine.assemble(SESSION, 50_000, 90)
        real = first.tokens + 700
        turn = Turn(SESSION, [], model="m", sent=first.sent, usage=Usage(prompt_tokens=real))
        engine.note_usage(turn)
        [observed] = [event for event in seen if event["name"] == "calibration.observed"]
        assert observed["estimated"] == real


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
