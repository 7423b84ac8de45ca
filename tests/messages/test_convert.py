"""Whatever a host hands over becomes JSON values, the same ones each time."""

from __future__ import annotations

import dataclasses
import enum
import json
import sys
import uuid
from collections import OrderedDict, deque, namedtuple
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from lcm_plugin.errors import InputError
from lcm_plugin.messages.convert import MOST_DEPTH, broken_record, safe_repr, to_message


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Reply(BaseModel):
    role: str = "assistant"
    content: object = None


class Opaque:
    pass


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


Pair = namedtuple("Pair", "one two")


def stored(value: object) -> Any:
    return to_message({"role": "user", "content": value})[0]["content"]


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (datetime(2026, 5, 1, 10, tzinfo=UTC), "2026-05-01T10:00:00Z"),
        (date(2026, 5, 1), "2026-05-01"),
        (timedelta(hours=2), "PT2H"),
        (Decimal("1.50"), "1.50"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (Path("a"), "a"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Point(1, 2), {"x": 1, "y": 2}),
        (Reply(content=b"hi"), {"role": "assistant", "content": "hi"}),
        (Pair(1, 2), [1, 2]),
        (deque([1, 2]), [1, 2]),
        (OrderedDict(a=1), {"a": 1}),
        ({"b", "a"}, ["a", "b"]),
        (frozenset({2, 1}), [1, 2]),
        (b"text", "text"),
        (b"\xff\x00", "data:application/octet-stream;base64,/wA="),
        (Opaque(), {"lcm_value": f"{__name__}.Opaque", "repr": f"<{__name__}.Opaque object>"}),
        (ValueError("x"), {"lcm_value": "builtins.ValueError", "repr": "ValueError('x')"}),
        (Hostile(), {"lcm_value": f"{__name__}.Hostile", "repr": "<unprintable Hostile>"}),
        ({1: "a", None: "b", (1, 2): "c"}, {"1": "a", "null": "b", "(1, 2)": "c"}),
        ({1: "a", "1": "b"}, {"1": "a", "1'": "b"}),
        pytest.param(10**5000, {"lcm_value": "int", "hex": hex(10**5000)}, id="huge"),
    ],
)
def test_values_that_json_lacks_are_converted_by_the_table(value: object, kept: object) -> None:
    assert stored(value) == kept
    json.dumps(stored(value))


def test_a_generator_is_not_used_up() -> None:
    words = (word for word in ("one", "two"))
    assert stored(words)["lcm_value"] == "builtins.generator"
    assert list(words) == ["one", "two"]


def test_a_message_may_be_a_pydantic_object() -> None:
    assert to_message(Reply(content="hi"))[0] == {"role": "assistant", "content": "hi"}


def test_what_was_converted_is_named_with_its_place() -> None:
    message = {"role": "user", "content": [{"at": datetime(2026, 5, 1)}], 3: 4}
    assert to_message(message)[1] == (".content[0].at: datetime", ": key int")


def test_plain_json_is_left_alone_and_copied() -> None:
    message = {"role": "user", "content": [{"a": [1, 2.5, None, True, "x"]}], "odd": {}}
    copied, notes = to_message(message)
    assert (copied, notes) == (message, ())
    assert copied["content"] is not message["content"]


def test_a_container_inside_itself_ends() -> None:
    message: dict[str, Any] = {"role": "user"}
    message["content"] = [message, "after"]
    assert to_message(message)[0]["content"] == [{"lcm_value": "cycle"}, "after"]


@pytest.mark.long
@pytest.mark.parametrize("depth", [MOST_DEPTH + 5, 990, 20_000])
def test_deep_nesting_is_kept_as_text(depth: int) -> None:
    deep: Any = {"end": [1, "two", None, True]}
    for _ in range(depth):
        deep = [deep]
    value = stored(deep)
    levels = 0
    while isinstance(value, list):
        value, levels = value[0], levels + 1
    assert levels < MOST_DEPTH
    inside = value["json"]
    assert inside.count("[") - 1 + levels == depth
    assert '{"end":[1,"two",null,true]}' in inside


@pytest.mark.long
def test_too_many_values_are_refused_in_bounded_time() -> None:
    many: Any = ["x"]
    for _ in range(40):
        many = [many] * 10
    with pytest.raises(InputError, match="more than"):
        stored(many)


@pytest.mark.parametrize(
    "value", ["text", None, 7, [{"role": "user"}], {"content": "x"}, Opaque(), {"role": " "}]
)
def test_what_is_no_message_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="a message"):
        to_message(value)


def test_a_broken_record_keeps_role_text_and_ids() -> None:
    message = {"role": "tool", "tool_call_id": "c1", "content": ["one", {"text": "two"}, 3], "id": "h1"}
    record = broken_record(message, ValueError(f"odd thing {Opaque()!r}"))
    assert record["role"] == "tool"
    assert (record["tool_call_id"], record["id"]) == ("c1", "h1")
    assert record["content"][0] == {"type": "text", "text": "one\ntwo"}
    assert "ValueError: odd thing" in record["content"][1]["text"]
    assert " at 0x" not in json.dumps(record)
    assert record == broken_record(dict(message), ValueError(f"odd thing {Opaque()!r}"))


ANYTHING = st.recursive(
    st.sampled_from([None, True, 1.5, "a\ud83d", b"\xff", 10**400, Opaque(), Colour.RED, {1, "a"}, 1j])
    | st.integers()
    | st.builds(Hostile)
    | st.text(max_size=5)
    | st.datetimes(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=3) | st.integers() | st.none() | st.binary(max_size=3), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(ANYTHING)
def test_any_value_becomes_json_or_a_broken_record_twice_the_same(value: object) -> None:
    first, second = stored(value), stored(value)
    assert json.dumps(first) == json.dumps(second)
    again, notes = to_message({"role": "user", "content": first})
    assert json.dumps(again["content"]) == json.dumps(first)
    assert notes == ()
    json.dumps(broken_record(value, RuntimeError("x")))
    assert len(safe_repr(value, 80)) <= max(80, len("<unprintable >") + 80)


def test_a_nearly_used_up_stack_is_no_fault_of_the_message() -> None:
    from lcm_plugin.ingest.intake import with_room_to_recurse

    def deeper(left: int) -> int:
        return deeper(left - 1) if left else with_room_to_recurse(lambda: recurse(200))

    def recurse(left: int) -> int:
        return 1 + recurse(left - 1) if left else 0

    assert deeper(sys.getrecursionlimit() - 250) == 200
