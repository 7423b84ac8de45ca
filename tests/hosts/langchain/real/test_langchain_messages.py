"""Every message comes back equal, and what the core made of one is a message again."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from lcm_plugin import Engine, Session
from lcm_plugin.hosts.langchain.messages import from_core, to_core

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
CALL = {
    "name": "look",
    "args": {"place": "shed", "deep": {"n": [1, 2.5, None]}},
    "id": "call_1",
    "type": "tool_call",
}
USAGE = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12, "input_token_details": {"cache_read": 4}}
MESSAGES: list[BaseMessage] = [
    HumanMessage("hello", id="h1", name="ann", additional_kwargs={"mood": "good"}),
    HumanMessage([{"type": "text", "text": "look"}, PICTURE, "and say"], id="h2"),
    SystemMessage("be kind", id="s1"),
    SystemMessage([{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}]),
    AIMessage("hi", id="run-1", response_metadata={"model_name": "m", "logprobs": [0.25]}, usage_metadata=USAGE),
    AIMessage("", id="run-2", tool_calls=[CALL, {**CALL, "id": "call_2", "args": {}}], name="gardener"),
    AIMessage(
        [
            {"type": "thinking", "thinking": "the shed", "signature": "c2ln"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "call_1", "name": "look", "input": CALL["args"]},
        ],
        tool_calls=[CALL],
    ),
    AIMessage(
        [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": '{"a":1}'},
        ],
        tool_calls=[{**CALL, "args": {"a": 1}}],
    ),
    AIMessage([{"type": "tool_use", "id": "call_1", "name": "look", "input": {}, "partial_json": "{}"}],
              tool_calls=[CALL]),
    AIMessage("", invalid_tool_calls=[{"name": "look", "args": "{not json", "id": "call_3", "error": "bad",
                                       "type": "invalid_tool_call"}]),
    AIMessage("", tool_calls=[{**CALL, "id": None}]),
    AIMessageChunk("part", id="run-3", tool_call_chunks=[]),
    ToolMessage("a spade", tool_call_id="call_1", name="look", id="t1", status="error",
                artifact={"rows": [[1, "x"], [2, None]]}),
    ToolMessage([{"type": "text", "text": "a spade"}, PICTURE], tool_call_id="call_2", artifact=[1, 2]),
    ToolMessage("docs", tool_call_id="call_3", artifact=[Document("deep in the shed", metadata={"page": 3})]),
    ToolMessage("", tool_call_id="call_4"),
    ToolMessage("sum", tool_call_id="call_5", artifact=(1, b"\x00\xff", {"deep": Document("x")})),
    HumanMessage([{"type": "text", "text": "hear"}, {"type": "media", "mime_type": "audio/wav", "data": b"RIFF"}]),
    ChatMessage("psst", role="critic"),
    ChatMessage("yes", role="assistant"),
    FunctionMessage("old", name="look"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MESSAGES)))
def test_a_message_comes_back_equal(engine: Engine, number: int) -> None:
    message = MESSAGES[number]
    session = Session("langchain:messages")
    engine.ingest(session, [to_core(message)], "all")
    [stored] = engine.messages(session)
    assert json.loads(json.dumps(stored)) == stored
    [back] = from_core(stored, exact=True)
    assert type(back) is type(message)
    assert back.model_dump(exclude={"artifact"}) == message.model_dump(exclude={"artifact"})
    artifact = getattr(message, "artifact", None)
    assert getattr(back, "artifact", None) == (list(artifact) if isinstance(artifact, tuple) else artifact)


TEXTS = st.text(max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
DICTS = st.dictionaries(TEXTS, JSON, max_size=3)
IDS = st.none() | st.text("abc123", min_size=1, max_size=6)
CALLS = st.builds(
    lambda args, call_id: {**CALL, "args": args, "id": call_id}, DICTS, st.text("xyz", min_size=1)
)
ANY_MESSAGE = st.one_of(
    st.builds(HumanMessage, content=TEXTS, id=IDS, additional_kwargs=DICTS),
    st.builds(AIMessage, content=TEXTS, id=IDS, response_metadata=DICTS,
              tool_calls=st.lists(CALLS, max_size=3, unique_by=lambda call: call["id"])),
    st.builds(ToolMessage, content=TEXTS, tool_call_id=st.text("xyz", min_size=1), artifact=JSON,
              status=st.sampled_from(["success", "error"])),
)  # fmt: skip


@given(ANY_MESSAGE)
def test_any_message_comes_back_equal(message: BaseMessage) -> None:
    [back] = from_core(json.loads(json.dumps(to_core(message))), exact=True)
    assert back == message


def test_an_artifact_costs_no_tokens(engine: Engine) -> None:
    plain = ToolMessage("a spade", tool_call_id="call_1")
    heavy = ToolMessage("a spade", tool_call_id="call_1", artifact=["word"] * 5_000)
    assert engine.count_tokens(to_core(plain)) == engine.count_tokens(to_core(heavy))


def test_an_artifact_that_no_form_can_hold_is_named() -> None:
    message = ToolMessage("x", tool_call_id="call_1", artifact=object())
    [back] = from_core(json.loads(json.dumps(to_core(message))), exact=True)
    assert "object" in str(back.artifact)


def test_a_garbled_call_is_shown_with_a_result(engine: Engine) -> None:
    session = Session("langchain:garbled")
    messages = [HumanMessage("look"), MESSAGES[9], HumanMessage("again")]
    engine.ingest(session, [to_core(message) for message in messages], "all")
    shown = [one for message in engine.assemble(session, 4_000).messages for one in from_core(message)]
    assert [message.type for message in shown] == ["human", "ai", "tool", "human"]
    asked: Any = shown[1]
    assert asked.tool_calls[0]["args"] == {"unreadable_arguments": "{not json"}
    assert shown[2].tool_call_id == "call_3"  # type: ignore[attr-defined]


def test_a_lost_result_of_a_call_in_the_content_becomes_a_tool_message(engine: Engine) -> None:
    session = Session("langchain:lost")
    engine.ingest(
        session, [to_core(m) for m in (HumanMessage("look"), MESSAGES[6], HumanMessage("and?"))], "all"
    )
    shown = [one for message in engine.assemble(session, 4_000).messages for one in from_core(message)]
    assert [message.type for message in shown] == ["human", "ai", "tool", "human"]


def test_large_pictures_are_shown_as_pictures(engine: Engine) -> None:
    data = base64.b64encode(random.Random(7).randbytes(30_000)).decode()
    pictures = [
        {"type": "image", "base64": data, "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
    ]
    session = Session("langchain:pictures")
    message = HumanMessage([{"type": "text", "text": "look"}, *pictures])
    engine.ingest(session, [to_core(message)], "all")
    assert from_core(engine.assemble(session, 16_000).messages[0]) == [message]


def test_large_bytes_are_named_by_their_file(engine: Engine) -> None:
    sound = {"type": "media", "mime_type": "audio/wav", "data": random.Random(7).randbytes(30_000)}
    session = Session("langchain:sounds")
    message = HumanMessage([{"type": "text", "text": "hear"}, sound])
    engine.ingest(session, [to_core(message)], "all")
    assert from_core(engine.messages(session)[0], exact=True) == [message]
    [shown] = from_core(engine.assemble(session, 16_000).messages[0])
    assert [block["type"] for block in shown.content] == ["text", "text"]  # type: ignore[index]
    assert "file_" in shown.content[1]["text"]  # type: ignore[index]
