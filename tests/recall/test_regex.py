"""Regular expressions: what they need, and what an index may require of a row."""

from __future__ import annotations

import time

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_plugin.errors import InputError
from lcm_plugin.recall.regex import RegexSearch, compile_regex, required_condition
from lcm_plugin.store.search import AllOf, AnyOf, Condition, Substring


def holds(condition: Condition | None, text: str) -> bool:
    """Whether a text can match, as an index that minds no case would say."""
    if condition is None:
        return True
    if isinstance(condition, Substring):
        return condition.text.lower() in text.lower()
    verdicts = [holds(term, text) for term in condition.terms]
    return all(verdicts) if isinstance(condition, AllOf) else any(verdicts)


@pytest.mark.parametrize(
    ("pattern", "condition"),
    [
        ("timeout", Substring("timeout")),
        (r"error: \d+ lines", AllOf((Substring("error: "), Substring(" lines")))),
        ("(foo|barn)+ing", AllOf((AnyOf((Substring("foo"), Substring("barn"))), Substring("ing")))),
        ("colou?r", Substring("colo")),
        ("abc+def", AllOf((Substring("abc"), Substring("cdef")))),
        (r"a\.b\.c", Substring("a.b.c")),
        ("(?i)Hello", Substring("Hello")),
        (r"^\w+$", None),
        ("ab|cdef", None),
        ("x?y*", None),
        (r"\x41bcdef", None),
        ("", None),
    ],
)
def test_what_a_pattern_requires(pattern: str, condition: Condition | None) -> None:
    assert required_condition(pattern) == condition


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (r"foo(?=bar)", "look-around"),
        (r"(?<!x)y", "look-around"),
        (r"(a)\1", "back-references"),
        (r"a++b", "possessive"),
        (r"(?>ab)", "atomic"),
    ],
)
def test_what_re2_lacks_is_named(pattern: str, name: str) -> None:
    with pytest.raises(InputError, match=name):
        compile_regex(pattern)


@pytest.mark.parametrize("pattern", ["(", "[a", "*a", "a{2000}", ")"])
def test_a_broken_pattern_is_told(pattern: str) -> None:
    with pytest.raises(InputError, match="not a valid RE2 regular expression"):
        compile_regex(pattern)


@pytest.mark.parametrize("pattern", ["(a|a)*$", "(a+)+$", "(.*)*x"])
def test_no_pattern_runs_away(pattern: str) -> None:
    started = time.process_time()
    RegexSearch(pattern).spans("a" * 20_000 + "!")
    assert time.process_time() - started < 30


def test_spans_are_offsets_of_the_text_as_it_is() -> None:
    text = "naïve 静默 café x=1"
    spans = RegexSearch(r"café x=\d").spans(text)
    assert [text[start:end] for start, end in spans] == ["café x=1"]


def test_a_lone_surrogate_in_a_text_is_no_obstacle() -> None:
    assert RegexSearch("b+").spans("a\ud83dbb") == ((2, 4),)


_PIECES = st.sampled_from(
    [
        "abc",
        "b",
        "(abc|bca)",
        "(?:ab)",
        "c+",
        "a?",
        "b*",
        "[ab]",
        ".",
        "(a|b|abc){2}",
        "cab{1,2}",
        "(?:abc)?",
        "^",
        "$",
        r"\w",
    ]
)


@settings(deadline=None, max_examples=examples(150))
@given(st.lists(_PIECES, min_size=1, max_size=6), st.text(alphabet="abc\n", max_size=14))
def test_no_match_is_ruled_out(pieces: list[str], text: str) -> None:
    pattern = "".join(pieces)
    if compile_regex(pattern).search(text):
        assert holds(required_condition(pattern), text)


@settings(deadline=None, max_examples=examples(80))
@given(st.text(alphabet=r"ab(|)[]*+?{}^$.\d1,:-", max_size=14))
def test_any_pattern_is_refused_or_understood(pattern: str) -> None:
    try:
        compile_regex(pattern)
    except InputError:
        return
    required_condition(pattern)
