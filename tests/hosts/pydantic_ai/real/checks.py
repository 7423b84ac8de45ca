"""What any provider demands of the messages of a model call, in pydantic-ai's own terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter


def problems_of(messages: Sequence[ModelMessage]) -> list[str]:
    """Every rule that a list breaks."""
    found = []
    if [message.kind for message in messages] != ["request", "response"] * (len(messages) // 2) + ["request"]:
        found.append(f"requests and responses do not alternate: {[m.kind for m in messages]}")
    if ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(list(messages))) is None:
        found.append("the messages cannot be written down")
    open_calls: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(messages):
        answered = [part.tool_call_id for part in message.parts if _is_answer(part)]
        if sorted(answered) != sorted(open_calls):
            found.append(f"{index}: answers {answered} for calls {open_calls}")
        open_calls = [part.tool_call_id for part in message.parts if part.part_kind == "tool-call"]
        if seen.intersection(open_calls):
            found.append(f"{index}: a call id comes twice")
        seen.update(open_calls)
        if not message.parts:
            found.append(f"{index}: nothing in it")
    if open_calls:
        found.append(f"calls without answers: {open_calls}")
    return found


def _is_answer(part: Any) -> bool:
    return part.part_kind == "tool-return" or (part.part_kind == "retry-prompt" and bool(part.tool_name))


def as_written(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """The messages after the host's own way through JSON, which fills in what it derives."""
    return ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(list(messages)))
