"""Depths from lineage alone."""

from __future__ import annotations

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_plugin.errors import InputError
from lcm_plugin.store.lineage import depths_from_lineage


def test_leaves_are_zero_and_condensed_one_more_than_their_deepest_source() -> None:
    sources = {"a": [], "b": [], "c": ["a", "b"], "d": ["c", "a"], "e": ["d"]}
    assert depths_from_lineage(sources, frozenset("ab")) == {"a": 0, "b": 0, "c": 1, "d": 2, "e": 3}


def test_a_condensed_summary_whose_sources_are_gone_is_one() -> None:
    assert depths_from_lineage({"c": [], "d": ["gone"], "e": ["c"]}, frozenset()) == {"c": 1, "d": 1, "e": 2}


def test_a_circle_is_named() -> None:
    with pytest.raises(InputError, match="made from itself"):
        depths_from_lineage({"a": ["b"], "b": ["a"]}, frozenset())


def test_a_chain_of_any_length_is_walked_without_recursion() -> None:
    chain = {str(n): [str(n - 1)] if n else [] for n in range(20_000)}
    assert depths_from_lineage(chain, frozenset({"0"}))["19999"] == 19_999


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.lists(st.integers(0, 100), max_size=4), max_size=30))
def test_every_depth_follows_from_its_sources(rows: list[list[int]]) -> None:
    sources = {str(n): [str(s) for s in row if s < n] for n, row in enumerate(rows)}
    leaves = frozenset(name for name, row in sources.items() if not row)
    found = depths_from_lineage(sources, leaves)
    for name, row in sources.items():
        assert found[name] == (max(found[source] for source in row) + 1 if row else 0)
