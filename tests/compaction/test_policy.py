"""When compaction is due and how far it goes, from settings and a call alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_plugin import LcmConfig
from lcm_plugin.compaction.policy import (
    Call,
    Limits,
    decide,
    limits_for,
)
from lcm_plugin.compaction.shapes import LEAF_TRIGGER_TOKENS, MOST_SOURCE, PREFIX_TOKENS
from lcm_plugin.store.records import Conversation, Debt
from lcm_plugin.types import Reason

TALK = Conversation(1, "agent:a:main", None, True, 0, 0, revision=3, next_seq=100)


def limits(budget: int = 100_000, overhead: int = 0, **values: Any) -> Limits:
    return limits_for(LcmConfig(**values), Call(budget, overhead))


def verdict(raw: int, bounds: Limits, outside: int = 0, debt: Debt | None = None, now: int = 0) -> Reason:
    return decide(replace(TALK, raw_tokens=raw, raw_items=raw // 50), bounds, outside, debt, now).reason


def test_shares_of_what_the_hosts_overhead_leaves_of_the_budget() -> None:
    assert (limits().soft, limits().hard) == (75_000, 95_000)
    assert (limits(overhead=20_000).soft, limits(overhead=20_000).hard) == (60_000, 76_000)
    assert limits(overhead=90_000).soft == 7_500


def test_a_list_that_is_replaced_anyway_has_all_that_is_owed_compacted_in_as_few_calls_as_can_stand_for_it() -> (
    None
):
    bounds = limits(200_000)
    raw = bounds.verbatim + 3 * bounds.chunk_tokens
    full = bounds.to_publish(raw)
    assert full.verbatim == bounds.verbatim
    assert full.trigger <= bounds.chunk_tokens / 2 < bounds.trigger
    assert full.chunk_tokens >= 3 * bounds.chunk_tokens
    assert bounds.leaf_target < full.leaf_target <= 3 * bounds.leaf_target
    much = bounds.to_publish(bounds.verbatim + 2 * MOST_SOURCE)
    assert MOST_SOURCE <= much.chunk_tokens <= MOST_SOURCE + bounds.verbatim
    # Less than a chunk is taken as it is after a turn.
    less = bounds.to_publish(raw // 4)
    assert (less.chunk_tokens, less.leaf_target) == (bounds.chunk_tokens, bounds.leaf_target)


def test_sizes_that_were_set_hold_where_a_list_is_replaced_too() -> None:
    bounds = limits(200_000, leaf_chunk_tokens=10_000)
    full = bounds.to_publish(100_000)
    assert (full.chunk_tokens, full.leaf_target) == (10_000, bounds.leaf_target)
    targets = limits(200_000, leaf_target_tokens=500)
    assert targets.to_publish(100_000).leaf_target == 500


def test_what_economy_leaves_in_a_list_that_is_replaced_is_far_from_filling_it_again() -> None:
    bounds = limits(64_000, context_policy="economy")
    assert bounds.tail_tokens > 0.6 * bounds.soft
    full = bounds.to_publish(40_000)
    assert full.tail_tokens + full.prefix_target < bounds.soft / 2
    own = limits(64_000, context_policy="economy", fresh_tail_max_tokens=20_000)
    assert own.to_publish(40_000).tail_tokens == 20_000
    for policy in ("balanced", "faithful"):
        kept = limits(64_000, context_policy=policy)
        assert kept.to_publish(40_000).tail_tokens == kept.tail_tokens


@pytest.mark.parametrize("policy", ["economy", "balanced", "faithful"])
def test_below_the_threshold_nothing_is_due_before_a_list_of_the_hosts_own_is_nearly_full(
    policy: str,
) -> None:
    waiting = limits(128_000, context_policy=policy).to_wait()
    raw = waiting.soft
    assert verdict(raw, waiting, outside=raw - 1) is Reason.BELOW_THRESHOLD
    assert verdict(raw + 1, waiting) is Reason.OVER_THRESHOLD


def test_c10_the_threshold_follows_the_window() -> None:
    assert limits(1_000_000).soft == 750_000
    assert limits(32_000).soft == 24_000


def test_c11_an_absolute_ceiling_wins_over_the_window() -> None:
    assert limits(1_000_000, max_assembly_token_budget=200_000).soft == 150_000


@pytest.mark.parametrize("budget", [100, 200, 256])
def test_c12_small_budgets_keep_most_of_themselves(budget: int) -> None:
    assert limits(budget).soft >= budget // 2


def test_what_was_set_is_taken_as_it_was_set() -> None:
    own = limits(
        leaf_chunk_tokens=30_000,
        leaf_target_tokens=1_200,
        condensed_target_tokens=2_000,
        incremental_max_depth=1,
        context_threshold=0.5,
        fresh_tail_max_tokens=9_000,
    )
    assert (own.trigger, own.chunk_tokens, own.early) == (30_000, 30_000, None)
    assert (own.leaf_target, own.condensed_target) == (1_200, 2_000)
    assert (own.soft, own.tail_tokens, own.min_condensed_tokens) == (50_000, 9_000, 3_000)


def test_economy_is_the_policy_with_the_lowest_measured_bill() -> None:
    box = limits(128_000, context_policy="economy")
    assert (box.trigger, box.prefix_target, box.tail_count) == (LEAF_TRIGGER_TOKENS, PREFIX_TOKENS, 64)
    assert box.leaf_target == box.condensed_target == PREFIX_TOKENS // 8
    assert (box.chunk_tokens, box.verbatim, box.tail_tokens) == (12_000, 0, 64_000)
    assert limits(32_000, context_policy="economy").early == 19_200


def test_reasons_in_order_of_their_weight() -> None:
    bounds = limits(max_active_messages=100)
    assert verdict(96_000, bounds) is Reason.OVER_HARD_LIMIT
    assert verdict(76_000, bounds) is Reason.OVER_THRESHOLD
    assert verdict(6_000, bounds) is Reason.TOO_MANY_MESSAGES
    assert verdict(4_000, bounds) is Reason.BELOW_THRESHOLD
    economy = limits(context_policy="economy")
    assert verdict(30_000, economy, outside=8_000) is Reason.LEAF_CHUNK_READY
    assert verdict(30_000, economy, outside=7_999) is Reason.BELOW_THRESHOLD


def test_a_small_window_compacts_early_but_not_for_crumbs() -> None:
    small = limits(32_000, context_policy="economy")
    assert verdict(19_300, small, outside=3_200) is Reason.LEAF_CHUNK_READY
    assert verdict(19_300, small, outside=3_100) is Reason.BELOW_THRESHOLD
    assert verdict(19_100, small, outside=3_200) is Reason.BELOW_THRESHOLD


def debt(state: str, reason: str, *, next_attempt_at: int = 0, next_seq: int = 100) -> Debt:
    return Debt(1, state, reason, 0, next_attempt_at=next_attempt_at, revision=3, next_seq=next_seq)  # type: ignore[arg-type]


def test_a_verdict_stands_until_something_changes() -> None:
    bounds = limits()
    stuck = debt("done", "nothing_eligible")
    assert verdict(80_000, bounds, debt=stuck) is Reason.NOTHING_ELIGIBLE
    assert verdict(80_000, bounds, debt=replace(stuck, next_seq=99)) is Reason.OVER_THRESHOLD
    assert verdict(80_000, bounds, debt=replace(stuck, revision=2)) is Reason.OVER_THRESHOLD
    assert verdict(80_000, bounds, debt=debt("done", "done")) is Reason.OVER_THRESHOLD


def test_after_a_failure_nothing_is_due_before_the_next_try() -> None:
    failed = debt("failed", "model_failed", next_attempt_at=1_000, next_seq=1)
    assert verdict(96_000, limits(), debt=failed, now=999) is Reason.MODEL_FAILED
    assert verdict(96_000, limits(), debt=failed, now=1_000) is Reason.OVER_HARD_LIMIT


def test_the_most_specific_override_wins() -> None:
    config = LcmConfig(
        context_threshold_overrides=[
            {"match": {"sessionPattern": "agent:**"}, "contextThreshold": 0.4},
            {"match": {"model": "big"}, "contextThreshold": 0.6, "freshTailCount": 8, "leafChunkTokens": 999},
            {"match": {"modelContextWindowMin": 500_000}, "contextThreshold": 0.2},
        ]
    )
    big = limits_for(config, Call(100_000, model="big", window=600_000), session_key="agent:a:main")
    assert (big.soft, big.tail_count, big.trigger) == (60_000, 8, 999)
    assert limits_for(config, Call(100_000, window=600_000), session_key="cron:x").soft == 20_000
    assert limits_for(config, Call(100_000), session_key="agent:a:main").soft == 40_000
    assert limits_for(config, Call(100_000), session_key="cron:x").soft == 75_000


@settings(deadline=None, max_examples=examples(200))
@given(
    st.integers(1, 2_000_000),
    st.integers(0, 2_000_000),
    st.floats(0.5, 3.0),
    st.floats(0.01, 1.0),
    st.one_of(st.none(), st.integers(2, 500)),
    st.sampled_from(["economy", "balanced", "faithful"]),
)
def test_limits_are_in_order_for_every_budget(
    budget: int, overhead: int, factor: float, threshold: float, most: int | None, policy: Any
) -> None:
    config = LcmConfig(
        context_policy=policy,
        context_threshold=threshold,
        hard_threshold=max(threshold, 0.95),
        max_active_messages=most,
    )
    found = limits_for(config, Call(budget, overhead), factor=factor)
    assert 0 < found.soft <= found.hard <= max(1, budget)
    assert 0 < found.tail_tokens <= max(1, found.soft)
    assert 0 < found.leaf_target <= 1_200
    assert found.tail_count >= 1
    assert found.leaf_fanout >= 1
    assert most is None or found.tail_count + found.leaf_fanout <= most
    assert found.fanout_hard <= found.fanout
