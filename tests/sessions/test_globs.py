"""Session globs against an independent definition, an oracle, and the examples of a peer."""

from __future__ import annotations

import time

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_plugin.sessions.globs import matches, matches_any

ALPHABET = "ab:A\né.*?[]+ "
TOKENS = st.one_of(st.sampled_from(["*", "**", ":", "a", "b"]), st.text(ALPHABET, min_size=1, max_size=2))
PATTERNS = st.lists(TOKENS, max_size=7).map("".join)
KEYS = st.text(ALPHABET, max_size=9)


def defined(pattern: str, key: str) -> bool:
    """The rule as the documentation says it, by trying every way to split the key."""
    if not pattern:
        return not key
    stars = len(pattern) - len(pattern.lstrip("*"))
    if stars == 0:
        return key[:1] == pattern[0] and defined(pattern[1:], key[1:])
    return any(
        defined(pattern[stars:], key[taken:])
        for taken in range(len(key) + 1)
        if stars > 1 or ":" not in key[:taken]
    )


@settings(max_examples=examples(600), deadline=None)
@given(PATTERNS, KEYS)
def test_a_glob_matches_what_the_definition_says(pattern: str, key: str) -> None:
    assert matches(pattern, key) is defined(pattern, key)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.sampled_from(["*", "**", ":", "a", "b", "\n", "é"]), max_size=6), st.data())
def test_a_key_made_from_a_pattern_matches_it(tokens: list[str], data: st.DataObject) -> None:
    fill = {"*": st.text("ab\né", max_size=3), "**": st.text("ab:\né", max_size=4)}
    key = "".join(data.draw(fill[token]) if token in fill else token for token in tokens)
    assert matches("".join(tokens), key)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.text("ab*", min_size=1, max_size=3), min_size=1, max_size=4), st.data())
def test_it_agrees_with_fnmatch2_where_the_rules_are_the_same(pieces: list[str], data: st.DataObject) -> None:
    """fnmatch2 matches path by path, only a prefix of a longer path, and ``**`` only as a whole piece."""
    oracle = pytest.importorskip("fnmatch2").fnmatchcase2
    pieces = [piece.replace("**", "*a") for piece in pieces]
    names = data.draw(st.lists(st.text("ab", max_size=4), min_size=len(pieces), max_size=len(pieces)))
    assert matches(":".join(pieces), ":".join(names)) is oracle("/".join(names), "/".join(pieces))


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("agent:*:cron:**", "agent:main:cron:daily:run:17", True),
        ("agent:*:cron:**", "agent:main:sub:cron:daily", False),
        ("agent:*:cron:**", "agent:main:cron:", True),
        ("agent:*:cron:**", "agent:main:cron", False),
        ("agent:main:subagent:**", "agent:main:subagent:a:b", True),
        ("agent:*:subagent:**", "agent:ops:subagent:7", True),
        ("agent:*:heartbeat", "agent:main:heartbeat", True),
        ("agent:*:heartbeat", "agent:main:heartbeat:1", False),
        ("agent:*", "agent:main", True),
        ("agent:*", "agent:main:main", False),
        ("*", "", True),
        ("", "", True),
        ("", "x", False),
        ("**", "any:thing\nat all", True),
        ("a?", "a", False),
        ("a?", "a?", True),
        ("a.c", "abc", False),
        ("[ab]", "a", False),
        ("agent:Main", "agent:main", False),
        ("main", "agent:main:main", False),
        ("a*", "a\nb", True),
        ("***", "a:b", True),
        ("*:*", "a:b", True),
        ("*:*", "a:b:c", False),
    ],
)
def test_examples(pattern: str, key: str, expected: bool) -> None:
    assert matches(pattern, key) is expected


def test_one_of_several_is_enough() -> None:
    assert matches_any(["x", "agent:*:cron:**"], "agent:a:cron:1")
    assert not matches_any([], "x")


def test_many_stars_take_linear_time() -> None:
    pattern, key = "*a" * 30 + "b", "a" * 20_000
    start = time.process_time()
    assert not matches(pattern, key)
    assert time.process_time() - start < 10
