"""Snippets: short, verbatim, with the matches marked."""

from __future__ import annotations

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_plugin.recall.match import NO_MATCH, Matcher, Matches, make_snippet
from lcm_plugin.recall.query import parse_query


def snippet(pattern: str, text: str, width: int = 80) -> str:
    return make_snippet(text, Matcher(parse_query(pattern)).find(text), width)


def test_matches_are_marked() -> None:
    assert snippet("lamps red", "One red lamp.") == "One **red** **lamp**."


def test_the_densest_place_is_shown() -> None:
    text = "lamp " + "x " * 200 + "the red lamp stood here " + "y " * 200
    shown = snippet("red lamp", text)
    assert "**red** **lamp** stood" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_where_all_words_stand_beats_where_one_is_repeated() -> None:
    text = (
        "The lamp, a lamp and one more lamp. " * 3
        + "x " * 200
        + "The green lamp was inspected. "
        + "y " * 200
    )
    assert "**green** **lamp** was **inspected**" in snippet("when was the green lamp inspected?", text)


def test_of_two_places_with_as_many_words_the_rarer_ones_are_shown() -> None:
    text = "red lamp. " + "x " * 100 + "red lamp. " + "x " * 100 + "green lamp"
    assert "**green** **lamp**" in snippet("red green lamp", text, 40)


def test_a_match_longer_than_the_snippet_is_shown_whole() -> None:
    text = "x " * 50 + "a" * 90 + " y" * 50 + " b b"
    assert f"**{'a' * 90}**" in make_snippet(text, Matches((((100, 190),),)), 40)


def test_a_text_without_a_match_shows_its_beginning() -> None:
    assert make_snippet("Once upon a time " * 20, NO_MATCH, 40).startswith("Once upon a time")


def test_line_ends_become_blanks() -> None:
    assert snippet("b", "a\n\n b\tc") == "a **b** c"


@settings(deadline=None, max_examples=examples(80))
@given(st.text(max_size=300), st.integers(20, 200))
def test_a_snippet_is_bounded_and_loses_no_character_inside(text: str, width: int) -> None:
    matches = Matcher(parse_query("a b e")).find(text)
    shown = make_snippet(text, matches, width)
    plain = shown.replace("**", "").strip("…")
    if "*" not in text and "…" not in text:
        assert plain in " ".join(text.split())
        longest = max((end - start for start, end in matches.sorted_spans), default=0)
        assert len(plain) <= width + longest
