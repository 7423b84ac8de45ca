"""The recall tools as LangChain tools; each answers for the session of the run that calls it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

Answer = Callable[[str, dict[str, Any]], dict[str, Any]]


def recall_tools(schemas: Sequence[dict[str, Any]], answer: Answer) -> list[BaseTool]:
    """One tool for each schema. ``answer`` takes a tool's name and arguments."""
    return [_tool(schema["function"], answer) for schema in schemas]


def compaction_tool(compact: Callable[[str], str]) -> BaseTool:
    """The tool by which an agent compacts; deepagents' own has the same name."""

    async def later(focus: str = "") -> str:
        return await asyncio.to_thread(compact, focus)

    return StructuredTool.from_function(
        compact,
        coroutine=later,
        name="compact_conversation",
        description=(
            "Summarise the older part of this conversation now, for instance when a task is done and another begins. "
            "The newest messages stay as they are, and lcm_expand gives every word back. "
            "What concerns the words of focus is kept in detail."
        ),
    )


def _tool(schema: dict[str, Any], answer: Answer) -> BaseTool:
    name = schema["name"]

    def run(**arguments: Any) -> str:
        return json.dumps(answer(name, arguments), ensure_ascii=False)

    async def arun(**arguments: Any) -> str:
        return await asyncio.to_thread(run, **arguments)

    return StructuredTool(
        name=name,
        description=schema["description"],
        args_schema=schema["parameters"],
        func=run,
        coroutine=arun,
    )
