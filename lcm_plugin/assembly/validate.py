"""The rules that every provider agrees on, stated once.

`validate` names each breach with the position where it stands; an empty list means that OpenAI,
Anthropic, Gemini, Bedrock, DeepSeek and Kimi accept the order and shape of the messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lcm_plugin.ingest.messages import calls_answered, calls_made
from lcm_plugin.types import Message


def validate(messages: Sequence[Message], *, for_model_call: bool = True) -> list[str]:
    """What is wrong with a context; ``for_model_call`` also forbids a trailing assistant message."""
    found = [*_content(messages), *_pairs(messages), *_order(messages)]
    if for_model_call and messages and messages[-1]["role"] == "assistant":
        found.append(f"message {len(messages) - 1}: a model call cannot follow an assistant message")
    return found


def is_blank(message: Mapping[str, Any]) -> bool:
    """Whether a message has no content at all: nothing, blanks, or an empty list."""
    content = message.get("content")
    if isinstance(content, list):
        return not content
    return content is None or (isinstance(content, str) and not content.strip())


def blank_block(block: Any) -> bool:
    """Whether a content block is a blank text."""
    if isinstance(block, str):
        return not block.strip()
    return isinstance(block, Mapping) and isinstance(block.get("text"), str) and not block["text"].strip()


def _content(messages: Sequence[Message]) -> list[str]:
    found = []
    for index, message in enumerate(messages):
        makes_calls = bool(calls_made(message) or message.get("function_call"))
        if is_blank(message) and not makes_calls:
            found.append(f"message {index}: empty content")
        content = message.get("content")
        if isinstance(content, list) and any(blank_block(block) for block in content):
            found.append(f"message {index}: a blank text block")
    return found


def _pairs(messages: Sequence[Message]) -> list[str]:
    found: list[str] = []
    used: set[str] = set()
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        answers = calls_answered(message)
        for call in answers:
            if call in open_calls:
                open_calls.remove(call)
            else:
                found.append(f"message {index}: the result of {call} does not directly follow its call")
        if answers:
            continue
        if message["role"] == "tool":
            found.append(f"message {index}: a tool result without a call id")
            continue
        found += [f"message {index}: {call} was not answered before" for call in open_calls]
        open_calls = list(calls_made(message))
        for call in open_calls:
            if call in used:
                found.append(f"message {index}: the call id {call} is used twice")
            used.add(call)
    return found + [f"the call {call} has no result" for call in open_calls]


def _order(messages: Sequence[Message]) -> list[str]:
    first = next((message for message in messages if message["role"] not in ("system", "developer")), None)
    if first is not None and first["role"] != "user":
        return [f"the first message after the system prompt is from {first['role']}, not from the user"]
    return []
