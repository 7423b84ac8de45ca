"""The proof of a replay: what counts as recovered."""

from __future__ import annotations

from lcm_plugin.cli.replay.proof import places
from lcm_plugin.types import Message

ROLES = {"s": "system", "u": "user", "a": "assistant"}


def said(letters: str) -> list[Message]:
    """Messages by role; an upper-case letter is another text."""
    return [{"role": ROLES[letter.lower()], "content": letter} for letter in letters]


def found(expected: str, stored: str) -> list[int | None]:
    return list(places(said(expected), said(stored)))


def test_each_message_has_its_own_place() -> None:
    assert found("suaua", "suaua") == [0, 1, 2, 3, 4]


def test_an_instruction_that_comes_again_has_the_place_of_the_first() -> None:
    assert found("suaSuasua", "suaSuaua") == [0, 1, 2, 3, 4, 5, 0, 6, 7]


def test_words_of_the_talk_that_come_again_are_missing_when_they_are_stored_once() -> None:
    assert found("uaua", "ua") == [0, 1, None, None]


def test_an_instruction_that_was_never_stored_is_missing() -> None:
    assert found("suSu", "suu") == [0, 1, None, 2]


def test_what_comes_in_another_order_is_missing() -> None:
    assert found("uaU", "uUa") == [0, None, 1]
