"""A model of the SDK that answers by rule and checks every input that it gets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from agents import Model, ModelResponse, Usage
from agents.models.chatcmpl_converter import Converter
from fakes.validity import problems_of
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseInputItemParam,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_reasoning_item import Summary
from pydantic import TypeAdapter

_ITEM: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
Item = dict[str, Any]


def said(text: str, number: int) -> Any:
    """A reply."""
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id=f"msg_{number}", type="message", role="assistant", status="completed", content=[content]
    )


def called(name: str, arguments: Any, number: int, place: int = 0) -> Any:
    """A call of a function."""
    return ResponseFunctionToolCall(
        id=f"fc_{number}_{place}",
        call_id=f"call_{number}_{place}",
        type="function_call",
        name=name,
        arguments=json.dumps(arguments),
        status="completed",
    )


def thought(number: int) -> Any:
    """A reasoning item."""
    summary = [Summary(type="summary_text", text=f"thinking, step {number}")]
    return ResponseReasoningItem(id=f"rs_{number}", type="reasoning", summary=summary)


class ScriptedModel(Model):
    """Answers with what ``rule`` makes of the input; keeps every input, and what is wrong with it."""

    def __init__(self, rule: Callable[[list[Item], int], list[Any]], first_number: int = 0) -> None:
        self._rule = rule
        self._number = first_number
        self.inputs: list[list[Item]] = []
        self.problems: list[str] = []

    async def get_response(
        self, system_instructions: str | None, input: Any, *_: Any, **__: Any
    ) -> ModelResponse:
        items: list[Item] = [{"role": "user", "content": input}] if isinstance(input, str) else list(input)
        self.inputs.append(items)
        self.problems += problems_in(items)
        self._number += 1
        usage = Usage(requests=1, input_tokens=100 + len(json.dumps(items)) // 4, output_tokens=10)
        return ModelResponse(output=self._rule(items, self._number), usage=usage, response_id=None)

    async def stream_response(
        self, system_instructions: str | None, input: Any, *_: Any, **__: Any
    ) -> AsyncIterator[Any]:
        answer = await self.get_response(system_instructions, input)
        whole = Response(
            id=f"resp_{self._number}",
            created_at=0,
            model="scripted",
            object="response",
            output=answer.output,
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
        )
        yield ResponseCompletedEvent(type="response.completed", sequence_number=0, response=whole)


def problems_in(items: list[Item]) -> list[str]:
    """What an API would refuse: by the SDK's types, by its converter to chat messages, by order."""
    found: list[str] = []
    for item in items:
        _ITEM.validate_python(item)
    # Only the Responses API itself takes a compaction.
    messages = Converter.items_to_messages([item for item in items if item.get("type") != "compaction"])
    found += problems_of([dict(message) for message in messages])
    made: list[str] = []
    for place, item in enumerate(items):
        kind = item.get("type")
        if kind == "function_call":
            made.append(item["call_id"])
        elif kind == "function_call_output" and item["call_id"] not in made:
            found.append(f"item {place}: an output before its call")
        elif kind == "reasoning":
            following = items[place + 1] if place + 1 < len(items) else {}
            if following.get("type") not in ("function_call", "message", "reasoning"):
                found.append(f"item {place}: reasoning without what it belongs to")
    answered = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    if sorted(made) != sorted(answered):
        found.append(f"calls {made} and answers {answered} differ")
    ids = [item["id"] for item in items if item.get("id")]
    if len(set(ids)) != len(ids):
        found.append("an id twice")
    return found
