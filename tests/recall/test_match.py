"""Snippets: short, verbatim, with the matches marked."""

from __future__ import annotations

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_plugin.recall.match import Matcher, make_snippet
from lcm_plugin.recall.query import parse_query


def snippet(pattern: str, text: str, width: int = 80) -> str:
    return make_snippet(text, Matcher(parse_query(pattern)).find(text).sorted_spans, width)


def test_matches_are_marked() -> None:
    assert snippet("lamps red", "One red lamp.") == "One **red** **lamp**."


def test_the_densest_place_is_shown() -> None:
    text = "lamp " + "x " * 200 + "the red lamp stood here " + "y " * 200
    shown = snippet("red lamp", text)
    assert "**red** **lamp** stood" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_a_text_without_a_match_shows_its_beginning() -> None:
    assert make_snippet("Once upon a time " * 20, (), 40).startswith("Once upon a time")


def test_line_ends_become_blanks() -> None:
    assert snippet("b", "a\n\n b\tc") == "a **b** c"


@settings(deadline=None, max_examples=examples(80))
@given(st.text(max_size=300), st.integers(20, 200))
def test_a_snippet_is_bounded_and_loses_no_character_inside(text: str, width: int) -> None:
    spans = Matcher(parse_query("a b e")).find(text).sorted_spans
    shown = make_snippet(text, spans, width)
    plain = shown.replace("**", "").strip("…")
    if "*" not in text and "…" not in text:
        assert plain in " ".join(text.split())
        longest = max((end - start for start, end in spans), default=0)
        assert len(plain) <= width + longest
