"""What a policy chooses: nothing changes when it is written down, and a larger window never keeps less."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from databases import FreshDatabase
from effort import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from messages import assistant, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.compaction.policy import Call, Limits, in_force, limits_for
from lcm_plugin.compaction.shapes import BALANCED, FAITHFUL

Policy = Literal["economy", "balanced", "faithful"]
POLICIES: list[Policy] = ["economy", "balanced", "faithful"]
KEY = Session("agent:shape:main")
SCALED = sorted(in_force(LcmConfig(), limits_for(LcmConfig(), Call())))
windows = st.one_of(
    st.integers(400, 2_000_000),
    st.sampled_from([8_000, 16_000, 32_000, 64_000, 128_000, 200_000, 400_000, 1_000_000]),
)


def limits(policy: Policy, window: int, overhead: int = 0, factor: float = 1.0, **values: Any) -> Limits:
    return limits_for(LcmConfig(context_policy=policy, **values), Call(window, overhead), factor=factor)


@settings(deadline=None, max_examples=examples(300))
@given(
    st.sampled_from(POLICIES),
    windows,
    st.floats(0, 0.6),
    st.floats(0.5, 3.0),
    st.sets(st.sampled_from(SCALED), min_size=1),
    st.floats(0.1, 0.95),
    st.one_of(st.none(), st.integers(1, 60_000)),
)
@example("economy", 128_000, 0.0, 1.0, set(SCALED), 0.75, None)
@example("balanced", 8_000, 0.0, 1.0, set(SCALED), 0.75, 20_000)
def test_writing_a_shown_value_down_changes_nothing(
    policy: Policy,
    window: int,
    overhead: float,
    factor: float,
    written: set[str],
    threshold: float,
    chunk: int | None,
) -> None:
    values = {"context_threshold": threshold, "leaf_chunk_tokens": chunk}
    config = LcmConfig(context_policy=policy, **values)
    call = Call(window, int(overhead * window))
    before = limits_for(config, call, factor=factor)
    shown = in_force(config, before)
    again = LcmConfig(**{"context_policy": policy, **values, **{name: shown[name] for name in written}})
    assert limits_for(again, call, factor=factor) == before
    assert in_force(again, before) == shown


@pytest.mark.parametrize("policy", POLICIES)
def test_the_shown_defaults_of_plain_settings_may_be_written_down_too(policy: Policy) -> None:
    plain = {
        name: field.get_default(call_default_factory=True)
        for name, field in LcmConfig.model_fields.items()
        if name not in SCALED and name != "context_policy"
    }
    assert limits(policy, 128_000, **plain) == limits(policy, 128_000)


@settings(deadline=None, max_examples=examples(300))
@given(
    st.sampled_from(POLICIES), st.integers(4_000, 2_000_000), st.integers(4_000, 2_000_000), st.floats(0, 0.3)
)
def test_a_larger_window_keeps_at_least_what_a_smaller_one_can_hold(
    policy: Policy, one: int, other: int, overhead: float
) -> None:
    small, large = sorted((one, other))
    fixed = int(overhead * small)
    low, high = limits(policy, small, fixed), limits(policy, large, fixed)
    assert high.verbatim >= low.verbatim
    assert high.soft >= low.soft
    if policy == "economy":
        return
    if _step(policy, small, fixed) == _step(policy, large, fixed):
        # They cut the same talk at the same places; the larger one, if anything, later.
        for name in ("chunk_tokens", "passes", "prefix_target", "leaf_target", "condensed_target"):
            assert getattr(high, name) == getattr(low, name)
        assert policy == "faithful" or (high.verbatim, high.trigger) == (low.verbatim, low.trigger)
    else:
        assert _least_raw(policy, high) + 2 >= _most_raw(policy, low)


def _most_raw(policy: Policy, bounds: Limits) -> int:
    """The most raw tokens that a context holds before a compaction takes a batch."""
    return bounds.verbatim + bounds.trigger if policy == "balanced" else bounds.soft


def _least_raw(policy: Policy, bounds: Limits) -> int:
    """The fewest that it holds after one."""
    if policy == "balanced":
        return bounds.verbatim
    return bounds.soft - bounds.prefix_target - bounds.passes * bounds.chunk_tokens


def _step(policy: Policy, window: int, overhead: int) -> float:
    soft = int(0.75 * (window - overhead))
    return (BALANCED if policy == "balanced" else FAITHFUL).of(soft)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("window", [8_000, 16_000, 32_000, 64_000, 128_000, 200_000, 1_000_000])
def test_in_the_usual_windows_the_threshold_is_the_one_that_was_set(policy: Policy, window: int) -> None:
    bounds = limits(policy, window)
    assert bounds.soft == int(0.75 * window)
    if policy != "economy":
        batch = bounds.passes * bounds.chunk_tokens
        assert batch + bounds.prefix_target + (bounds.verbatim if policy == "balanced" else 0) <= bounds.soft


def test_the_fixed_part_of_a_host_is_no_room_for_talk() -> None:
    with_tools, alone = limits("balanced", 64_000, 16_000), limits("balanced", 48_000)
    assert (with_tools.verbatim, with_tools.trigger) == (alone.verbatim, alone.trigger)


def talk(turns: int, size: int) -> list[list[dict[str, Any]]]:
    return [
        [
            user(f"Question {n}: " + f"where is part {n}? " * (size + n % 5)),
            assistant(f"Answer {n}: " + "here. " * size),
        ]
        for n in range(turns)
    ]


def raw_tokens(config: LcmConfig, rounds: list[list[dict[str, Any]]], window: int) -> list[int]:
    """Raw tokens in the context after each turn and the compaction that it made due."""
    seen = []
    with Engine.open(config) as engine:
        for messages in rounds:
            engine.ingest(KEY, messages)
            engine.compact(KEY, budget=window)
            items = engine.context_items(KEY)
            seen.append(sum(item.tokens for item in items if item.kind == "message"))
    return seen


@pytest.mark.long
@pytest.mark.both_stores_under_ci
@settings(deadline=None, max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["balanced", "faithful"]),
    st.tuples(st.integers(4_000, 14_000), st.integers(4_000, 14_000)),
    st.integers(6, 20),
)
@example("faithful", (9_000, 9_300), 12)
@example("balanced", (7_700, 7_900), 12)
@example("faithful", (8_000, 16_000), 20)
def test_the_same_talk_in_a_larger_window_shows_no_less(
    fresh_database: FreshDatabase, policy: Policy, pair: tuple[int, int], size: int
) -> None:
    rounds, seen = talk(1_500 // (size + 6), size), []
    for window in sorted(pair):
        with fresh_database() as database:
            config = LcmConfig(database=database, context_policy=policy)
            seen.append(raw_tokens(config, rounds, window))
    assert all(low <= high for low, high in zip(*seen, strict=True))


@pytest.mark.both_stores_under_ci
@pytest.mark.parametrize("window", [6_000, 11_000])
def test_faithful_compacts_nothing_below_the_threshold_and_little_above_it(
    fresh_database: FreshDatabase, window: int
) -> None:
    with (
        fresh_database() as database,
        Engine.open(LcmConfig(database=database, context_policy="faithful")) as engine,
    ):
        rounds = iter(talk(600, 12))
        while not (result := engine.compact(KEY, budget=window)).compacted:
            assert not any(item.kind == "summary" for item in engine.context_items(KEY))
            engine.ingest(KEY, next(rounds))
        assert result.tokens_before > 0.75 * window
        assert result.tokens_after > 0.75 * result.tokens_before


@pytest.mark.long
@pytest.mark.parametrize("policy", ["balanced", "faithful"])
def test_a_chat_far_below_the_threshold_is_left_whole(policy: Policy, tmp_path: Any) -> None:
    rounds = talk(350, 12)
    config = LcmConfig(database=str(tmp_path / "a.db"), context_policy=policy)
    with Engine.open(config) as engine:
        for messages in rounds:
            engine.ingest(KEY, messages)
        context = engine.assemble(KEY, 128_000)
        assert 34_000 < context.tokens < 69_000
        assert not engine.evaluate(KEY, 128_000).due
        assert context.summaries == ()
        assert len(context.messages) >= 699


def test_a_large_window_takes_its_batch_in_chunks_that_a_model_can_read(tmp_path: Any) -> None:
    big = limits("balanced", 1_000_000)
    assert big.trigger > 100_000
    assert big.chunk_tokens <= 20_000
    assert big.passes < LcmConfig().max_sweep_passes
    assert big.trigger % big.chunk_tokens == 0
