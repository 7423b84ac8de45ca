"""The recall tools as function tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from agents import FunctionTool

from lcm_plugin.config.file import load_config
from lcm_plugin.recall.tools import tool_schemas

if TYPE_CHECKING:
    from agents.tool_context import ToolContext


class Callee(Protocol):
    """A session that answers tool calls."""

    def call_tool(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The tool's answer."""

    def tool_schemas(self) -> list[dict[str, Any]]:
        """The tools that the session's settings give to agents."""


SessionOf = Callable[[Any], Callee]


def recall_tools(session: Callee | SessionOf) -> list[FunctionTool]:
    """The tools for one session, or for the one that a function finds in a run's context.

    An agent that serves many sessions takes the function: ``recall_tools(lambda run: run.context.session)``.
    """
    schemas = tool_schemas(load_config()) if callable(session) else session.tool_schemas()
    return [_tool(schema["function"], session) for schema in schemas]


def _tool(schema: dict[str, Any], session: Callee | SessionOf) -> FunctionTool:
    name = schema["name"]

    async def invoke(run: ToolContext[Any], arguments: str) -> str:
        found = session(run) if callable(session) else session
        try:
            given = json.loads(arguments or "{}")
        except ValueError as error:
            return json.dumps({"error": f"the arguments are not JSON: {error}"})
        answer = await asyncio.to_thread(found.call_tool, name, given)
        return json.dumps(answer, ensure_ascii=False)

    return FunctionTool(
        name=name,
        description=schema["description"],
        params_json_schema=schema["parameters"],
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )
