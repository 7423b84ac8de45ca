"""The table of block types, in the shapes that providers document."""

from __future__ import annotations

from typing import Any

import pytest

from lcm_plugin import Engine, Session
from lcm_plugin.messages.blocks import (
    calls_answered,
    calls_made,
    calls_of,
    has_reasoning,
    is_call_body,
    only_text,
    text_of,
    user_speaks,
)
from lcm_plugin.messages.identity import identity_of
from lcm_plugin.messages.parts import lift
from lcm_plugin.messages.presentable import presentable
from lcm_plugin.messages.shape import answer_ids, answers_like, call_ids, rename_calls
from lcm_plugin.messages.table import Kind, type_of
from lcm_plugin.messages.validate import validate

Block = dict[str, Any]
SEARCH: list[Block] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "weather"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"type": "web_search_result", "url": "https://w.example", "title": "Weather"}],
    },
    {"type": "text", "text": "It is sunny."},
]
CALLS = [
    ({"type": "tool_use", "id": "c1", "name": "look", "input": {"q": 1}}, {"q": 1}),
    ({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"}, "{}"),
    ({"type": "custom_tool_call", "call_id": "c1", "name": "look", "input": "q"}, "q"),
    ({"type": "tool-call", "toolCallId": "c1", "toolName": "look", "args": {"q": 1}}, {"q": 1}),
    ({"toolUse": {"toolUseId": "c1", "name": "look", "input": {"q": 1}}}, {"q": 1}),
    ({"functionCall": {"id": "c1", "name": "look", "args": {"q": 1}}}, {"q": 1}),
    ({"function_call": {"id": "c1", "name": "look", "args": {"q": 1}}}, {"q": 1}),
]
RESULTS = [
    {"type": "tool_result", "tool_use_id": "c1", "content": "r"},
    {"type": "tool-result", "toolCallId": "c1", "output": "r"},
    {"type": "function_call_output", "call_id": "c1", "output": "r"},
    {"type": "custom_tool_call_output", "call_id": "c1", "output": "r"},
    {"type": "local_shell_call_output", "id": "c1", "output": "r"},
    {"type": "computer_call_output", "call_id": "c1", "output": {"type": "computer_screenshot"}},
    {"toolResult": {"toolUseId": "c1", "content": [{"text": "r"}]}},
    {"functionResponse": {"id": "c1", "name": "look", "response": {"result": "r"}}},
]
WHOLE = [
    {"type": "web_search_call", "id": "c1", "action": {"type": "search", "query": "q"}, "status": "completed"},
    {"type": "mcp_call", "id": "c1", "name": "look", "arguments": "{}", "output": "r", "server_label": "s"},
    {"type": "code_interpreter_call", "id": "c1", "code": "1+1", "outputs": [{"type": "logs", "logs": "2"}]},
    {
        "type": "tool", "callID": "c1", "tool": "look",
        "state": {"status": "completed", "input": {"q": 1}, "output": "r"},
    },
]  # fmt: skip


@pytest.mark.parametrize(("block", "arguments"), CALLS)
def test_a_call_of_any_provider_is_found_renamed_and_answered_in_its_shape(
    block: Block, arguments: Any
) -> None:
    message = {"role": "assistant", "content": [block]}
    (call,) = calls_of(message)
    assert (call.id, call.name, call.arguments, call.by_provider) == ("c1", "look", arguments, False)
    assert call_ids(message) == calls_made(message) == ("c1",)
    assert calls_answered(message) == ()
    renamed = rename_calls(message, ["c1-2"])
    assert call_ids(renamed) == ("c1-2",)
    (answer,) = answers_like(renamed, [(0, "c1-2")], "nothing")
    assert answer_ids(answer) == ("c1-2",)
    assert validate([{"role": "user", "content": "q"}, renamed, answer]) == []


@pytest.mark.parametrize("block", RESULTS)
def test_a_result_of_any_provider_is_one(block: Block) -> None:
    message = {"role": "user", "content": [block]}
    assert answer_ids(message) == calls_answered(message) == ("c1",)
    assert not user_speaks(message)
    assert user_speaks({**message, "content": [block, {"type": "text", "text": "and now?"}]})
    assert all(part.type == "tool" for part in lift(message) if part.type != "file")


@pytest.mark.parametrize("block", WHOLE)
def test_a_call_that_brings_its_result_along_waits_for_none(block: Block) -> None:
    message = {"role": "assistant", "content": [block]}
    assert calls_made(message) == calls_answered(message) == ("c1",)
    assert call_ids(message) == answer_ids(message) == ()
    assert presentable(message) is message


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"text": "hm", "thought": True},
    ],
)
def test_reasoning_of_any_provider_is_no_words_and_no_part_of_the_identity(block: Block) -> None:
    message = {"role": "assistant", "content": [block, {"type": "text", "text": "so"}]}
    assert has_reasoning(message)
    assert text_of(message) == "so"
    other = {"type": "thinking", "thinking": "something else"}
    assert identity_of(message) == identity_of({**message, "content": [other, message["content"][1]]})


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        ("words", Kind.TEXT),
        ({"text": "words"}, Kind.TEXT),
        ({"type": "refusal", "refusal": "no"}, Kind.TEXT),
        ({"type": "input_image", "image_url": "https://x"}, Kind.MEDIA),
        ({"inlineData": {"mimeType": "image/png", "data": "aa"}}, Kind.MEDIA),
        ({"image": {"format": "png", "source": {"bytes": "aa"}}}, Kind.MEDIA),
        ({"type": "a_new_server_tool_result", "tool_use_id": "x"}, Kind.RESULT),
        ({"type": "step-start"}, Kind.OTHER),
        ({"type": "mystery"}, Kind.OTHER),
        ({}, Kind.OTHER),
        (None, Kind.OTHER),
    ],
)
def test_every_block_has_a_kind(block: Any, kind: Kind) -> None:
    assert type_of(block).kind is kind


