"""A conversion is made once of the same value, and anew of every other one, however alike."""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from copy import deepcopy
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcm_plugin.messages import conversions
from lcm_plugin.messages.conversions import Conversions, FixedMessages, ListConversions


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
    assert len(counted.made) == 1


def test_a_value_changed_in_place_is_another_one() -> None:
    convert: Conversions[Any, str] = Conversions(Counted())
    value = {"content": [{"text": "before"}]}
    before = convert(value)
    value["content"][0]["text"] = "after"
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
    convert("message 999")
    assert len(counted.made) == 1_001
    convert("message 0")
    convert("x" * 4_000)
    convert("x" * 4_000)
    assert len(counted.made) == 1_004


class Lists:
    """Lists of one name, converted; ``asked`` are the places that the last one had converted."""

    def __init__(self, *, exact: bool = True) -> None:
        self.convert: ListConversions[Any, str] = ListConversions(exact=exact)
        self.asked: list[int] = []

    def __call__(self, values: Sequence[Any], name: str = "lane") -> list[str]:
        self.asked = []

        def one(place: int) -> str:
            self.asked.append(place)
            return repr(values[place])

        return self.convert(name, values, one)


def talk(count: int) -> list[Any]:
    return [{"content": f"message {n}", "more": [{"of": "it"}]} for n in range(count)]


def test_of_a_list_that_grew_only_the_new_end_is_converted() -> None:
    lists, values = Lists(), talk(5)
    lists(values)
    assert lists.asked == [0, 1, 2, 3, 4]
    assert lists(deepcopy([*values, *values[:2]])) == [repr(value) for value in [*values, *values[:2]]]
    assert lists.asked == [5, 6]
    lists(values, "another lane")
    assert lists.asked == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("part", ["text", "kind", "extra"])
def test_a_value_is_another_one_when_any_of_its_parts_changed(part: str) -> None:
    convert: ListConversions[Any, str] = ListConversions(
        itemgetter("text"), itemgetter("kind"), itemgetter("extra"), exact=False
    )
    values = [{"text": f"message {n}", "kind": str, "extra": None} for n in range(4)]
    convert("lane", values, lambda place: "before")
    values[2][part] = {"text": "changed", "kind": int, "extra": {"k": "v"}}[part]
    assert convert("lane", values, lambda place: "after") == ["before", "before", "after", "before"]
    assert convert("lane", values, lambda place: "again") == ["before", "before", "after", "before"]
    assert convert("lane", values[1:], lambda place: "again") == ["before", "after", "before"]


@pytest.mark.parametrize("width", [2, 4])
def test_of_a_window_that_slides_over_a_list_only_the_new_end_is_converted(width: int) -> None:
    lists, values = Lists(), talk(9)
    for start in range(9 - width):
        assert lists(values[start : start + width]) == [
            repr(value) for value in values[start : start + width]
        ]
        assert lists.asked == (list(range(width)) if start == 0 else [width - 1])


def change_content(values: list[Any]) -> None:
    values[1]["content"] = "edited"


def change_inside(values: list[Any]) -> None:
    values[1]["more"][0]["of"] = "edited"


def add_key(values: list[Any]) -> None:
    values[1]["name"] = "edited"


@pytest.mark.parametrize("change", [change_content, change_inside, add_key])
@pytest.mark.parametrize("exact", [True, False])
def test_what_was_changed_in_place_is_converted_anew(
    change: Callable[[list[Any]], None], exact: bool
) -> None:
    lists, values = Lists(exact=exact), talk(4)
    lists(values)
    change(values)
    assert lists(values) == [repr(value) for value in values]
    assert lists.asked == [1]


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0.0, -0.0), ([1], (1,))])
def test_an_exact_list_tells_apart_what_python_calls_equal(one: Any, other: Any) -> None:
    lists = Lists()
    lists([{"deep": [{"v": one}]}])
    assert lists([{"deep": [{"v": other}]}]) == [repr({"deep": [{"v": other}]})]
    lists([{"deep": [{"v": other}]}])
    assert lists.asked == []


class Raises:
    def __eq__(self, other: object) -> bool:
        raise ValueError("compared")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("value", [b"ab", array.array("b", [1]), Raises(), {1: "x"}])
