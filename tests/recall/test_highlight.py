"""Pieces of a hit: what matches, told apart from a text's own asterisks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcm_plugin.recall.highlight import pieces
from lcm_plugin.recall.match import Matches, make_snippet


@pytest.mark.parametrize(
    ("text", "spans", "expected"),
    [
        ("a red fox", [(2, 5)], [("a ", False), ("red", True), (" fox", False)]),
        ("red fox", [(0, 3)], [("red", True), (" fox", False)]),
        ("the **red** fox", [(6, 9)], [("the **", False), ("red", True), ("** fox", False)]),
        ("**red** fox", [(8, 11)], [("**red** ", False), ("fox", True)]),
        ("no match here", [], [("no match here", False)]),
        ("two red red foxes", [(4, 7), (8, 11)],
         [("two ", False), ("red", True), (" ", False), ("red", True), (" foxes", False)]),
    ],
)  # fmt: skip
def test_matches_are_told_apart_from_the_texts_own_asterisks(
    text: str, spans: list[tuple[int, int]], expected: list[tuple[str, bool]]
) -> None:
    assert pieces(make_snippet(text, Matches((tuple(spans),))), text) == expected


def test_without_the_text_marks_are_taken_as_they_come() -> None:
    assert pieces("a **red** fox") == [("a ", False), ("red", True), (" fox", False)]


@given(st.text(alphabet="ab *", min_size=1, max_size=60), st.data())
def test_the_pieces_are_the_snippet_without_its_marks(text: str, data: st.DataObject) -> None:
    words = [(at, at + 1) for at, one in enumerate(text) if one in "ab"]
    spans = data.draw(st.lists(st.sampled_from(words), unique=True).map(sorted)) if words else []
    merged = [span for at, span in enumerate(spans) if at == 0 or spans[at - 1][1] < span[0]]
    snippet = make_snippet(text, Matches((tuple(merged),)))
    told = "".join(part for part, _ in pieces(snippet, text))
    assert told == " ".join(text.split()) or not merged
