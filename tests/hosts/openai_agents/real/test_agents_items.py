"""Items of the Responses API come back byte for byte, and a response's items stay together."""

from __future__ import annotations

import base64
import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import problems_in

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.hosts.openai_agents import LcmSession
from lcm_plugin.hosts.openai_agents.items import stored_items, to_core
from lcm_plugin.hosts.openai_agents.journal import record_items
from lcm_plugin.hosts.openai_agents.shown import shown_items

COUNT = itertools.count()
PNG = "data:image/png;base64,"
USER = {"role": "user", "content": "what is in the shed?"}
PICTURE = {
    "type": "message",
    "role": "user",
    "content": [
        {"type": "input_text", "text": "and here?"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"},
    ],
}
REASONING = {
    "id": "rs_1",
    "summary": [{"text": "look first", "type": "summary_text"}],
    "type": "reasoning",
    "encrypted_content": "gAAAA",
}
CALL = {
    "arguments": '{"place":"shed"}',
    "call_id": "call_a",
    "name": "look",
    "type": "function_call",
    "id": "fc_1",
}
OUTPUT = {"call_id": "call_a", "output": "a spade", "type": "function_call_output"}
REPLY = {
    "id": "msg_1",
    "content": [
        {"annotations": [], "text": "A spade.", "type": "output_text", "logprobs": []},
        {"type": "refusal", "refusal": "The rest I may not tell."},
    ],
    "role": "assistant",
    "status": "completed",
    "type": "message",
}
SHELL = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "call_s",
    "action": {"commands": ["ls"], "timeout_ms": 1000},
    "status": "completed",
}
SHELL_OUTPUT = {
    "type": "shell_call_output",
    "call_id": "call_s",
    "output": [{"stdout": "spade\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
}
SEARCH = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "x"},
}
EVERYTHING = [
    {"role": "developer", "content": "be kind"},
    USER, REASONING, SEARCH, CALL, OUTPUT, {**REASONING, "id": "rs_2"}, REPLY,
    PICTURE, {"role": "assistant", "content": "plain words"}, USER, SHELL, SHELL_OUTPUT,
    {"content": "", "role": "assistant"}, {"role": "user", "content": []},
    {"type": "item_reference", "id": "msg_9"}, {"type": "compaction", "encrypted_content": "zzz", "id": "cmp_1"},
    {"type": "computer_call", "id": "cu_1", "call_id": "call_c", "action": {"type": "wait"}, "status": "completed",
     "pending_safety_checks": []},
    {"type": "computer_call_output", "call_id": "call_c",
     "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,iVBORw0KGgo="}},
    {"type": "function_call_output", "call_id": "call_z", "output": [{"type": "input_text", "text": "late"}]},
]  # fmt: skip


def restored(items: list[Any]) -> list[Any]:
    """What comes back of items that go through the core's shape at once."""
    found: list[Any] = []
    for message in to_core(items):
        stored = stored_items(message)
        assert stored is not None
        found += stored.items[stored.copied :]
    return found


def test_items_of_every_kind_come_back_byte_for_byte(engine: Engine) -> None:
    assert json.dumps(restored(EVERYTHING)) == json.dumps(EVERYTHING)
    session = LcmSession("kinds", engine=engine)
    session._add(EVERYTHING)
    assert json.dumps(session._items(limit=1000)) == json.dumps(EVERYTHING)
    assert session._items(limit=3) == EVERYTHING[-3:]


@pytest.fixture(scope="module")
def shared_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    database = str(tmp_path_factory.mktemp("items") / "lcm.db")
    with Engine.open(LcmConfig(database=database)) as opened:
        yield opened


def test_instructions_that_come_again_in_another_batch_are_items_too(engine: Engine) -> None:
    session = LcmSession("kind", engine=engine)
    session._add(EVERYTHING[:1] * 2)
    session._add(EVERYTHING[:1])
    assert session._items(limit=1000) == record_items(engine, session.core_session) == EVERYTHING[:1] * 3


@given(st.lists(st.sampled_from(EVERYTHING), max_size=12), st.data())
def test_any_order_and_any_batches_come_back(
    shared_engine: Engine, items: list[Any], data: st.DataObject
) -> None:
    session = LcmSession(f"batches {next(COUNT)}", engine=shared_engine)
    at = 0
    while at < len(items):
        size = data.draw(st.integers(1, 4))
        session._add(items[at : at + size])
        at += size
    assert json.dumps(session._items(limit=1000)) == json.dumps(items)
    assert json.dumps(record_items(shared_engine, session.core_session)) == json.dumps(items)
    session._items(None)