def test_what_is_no_json_in_a_list_is_converted_each_time(value: Any) -> None:
    lists = Lists()
    lists(["plain", [value]])
    assert lists(["plain", [value]])[0] == "'plain'"
    assert 1 in lists.asked
    assert lists(["plain", "now plain"]) == ["'plain'", "'now plain'"]


def test_a_value_that_cannot_even_be_compared_does_not_stop_a_list() -> None:
    lists = Lists()
    lists(["plain", "text"])
    assert lists(["plain", Raises()])[0] == "'plain'"


def test_fixed_messages_are_known_by_their_identity() -> None:
    lists, values = Lists(), [{"role": "user", "content": "x", "n": 1} for _ in range(3)]
    lists(FixedMessages(values))
    lists(FixedMessages([*values, {"role": "user"}]))
    assert lists.asked == [3]
    lists(FixedMessages([dict(values[0]), *values[1:]]))
    assert lists.asked == [0]


class Untouched(dict[str, Any]):
    """A message that nobody may look at."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    __hash__ = None  # type: ignore[assignment]


def test_lists_that_begin_as_one_line_does_are_not_compared_there() -> None:
    source: ListConversions[Any, Any] = ListConversions(exact=False)
    values = [{"role": "user", "content": str(n)} for n in range(6)]
    made = [Untouched(value) for value in values]
    lists = Lists()
    four = source("lane", values[:4], made.__getitem__)
    lists(FixedMessages(four, four.line, len(four)))
    six = source("lane", values, made.__getitem__)
    assert six.line is four.line
    assert lists(FixedMessages(six, six.line, len(six)))[5] == repr(made[5])
    assert lists.asked == [4, 5]
    assert six.column("text", lambda one: one["content"]) == list("012345")
    values[1] = {"role": "user", "content": "changed"}
    made[1] = Untouched(values[1])
    changed = source("lane", values, made.__getitem__)
    assert changed.line is not six.line
    assert lists(FixedMessages(changed, changed.line, len(changed)))[1] == repr(made[1])
    assert lists.asked == [1]


def test_a_list_that_got_shorter_and_grows_otherwise_is_another_line() -> None:
    source: ListConversions[Any, Any] = ListConversions(exact=False)
    lists, lines = Lists(), []
    for words in ("abcd", "ab", "abxy"):
        found = source("lane", list(words), lambda place, words=words: {"content": words[place]})  # type: ignore[misc]
        lines.append(found.line)
        values = [repr({"content": word}) for word in words]
        assert lists(FixedMessages(found, found.line, len(found))) == values
        assert found.column("text", lambda one: one["content"]) == list(words)
    assert len(set(lines)) == 3 or lines[0] is not lines[2]


def test_the_same_objects_are_compared_again_only_where_they_are_new_or_asked_for() -> None:
    convert: ListConversions[Any, str] = ListConversions(itemgetter("text"), exact=False)
    values: list[Any] = [{"text": str(n)} for n in range(100)]

    def texts(**options: bool) -> list[str]:
        return convert("lane", values, lambda place: str(values[place]["text"]), **options)

    texts(again=True)
    values[5]["text"], values[95]["text"] = "old", "new"
    assert (texts(closely=False, again=True)[5], texts(closely=False, again=True)[95]) == ("5", "new")
    assert texts(again=True)[5] == "old"
    values[5] = {"text": "another"}
    assert texts(closely=False)[5] == "another"
    values[6]["text"] = "looked at, for the objects were not kept"
    assert texts(closely=False)[6] == values[6]["text"]


def test_of_many_lists_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversions, "_MOST_BYTES", 1_000)
    lists = Lists()
    for number in range(20):
        lists(["x" * 90], str(number))
    lists(["x" * 90], "19")
    assert lists.asked == []
    lists(["x" * 90], "0")
    assert lists.asked == [0]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([0.0, -0.0, 1.0]) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("kl"), inner, max_size=2),
    max_leaves=4,
)


@given(st.lists(st.lists(_VALUES, max_size=5), max_size=6))
def test_a_list_has_the_results_that_its_values_have_alone(listings: list[list[Any]]) -> None:
    convert: ListConversions[Any, str] = ListConversions(exact=True)
    for values in listings:
        found = convert("lane", values, lambda place, values=values: repr(values[place]))  # type: ignore[misc]
        # Dictionaries are equal in any order of their keys.
        assert [sorted(one) for one in found] == [sorted(repr(value)) for value in values]