def test_a_marker_is_a_part_of_its_type_in_either_spelling() -> None:
    blocks = [{"type": "step-start"}, {"type": "step_start"}]
    assert [part.type for part in lift({"role": "assistant", "content": blocks})] == ["step_start"] * 2


def test_a_call_and_its_result_in_one_block_are_two_parts() -> None:
    parts = lift({"role": "assistant", "content": [WHOLE[3]]})
    assert [(part.value, part.tool_name, part.tool_call_id) for part in parts] == [
        ({"q": 1}, "look", "c1"), ("r", "look", "c1"),
    ]  # fmt: skip
    assert [is_call_body(".".join(map(str, part.path))) for part in parts] == [True, False]


def test_words_alone_are_only_text() -> None:
    assert only_text({"role": "user", "content": [{"type": "text", "text": "a"}, {"text": "b"}]}) == "a\nb"
    assert only_text({"role": "user", "content": []}) is None
    assert only_text({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}) is None


def test_geminis_parts_are_content() -> None:
    call = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]}
    answer = {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"a": 1}}}]}
    messages = [{"role": "user", "parts": [{"text": "hello"}]}, call, answer]
    assert text_of(messages[0]) == "hello"
    assert call_ids(call) == answer_ids(answer) == ("look",)
    assert validate(messages) == []


def test_a_servers_exchange_stays_whole_in_its_message() -> None:
    message = {"role": "assistant", "content": SEARCH}
    assert presentable(message) is message
    assert call_ids(message) == answer_ids(message) == ()
    assert calls_made(message) == calls_answered(message) == ("srvtoolu_1",)


def test_half_of_a_servers_exchange_is_mended() -> None:
    call, found, words = SEARCH
    assert presentable({"role": "assistant", "content": [call, words]}) == {
        "role": "assistant", "content": [words],
    }  # fmt: skip
    shown = presentable({"role": "assistant", "content": [found, words]})
    assert shown is not None
    assert "Weather" in text_of(shown)
    assert text_of(shown).endswith("It is sunny.")
    assert validate([{"role": "user", "content": "q"}, shown], for_model_call=False) == []


def test_a_tools_result_in_the_assistants_own_message_becomes_words() -> None:
    blocks = [CALLS[0][0], RESULTS[0], {"type": "text", "text": "so"}]
    shown = presentable({"role": "assistant", "content": blocks})
    assert shown is not None
    assert text_of(shown) == '[look({"q": 1}) returned]\nr\nso'
    assert call_ids(shown) == answer_ids(shown) == ()


def test_a_sub_agent_gets_what_followed_a_servers_search(engine: Engine) -> None:
    parent, child = Session("agent:main:main"), Session("agent:main:subagent:1")
    engine.ingest(
        parent,
        [
            {"role": "user", "content": "weather?"},
            {"role": "assistant", "content": SEARCH},
            {"role": "user", "content": "thanks"},
            {"role": "assistant", "content": "welcome"},
        ],
    )
    assert engine.bootstrap_session(child, parent) == 4
    assert [text_of(message) for message in engine.messages(child)][1] == "It is sunny."
    engine.ingest(parent, [{"role": "user", "content": "and tomorrow?"}])
    shown = engine.assemble(parent, 9_000).messages
    assert [message["content"] for message in shown][1] == SEARCH


def test_the_ids_of_calls_are_read_in_order_from_the_list_and_the_blocks() -> None:
    message = {
        "role": "assistant",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            {"type": "function", "function": {"name": "look", "arguments": "{}"}},
            {"id": 2, "type": "custom", "custom": {"name": "look", "input": "x"}},
        ],
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c\n3", "name": "look", "input": {}},
        ],
    }
    assert [call.id for call in calls_of(message)] == ["c1", "", "2", "c\n3"]
    assert call_ids(message) == ("c1", "", "2", "c\n3")
    assert calls_made(message) == ("c1", "2", "c 3")
