"""Idle heartbeat cycles are found exactly, and work is never taken for one."""

from __future__ import annotations

import pytest

from lcm_plugin.ingest.heartbeat import idle_heartbeat_rows
from lcm_plugin.types import Message

POLL: Message = {
    "role": "user",
    "content": "Read HEARTBEAT.md. If nothing needs attention, reply HEARTBEAT_OK.",
}
IDLE: Message = {"role": "assistant", "content": "HEARTBEAT_OK"}
CALL: Message = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "mail", "arguments": "{}"}}],
}
RESULT: Message = {"role": "tool", "tool_call_id": "c1", "content": "3 new mails"}


def test_a_poll_and_its_bare_answer_are_idle() -> None:
    assert idle_heartbeat_rows([POLL, IDLE]) == [0, 1]


def test_a_cycle_with_a_tool_call_is_kept_whole() -> None:
    assert idle_heartbeat_rows([POLL, CALL, RESULT, IDLE]) == []


def test_only_the_idle_cycles_of_a_long_list_are_named() -> None:
    talk: list[Message] = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    rows = idle_heartbeat_rows([*talk, POLL, IDLE, POLL, CALL, RESULT, IDLE, POLL, IDLE])
    assert rows == [2, 3, 8, 9]


@pytest.mark.parametrize("text", ["**HEARTBEAT_OK**", " HEARTBEAT_OK.\n", "`HEARTBEAT_OK`"])
def test_decoration_around_the_token_is_ignored(text: str) -> None:
    assert idle_heartbeat_rows([POLL, {"role": "assistant", "content": text}]) == [0, 1]


@pytest.mark.parametrize("content", [[{"type": "text", "text": "HEARTBEAT_OK"}], "HEARTBEAT_OK"])
def test_text_blocks_count_as_text(content: object) -> None:
    assert idle_heartbeat_rows([POLL, {"role": "assistant", "content": content}]) == [0, 1]


@pytest.mark.parametrize(
    "answer",
    [
        "Nothing to do, so HEARTBEAT_OK",
        "HEARTBEAT_OK but the disk is at 91 %",
        "heartbeat ok",
        "",
        None,
        [],
        [{"type": "text", "text": "HEARTBEAT_OK"}, {"type": "image_url", "image_url": {"url": "x"}}],
        7,
    ],
)
def test_an_answer_that_says_more_or_less_is_kept(answer: object) -> None:
    assert idle_heartbeat_rows([POLL, {"role": "assistant", "content": answer}]) == []


@pytest.mark.parametrize(
    "question",
    [
        {"role": "user", "content": "please answer with the magic token"},
        {"role": "system", "content": "heartbeat"},
        {"role": "user", "content": [{"type": "text", "text": "heartbeat"}, {"type": "file", "file": {}}]},
    ],
)
def test_a_question_that_is_no_poll_keeps_its_answer(question: Message) -> None:
    assert idle_heartbeat_rows([question, IDLE]) == []


def test_an_answer_without_its_poll_is_kept() -> None:
    assert idle_heartbeat_rows([IDLE]) == []
    assert idle_heartbeat_rows([]) == []
