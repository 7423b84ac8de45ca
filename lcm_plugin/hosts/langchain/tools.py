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