def test_a_response_is_one_message_and_so_cannot_be_torn(engine: Engine) -> None:
    second = {**CALL, "call_id": "call_b", "id": "fc_2"}
    items = [USER, REASONING, CALL, second, OUTPUT, {**OUTPUT, "call_id": "call_b"}, REPLY]
    messages = to_core(items)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [block["type"] for block in messages[1]["content"]] == [
        "reasoning",
        "function_call",
        "function_call",
    ]
    assert shown_items(messages) == items


def test_reasoning_that_comes_before_its_call_in_another_batch_is_shown_with_it(engine: Engine) -> None:
    session = LcmSession("late", engine=engine)
    for item in (USER, REASONING, CALL, OUTPUT):
        session._add([item])
    assert session._items(None) == [USER, REASONING, CALL, OUTPUT]
    assert session._items(100) == [USER, REASONING, CALL, OUTPUT]


def test_a_call_of_another_kind_and_its_output_are_shown_as_they_are(engine: Engine) -> None:
    session = LcmSession("shell", engine=engine)
    session._add([USER, SHELL, SHELL_OUTPUT, USER])
    assert session._items(None) == [USER, SHELL, SHELL_OUTPUT, USER]


def test_a_shortened_output_of_another_kind_becomes_a_function_call_with_its_output(tmp_path: Path) -> None:
    config = LcmConfig(database=str(tmp_path / "lcm.db"), autocompact_disabled=True)
    session = LcmSession("long", config, window=3_000, overhead_tokens=0)
    long = {**SHELL_OUTPUT, "output": [{**SHELL_OUTPUT["output"][0], "stdout": "spade " * 4_000}]}  # type: ignore[index]
    session._add([USER, SHELL, long, USER])
    items = session._items(None)
    assert {item["type"] for item in items if item.get("call_id") == "call_s"} == {
        "function_call",
        "function_call_output",
    }
    assert session.engine.count_tokens(items) < 3_000
    assert session._items(100) == [USER, SHELL, long, USER]
    session.close()


def noise(size: int) -> str:
    """Base64 of something that no rule takes for words."""
    return base64.b64encode(random.Random(7).randbytes(size)).decode()


def test_a_large_screenshot_is_shown_as_the_picture_it_is(engine: Engine) -> None:
    shot = {**EVERYTHING[-2], "output": {"type": "computer_screenshot", "image_url": PNG + noise(30_000)}}
    items = [USER, EVERYTHING[-3], shot, USER]
    session = LcmSession("screen", engine=engine)
    session._add(items)
    assert session._items(None) == items
    assert session._items(10) == items


def test_a_large_generated_picture_becomes_words_that_name_its_file(engine: Engine) -> None:
    picture = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": noise(30_000)}
    session = LcmSession("picture", engine=engine)
    session._add([USER, picture, REPLY, USER])
    shown = session._items(None)
    assert [item.get("type") or item["role"] for item in shown] == ["user", "assistant", "message", "user"]
    assert "[LCM File: file_" in shown[1]["content"]
    assert len(json.dumps(shown)) < 4_000
    assert session._items(10) == [USER, picture, REPLY, USER]


def test_large_arguments_stay_valid_json(engine: Engine) -> None:
    written = {**CALL, "arguments": json.dumps({"path": "x", "text": "a spade and a bed " * 20_000})}
    session = LcmSession("large", engine=engine)
    session._add([USER, written, OUTPUT, USER])
    [shown] = [item for item in session._items(None) if item.get("type") == "function_call"]
    assert "file_" in json.dumps(json.loads(shown["arguments"]))
    assert session._items(10) == [USER, written, OUTPUT, USER]


def test_bytes_in_another_tools_output_do_not_come_out_as_a_broken_item(engine: Engine) -> None:
    result = {**SHELL_OUTPUT["output"][0], "stdout": noise(30_000)}  # type: ignore[index]
    printed = {**SHELL_OUTPUT, "output": [result]}
    session = LcmSession("bytes", engine=engine)
    session._add([USER, SHELL, printed, USER])
    kinds = [item.get("type") or item["role"] for item in session._items(None)]
    assert kinds == ["user", "function_call", "function_call_output", "user"]
    assert session._items(10) == [USER, SHELL, printed, USER]


def test_a_conversation_of_another_host_can_be_gone_on_with(engine: Engine) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    talk: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": PNG}}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "a spade"},
        {"role": "assistant", "content": "A spade."},
    ]  # fmt: skip
    session = LcmSession("other", engine=engine)
    engine.ingest(session.core_session, talk)
    shown = session._items(None)
    assert problems_in([*shown, USER]) == []
    assert [item.get("type") or item["role"] for item in shown] == [
        "user",
        "function_call",
        "function_call_output",
        "assistant",
    ]
    assert session._items(2) == shown[2:]
