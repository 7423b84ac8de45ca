"""Messages become typed parts and come back byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import assistant, call, result, user

from lcm_plugin.messages.blocks import calls_answered, calls_made
from lcm_plugin.messages.convert import to_message
from lcm_plugin.messages.parts import (
    lift,
    make_parts,
    rebuild,
    skeleton_of,
)
from lcm_plugin.messages.paths import get_at, join_path, put_at, split_path
from lcm_plugin.store.records import PART_TYPES, MessageHead, Part, StoredMessage


def parts_of(message: dict[str, Any]) -> tuple[Part, ...]:
    return make_parts(lift(to_message(message)[0]))


def there_and_back(message: dict[str, Any]) -> dict[str, Any]:
    lifted = lift(to_message(message)[0])
    head = MessageHead(1, 1, 1, message["role"], 0, 0, 0, 1, None, None, None, (), (), False)
    return rebuild(StoredMessage(head, skeleton_of(message, lifted), make_parts(lifted)))


ANTHROPIC_CALL = assistant(
    [
        {"type": "thinking", "thinking": "hm", "signature": "sig=="},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "/tmp", "n": [1, 2.5, None]}},
    ]
)
ANTHROPIC_RESULT = user(
    [
        {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": [{"type": "text", "text": "a\nb"}],
            "is_error": False,
        }
    ]
)
SHAPES = [
    user("plain"),
    {"content": "keys in another order", "role": "user"},
    {"role": "assistant"},
    assistant(None),
    assistant([]),
    user({"odd": ["content"]}),
    user(["bare", {"type": "text", "text": "block"}, 7, None]),
    call("c1", "run", '{"cmd": "ls"}'),
    {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "custom": {"name": "n", "input": "i"}}, "odd"],
    },
    result("c1", "out"),
    {"role": "tool", "tool_call_id": "c1", "name": "run", "content": [{"type": "text", "text": "out"}]},
    assistant("answer", reasoning_content="thought", reasoning_details=[{"type": "x", "data": "y"}]),
    ANTHROPIC_CALL,
    ANTHROPIC_RESULT,
    user([{"type": "image_url", "image_url": {"url": "https://x.test/a.png", "detail": "low"}}]),
    user([{"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}}]),
    user([{"type": "hologram", "depth": {"a.b": [1]}}]),
    user("dots in keys", **{"a.b": {"c\\d": "e"}}),
    {"role": "assistant", "content": "x", "refusal": "no", "finish_reason": "stop", "_host": {"k": True}},
]


@pytest.mark.parametrize("message", SHAPES)
def test_every_shape_comes_back_byte_for_byte(message: dict[str, Any]) -> None:
    assert json.dumps(there_and_back(message)) == json.dumps(message)


def test_a_plain_message_needs_no_skeleton() -> None:
    message = user("hello")
    assert skeleton_of(message, lift(message)) is None
    assert [(part.type, part.path, part.text) for part in parts_of(message)] == [("text", "content", "hello")]


def test_parts_have_the_types_of_the_vocabulary() -> None:
    types = [part.type for message in (ANTHROPIC_CALL, ANTHROPIC_RESULT, call("c"), user([{"type": "image_url",
        "image_url": {"url": "https://x.test"}}])) for part in parts_of(message)]  # fmt: skip
    assert types == ["reasoning", "reasoning", "tool", "tool", "tool", "file"]


@pytest.mark.parametrize(
    "kind", [kind for kind in PART_TYPES if kind not in ("text", "reasoning", "tool", "file")]
)
def test_a_block_of_a_hosts_own_part_type_keeps_it(kind: str) -> None:
    message = assistant([{"type": kind, "payload": {"n": 1}}])
    assert [part.type for part in parts_of(message)] == [kind]
    assert there_and_back(message) == message


def test_calls_and_answers_are_read_from_both_dialects() -> None:
    assert calls_made(call("c1")) == ("c1",)
    assert calls_made(ANTHROPIC_CALL) == ("t1",)
    assert calls_answered(result("c1", "x")) == ("c1",)
    assert calls_answered(ANTHROPIC_RESULT) == ("t1",)


def test_a_text_that_a_database_refuses_keeps_an_exact_copy() -> None:
    (part,) = parts_of(user("a\x00b\ud83d"))
    assert part.text == "a\ufffdb\ufffd"
    assert part.exact == json.dumps("a\x00b\ud83d")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, max_examples=examples(200))
@given(content=json_values, extra=st.dictionaries(st.text(max_size=8), json_values, max_size=3))
def test_any_json_like_message_comes_back(content: Any, extra: dict[str, Any]) -> None:
    message = {**extra, "role": "user", "content": content}
    assert json.dumps(there_and_back(message)) == json.dumps(message)


@given(steps=st.lists(st.text(max_size=6), min_size=1, max_size=4))
def test_a_path_survives_joining_and_splitting(steps: list[str]) -> None:
    assert split_path(join_path(steps)) == steps


def test_a_path_reads_and_writes_through_lists() -> None:
    message = {"content": [{"text": "old"}]}
    put_at(message, "content.0.text", "new")
    assert get_at(message, "content.0.text") == "new"
