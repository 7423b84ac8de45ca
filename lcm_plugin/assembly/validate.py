"""The rules that every provider agrees on, stated once.

`validate` names each breach with the position where it stands; an empty list means that OpenAI,
Anthropic, Gemini, Bedrock, DeepSeek and Kimi accept the order and shape of the messages. It reads
OpenAI's shape, Anthropic's content blocks, and Gemini's ``parts``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lcm_plugin.types import Message

_CALL_BLOCKS = ("tool_use", "tool_call", "function_call")
_INSTRUCTIONS = ("system", "developer")
_RESULT_BLOCKS = ("tool_result", "function_call_output")


@dataclass(slots=True)
class _Seen:
    """A message reduced to what the rules speak about."""

    role: str
    calls: list[str]
    answers: list[str]
    faults: list[str]
    named: bool = True  # False where calls have no ids (Gemini): then names may recur


def validate(messages: Sequence[Message], *, for_model_call: bool = True) -> list[str]:
    """What is wrong with a context; ``for_model_call`` also forbids a trailing assistant message."""
    seen = [_seen_in_parts(message) if "parts" in message else _seen(message) for message in messages]
    found = [f"message {index}: {fault}" for index, one in enumerate(seen) for fault in one.faults]
    found += [*_pairs(seen), *_order(seen)]
    if for_model_call and seen and seen[-1].role == "assistant":
        found.append(f"message {len(seen) - 1}: a model call cannot follow an assistant message")
    return found


def is_blank(message: Mapping[str, Any]) -> bool:
    """Whether a message has no content at all: nothing, blanks, or an empty list."""
    content = message.get("content")
    if isinstance(content, list):
        return not content
    return content is None or (isinstance(content, str) and not content.strip())


def blank_block(block: Any) -> bool:
    """Whether a content block says nothing: null, an empty dict, or a blank text."""
    if isinstance(block, str):
        return not block.strip()
    if isinstance(block, Mapping):
        text = block.get("text")
        return not block or (isinstance(text, str) and not text.strip())
    return block is None


def is_json_object(text: str) -> bool:
    """Whether a text is one JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _seen(message: Message) -> _Seen:
    one = _Seen(str(message["role"]), [], [], [])
    content, calls = message.get("content"), message.get("tool_calls")
    if calls:
        _look_at_calls(calls, one)
    if isinstance(content, list):
        _look_at_blocks(content, one)
    if one.role == "tool":
        one.answers.append(_id(message.get("tool_call_id"), "a tool result without a call id", one))
    blank = content is not None and is_blank(message) if one.calls else is_blank(message)
    if blank and not message.get("audio"):
        one.faults.append("empty content")
    return one


def _look_at_calls(calls: Any, one: _Seen) -> None:
    if not isinstance(calls, list):
        one.faults.append("tool_calls is not a list")
        return
    for call in calls:
        if not isinstance(call, Mapping):
            one.faults.append("a tool call that is not a dict")
            continue
        one.calls.append(_id(call.get("id"), "a call without an id", one))
        function = call.get("function")
        if isinstance(function, Mapping) and not is_json_object(str(function.get("arguments"))):
            one.faults.append("call arguments that are not a JSON object")


def _look_at_blocks(content: list[Any], one: _Seen) -> None:
    only_results = True
    for block in content:
        if blank_block(block):
            one.faults.append("a blank block")
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind in _CALL_BLOCKS:
            one.calls.append(_id(block.get("call_id") or block.get("id"), "a call without an id", one))
        if kind in _RESULT_BLOCKS:
            if not only_results:
                one.faults.append("a tool result after other content")
            answered = block.get("tool_use_id") or block.get("call_id")
            one.answers.append(_id(answered, "a tool result without a call id", one))
            if _blank_result(block):
                one.faults.append("an empty tool result")
        else:
            only_results = False


def _blank_result(block: Mapping[str, Any]) -> bool:
    inner = block.get("output") if block.get("type") == "function_call_output" else block.get("content")
    if isinstance(inner, list):
        return not inner or any(map(blank_block, inner))
    return inner is None or (isinstance(inner, str) and not inner.strip())


def _seen_in_parts(message: Mapping[str, Any]) -> _Seen:
    role = "assistant" if message["role"] == "model" else str(message["role"])
    one = _Seen(role, [], [], [], named=False)
    if not message["parts"]:
        one.faults.append("empty content")
    for part in message["parts"]:
        call = part.get("function_call") or part.get("functionCall")
        answer = part.get("function_response") or part.get("functionResponse")
        if call:
            one.calls.append(str(call["name"]))
        elif answer:
            one.answers.append(str(answer["name"]))
        elif blank_block(part):
            one.faults.append("a blank part")
    return one


def _id(value: Any, fault: str, one: _Seen) -> str:
    if not value:
        one.faults.append(fault)
    return str(value or "")


def _pairs(messages: Sequence[_Seen]) -> list[str]:
    found: list[str] = []
    used: set[str] = set()
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        for call in message.answers:
            if call in open_calls:
                open_calls.remove(call)
            else:
                found.append(f"message {index}: the result of {call} does not directly follow its call")
        if message.answers:
            continue
        found += [f"message {index}: {call} was not answered before" for call in open_calls]
        open_calls = list(message.calls)
        if message.named:
            for call in open_calls:
                if call in used:
                    found.append(f"message {index}: the call id {call} is used twice")
                used.add(call)
    return found + [f"the call {call} has no result" for call in open_calls]


def _order(messages: Sequence[_Seen]) -> list[str]:
    start = next((n for n, one in enumerate(messages) if one.role not in _INSTRUCTIONS), len(messages))
    found = [
        f"message {index}: an instruction that does not stand at the front"
        for index in range(start, len(messages))
        if messages[index].role in _INSTRUCTIONS
    ]
    if start < len(messages) and (messages[start].role != "user" or messages[start].answers):
        role = messages[start].role
        found.append(f"the first message after the system prompt is from {role}, not from the user")
    return found
