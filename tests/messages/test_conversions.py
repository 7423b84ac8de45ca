"""A conversion is made once of the same value, and anew of every other one, however alike."""

from __future__ import annotations

import array
from typing import Any

import pytest

from lcm_plugin.messages import conversions
from lcm_plugin.messages.conversions import Conversions


class Counted:
    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, value: Any) -> str:
        self.made.append(repr(value))
        return repr(value)


def test_the_same_value_is_converted_once_whichever_object_holds_it() -> None:
    counted = Counted()
    convert: Conversions[Any, str] = Conversions(counted)
    assert convert({"a": ["x", None, 1.5]}) == convert({"a": ["x", None, 1.5]})
    assert convert.known([{"a": ["x", None, 1.5]}, {"a": []}]) == ["{'a': ['x', None, 1.5]}", None]
    assert len(counted.made) == 1


def test_a_value_changed_in_place_is_another_one() -> None:
    convert: Conversions[Any, str] = Conversions(Counted())
    value = {"content": [{"text": "before"}]}
    before = convert(value)
    value["content"][0]["text"] = "after"
    assert convert.known([value]) == [None]
    assert convert(value) != before


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, 1.0), (0.0, -0.0), ([1], (1,)), (None, ""), ({"a": 1, "b": 2}, {"b": 2, "a": 1})],
)
def test_values_that_python_calls_equal_are_told_apart(one: Any, other: Any) -> None:
    convert: Conversions[Any, str] = Conversions(repr)
    assert convert({"v": one}) == repr({"v": one})
    assert convert({"v": other}) == repr({"v": other})


@pytest.mark.parametrize("value", [b"ab", array.array("b", [1]), object(), {1: 2}, float("nan")])
def test_what_is_no_json_is_converted_each_time(value: Any) -> None:
    counted = Counted()
    convert: Conversions[Any, str] = Conversions(counted)
    convert([value])
    convert([value])
    assert len(counted.made) == 2


def test_only_so_much_is_kept_and_the_newest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversions, "_MOST_BYTES", 4_000)
    monkeypatch.setattr(conversions, "_LONGEST", 250)
    counted = Counted()
    convert: Conversions[Any, str] = Conversions(counted)
    for number in range(1_000):
        convert(f"message {number}")
        convert("used at every turn")
    assert len(counted.made) == 1_001
    assert len(convert._newer) + len(convert._older) < 1_000
    assert convert.known(["message 0", "message 999"]) == [None, "'message 999'"]
    convert("x" * 4_000)
    assert convert.known(["x" * 4_000]) == [None]
