"""The recall tools for the agent and ``,lcm`` for a person, among the host's tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lcm_plugin.hosts.bub.lanes import session_of

if TYPE_CHECKING:
    from lcm_plugin.hosts.bub.core import Core

_NO_SESSION = "This chat has no session, so there is nothing to look at."


def add_tools(core: Core) -> None:
    """Registers them with the host."""
    from bub.tools import REGISTRY, tool

    for schema in core.tools():
        function = schema["function"]
        made = tool(
            _recall(core, function["name"]),
            name=function["name"],
            description=function["description"],
            context=True,
        )
        REGISTRY[made.name] = replace(made, parameters=function["parameters"])
    tool(
        _command(core),
        name="lcm",
        description="Lossless context: status, search, compaction, doctor.",
        context=True,
        exposure="command",
    )


def _recall(core: Core, name: str) -> Callable[..., Awaitable[dict[str, Any]]]:
    async def recall(*, context: Any, **arguments: Any) -> dict[str, Any]:
        session = session_of(context.state)
        if session is None:
            return {"error": _NO_SESSION}
        return await asyncio.to_thread(core.call_tool, session, name, arguments)

    return recall


def _command(core: Core) -> Callable[..., Awaitable[str]]:
    async def command(*words: str, context: Any, **pairs: str) -> str:
        session = session_of(context.state)
        if session is None:
            return _NO_SESSION
        # The host reads "name=value" as a keyword; our commands have words only.
        said = [*words, *(f"{name}={value}" for name, value in pairs.items())]
        return await asyncio.to_thread(core.command, session, " ".join(["/lcm", *said]))

    return command
