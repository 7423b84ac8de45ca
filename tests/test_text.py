"""Counts with their nouns."""

from __future__ import annotations

import pytest

from lcm_plugin.text import plural


@pytest.mark.parametrize(
    ("count", "noun", "words"),
    [
        (1, "row", "1 row"),
        (0, "message", "0 messages"),
        (2_000, "row", "2,000 rows"),
        (3, "summary", "3 summaries"),
        (2, "key", "2 keys"),
        (2, "branch", "2 branches"),
        (5, "sub-agent", "5 sub-agents"),
    ],
)
def test_a_count_agrees_with_its_noun(count: int, noun: str, words: str) -> None:
    assert plural(count, noun) == words
