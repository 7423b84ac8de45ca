"""The assembled context as the messages of a model call.

The newest request stays the host's own, with the instructions it rendered. What the host keeps beside words
(records of changed instructions and tools) and what other capabilities put into this one call go along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

from lcm_plugin.hosts.pydantic_ai.messages import from_core, is_shown
from lcm_plugin.types import Message


def seen_by_model(
    assembled: Sequence[Message], sent: Sequence[ModelMessage], history: Sequence[ModelMessage]
) -> list[ModelMessage]:
    """The call's messages. ``sent`` is what the host would send, ``history`` what it keeps.

    Raises `ValueError` when the context does not end with a request.
    """
    messages = from_core(assembled, merge=True)
    newest, last = sent[-1], messages[-1]
    if not isinstance(newest, ModelRequest) or not isinstance(last, ModelRequest):
        raise ValueError("the context does not end with a request")
    parts = [part for part in last.parts if is_shown(part.part_kind)]
    answers = [part for part in parts if _answers_a_call(part)]
    others = [part for part in parts if not _answers_a_call(part)]
    messages[-1] = replace(newest, parts=[*answers, *_records(sent), *others, *_beside(sent, history)])
    return messages


def with_quotes(messages: Sequence[ModelMessage], quotes: str) -> list[ModelMessage]:
    """The host's messages with a text right before the newest prompt."""
    listing = list(messages)
    for n in range(len(listing) - 1 if quotes else -1, -1, -1):
        message = listing[n]
        at = next((i for i, part in enumerate(message.parts) if part.part_kind == "user-prompt"), None)
        if isinstance(message, ModelRequest) and at is not None:
            parts = [*message.parts[:at], UserPromptPart(quotes), *message.parts[at:]]
            listing[n] = replace(message, parts=parts)
            break
    return listing


def _answers_a_call(part: Any) -> bool:
    return part.part_kind == "tool-return" or (part.part_kind == "retry-prompt" and bool(part.tool_name))


def _records(sent: Sequence[ModelMessage]) -> list[Any]:
    return [part for part in _request_parts(sent) if not is_shown(part.part_kind)]


def _beside(sent: Sequence[ModelMessage], history: Sequence[ModelMessage]) -> list[Any]:
    """Parts that stand in this call only, put there by other capabilities."""
    kept = _request_parts(history)
    known = {id(part) for part in kept}
    extra = [part for part in _request_parts(sent) if id(part) not in known and is_shown(part.part_kind)]
    return [part for part in extra if part not in kept] if extra else []


def _request_parts(messages: Sequence[ModelMessage]) -> list[Any]:
    return [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
