"""Which summaries of a context are condensed next."""

from __future__ import annotations

from collections.abc import Iterable

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_plugin.compaction.chunks import CondensationRule, Frontier
from lcm_plugin.store.records import Item

RULE = CondensationRule(chunk_tokens=1_000, min_tokens=0, min_fanout=3)


def items(depths: Iterable[int], tokens: int = 100, fallbacks: Iterable[int] = ()) -> list[Item]:
    return [
        Item(10 * n, "summary", tokens, depth, summary_id=f"sum_{n}", fallback=n in set(fallbacks))
        for n, depth in enumerate(depths, start=1)
    ]


def chosen(frontier: Frontier, rule: CondensationRule = RULE) -> tuple[int, list[int]] | None:
    chunk = frontier.next_chunk(rule)
    return None if chunk is None else (chunk.depth, [item.ordinal for item in chunk.items])


def test_the_oldest_run_of_the_shallowest_depth_comes_first() -> None:
    assert chosen(Frontier(items([1, 1, 1, 0, 0, 0, 0]), set())) == (1, [40, 50, 60, 70])


def test_another_depth_ends_a_run() -> None:
    assert chosen(Frontier(items([0, 0, 1, 0, 0]), set())) is None


def test_a_raw_message_ends_a_run() -> None:
    assert chosen(Frontier(items([0, 0, 0, 0]), {30})) is None
    assert chosen(Frontier(items([0, 0, 0, 0, 0]), {30})) == (1, [30, 40, 50])


def test_a_run_needs_fanout_and_tokens() -> None:
    assert chosen(Frontier(items([0, 0]), set())) is None
    poor = CondensationRule(chunk_tokens=1_000, min_tokens=301, min_fanout=3)
    assert chosen(Frontier(items([0, 0, 0]), set()), poor) is None
    assert chosen(Frontier(items([0, 0, 0, 0]), set()), poor) == (1, [10, 20, 30, 40])


def test_a_run_is_cut_at_the_token_budget_but_not_below_the_fanout() -> None:
    assert chosen(Frontier(items([0] * 20), set())) == (1, [10 * n for n in range(1, 11)])
    assert chosen(Frontier(items([0] * 20, tokens=900), set())) == (1, [10, 20, 30])


def test_summaries_written_because_a_model_failed_wait_except_in_an_emergency() -> None:
    assert chosen(Frontier(items([0, 0, 0, 0], fallbacks=[2]), set())) is None
    emergency = CondensationRule(chunk_tokens=1_000, min_tokens=0, min_fanout=2, with_fallbacks=True)
    assert chosen(Frontier(items([0, 0], fallbacks=[1]), set()), emergency) == (1, [10, 20])


@settings(deadline=None, max_examples=examples(80))
@given(
    st.lists(st.integers(0, 2), max_size=40).map(lambda row: sorted(row, reverse=True)),
    st.integers(2, 4),
    st.sets(st.integers(2, 40)),
)
def test_condensing_until_nothing_is_left_leaves_no_eligible_run_and_loses_nothing(
    depths: list[int], fanout: int, raw_before: set[int]
) -> None:
    rule = CondensationRule(chunk_tokens=500, min_tokens=0, min_fanout=fanout)
    frontier = Frontier(items(depths), {10 * n for n in raw_before})
    passes = 0
    while (chunk := frontier.next_chunk(rule)) is not None:
        assert len({item.depth for item in chunk.items}) == 1
        assert len(chunk.items) >= fanout
        assert not {item.ordinal for item in chunk.items[1:]} & {10 * n for n in raw_before}
        frontier.replace(chunk, Item(chunk.start, "summary", 60, chunk.depth, summary_id=f"new_{passes}"))
        passes += 1
        assert passes <= len(depths)
    left = frontier._items
    runs: list[list[Item]] = []
    for item in left:
        joined = (
            runs and runs[-1][-1].depth == item.depth and item.ordinal not in {10 * n for n in raw_before}
        )
        runs[-1].append(item) if joined else runs.append([item])
    assert all(len(run) < fanout for run in runs)
