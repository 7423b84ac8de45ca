"""The recall tools as a toolset of the host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic_ai.tools import Tool
from pydantic_ai.toolsets import FunctionToolset

from lcm_plugin.hosts.pydantic_ai.content import dumps

Answer = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


def recall_toolset(schemas: Sequence[dict[str, Any]], answer: Answer) -> FunctionToolset[Any]:
    """One tool for each schema; ``answer`` gets a tool's name and its arguments."""
    return FunctionToolset([_tool(schema["function"], answer) for schema in schemas])


def _tool(function: dict[str, Any], answer: Answer) -> Tool[Any]:
    name = function["name"]

    async def call(**arguments: Any) -> str:
        return dumps(await answer(name, arguments))

    return Tool.from_schema(call, name, function["description"], function["parameters"])
