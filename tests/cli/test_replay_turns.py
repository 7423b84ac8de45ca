"""Cutting a transcript into turns and model calls."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lcm_plugin.cli.replay.turns import split_turns
from lcm_plugin.cli.transcripts import Entry

LETTERS = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}


def entries(letters: str) -> list[Entry]:
    return [Entry({"role": LETTERS[letter], "content": letter}, "") for letter in letters]


def cut(letters: str, known: int = 0) -> list[str]:
    return [
        "".join(e.message["content"] for e in turn.entries) for turn in split_turns(entries(letters), known)
    ]


def calls(letters: str) -> list[tuple[str, bool]]:
    [turn] = split_turns(entries(letters))
    return [("".join(e.message["content"] for e in piece), asked) for piece, asked in turn.calls()]


def test_a_turn_starts_at_each_user_message() -> None:
    assert cut("uauatau") == ["ua", "uata", "u"]


def test_a_system_message_belongs_to_the_user_message_after_it() -> None:
    assert cut("suasua") == ["sua", "sua"]
    assert cut("ssuassua") == ["ssua", "ssua"]


def test_a_system_note_inside_a_turn_does_not_end_it() -> None:
    assert cut("uatsa") == ["uatsa"]


def test_each_model_answer_gets_what_became_known_before_it() -> None:
    assert calls("suattata") == [("su", True), ("att", True), ("at", True), ("a", False)]


def test_what_the_host_says_by_itself_is_no_model_call() -> None:
    assert calls("a") == [("a", False)]
    assert calls("ss") == [("ss", False)]
    assert calls("uaa") == [("u", True), ("aa", False)]
    assert calls("uatsa") == [("u", True), ("ats", True), ("a", False)]


def test_a_run_that_goes_on_in_the_middle_of_a_turn_knows_what_came_before() -> None:
    first, *_ = split_turns(entries("uata"), known=3)
    assert [asked for _, asked in first.calls()] == [True, False]
    first, *_ = split_turns(entries("uaa"), known=2)
    assert [asked for _, asked in first.calls()] == [False]


def test_a_user_message_without_an_answer_is_stored_at_the_turns_end() -> None:
    assert calls("u") == [("u", False)]


@given(st.text("suat", max_size=40), st.integers(0, 40))
def test_turns_hand_over_every_message_after_the_known_ones_once(letters: str, known: int) -> None:
    pieces = [
        entry.message["content"]
        for turn in split_turns(entries(letters), known)
        for piece, _ in turn.calls()
        for entry in piece
    ]
    assert "".join(pieces) == letters[known:]
