"""Summaries through the host's own model: its settings, its keys, its fallbacks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from lcm_plugin.errors import ModelError
from lcm_plugin.hosts.model_errors import model_error
from lcm_plugin.messages.usage import usage_of
from lcm_plugin.types import CompletionRequest, CompletionResult, Usage


class HostModel:
    """Answers with the host's model runner, on a loop of the calling thread. Raises the package's model errors.

    The temperature is the host's: models that take only their own would refuse another.
    """

    def __call__(self, request: CompletionRequest) -> CompletionResult:
        try:
            return asyncio.run(_answer(request))
        except ModelError:
            raise
        except Exception as error:
            raise model_error(error) from error


async def _answer(request: CompletionRequest) -> CompletionResult:
    from bub.builtin.model_runner import ModelOutputAccumulator, ModelRunner
    from bub.builtin.settings import load_settings

    settings = load_settings()
    output = ModelOutputAccumulator()
    async with asyncio.timeout(request.timeout):
        completion = await ModelRunner(settings).completion_response(
            model=request.model or settings.model,
            messages=[dict(message) for message in request.messages],
            tools=_tools(request.tools),
            max_tokens=request.max_tokens,
        )
        if hasattr(completion, "choices"):
            message = completion.choices[0].message
            output.add_text(message.content or "")
            output.add_message_tool_calls(message.tool_calls or [])
            return _result(
                output,
                completion,
                completion.choices[0].finish_reason,
                usage_of(getattr(completion, "usage", None)),
            )
        usage, finish, last = None, "", None
        async for last in completion:
            usage = usage_of(getattr(last, "usage", None)) or usage
            for choice in last.choices:
                output.add_text(choice.delta.content or "")
                output.merge_delta_tool_calls(choice.delta.tool_calls or [])
                finish = choice.finish_reason or finish
    return _result(output, last, finish, usage)


def _result(output: Any, response: Any, finish: str | None, usage: Usage | None) -> CompletionResult:
    return CompletionResult(
        text=output.text,
        model=str(getattr(response, "model", "") or ""),
        usage=usage,
        tool_calls=[call.model_dump(exclude_none=True) for call in output.tool_calls],
        finish_reason=finish or "",
    )


def _tools(schemas: Sequence[Mapping[str, Any]]) -> list[Any]:
    from bub.tools import Tool

    functions = [schema["function"] for schema in schemas]
    return [
        Tool(
            name=function["name"],
            handler=lambda **_: None,
            description=function.get("description", ""),
            parameters=dict(function.get("parameters") or {}),
        )
        for function in functions
    ]
