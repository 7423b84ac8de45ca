"""The server: lists the tools, answers calls in worker threads, speaks the protocol over stdin and stdout."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import anyio
import anyio.to_thread
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from lcm_plugin.errors import LcmError
from lcm_plugin.events import log_failure
from lcm_plugin.hosts.mcp.rest import Rest
from lcm_plugin.hosts.mcp.tools import INSTRUCTIONS, Offered
from lcm_plugin.version import VERSION

logger = logging.getLogger("lcm_plugin.mcp")
_CLOSING_SECONDS = 1.0


class Served(Protocol):
    """The tools behind a server. ``call`` may raise `LcmError`, which becomes a tool's error."""

    @property
    def tools(self) -> Sequence[Offered]: ...

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]: ...

    def close(self) -> None: ...


def serve(served: Served, instructions: str = INSTRUCTIONS, rest: Rest | None = None) -> None:
    """Serves until the client closes the connection; SIGTERM and SIGINT end the process, within a second.

    ``rest`` is for a server that is also asked in other ways, which it tells it of.
    """
    try:
        anyio.run(_serve, served, instructions, rest or Rest())
    finally:
        served.close()


async def _serve(served: Served, instructions: str, rest: Rest) -> None:
    server = make_server(served, instructions, rest)
    async with anyio.create_task_group() as group:
        group.start_soon(rest.watch)
        group.start_soon(_leave_on_signal, served)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
        group.cancel_scope.cancel()


def make_server(
    served: Served, instructions: str = INSTRUCTIONS, rest: Rest | None = None
) -> Server[dict[str, Any]]:
    """An MCP server over tools; any transport of the ``mcp`` package can run it. ``rest`` is told of each call."""

    async def list_tools(context: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_as_tool(tool) for tool in served.tools])

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        if rest is not None:
            rest.stir()
        return await anyio.to_thread.run_sync(
            _answer, served, params.name, params.arguments or {}, abandon_on_cancel=True
        )

    return Server(
        "lcm",
        version=VERSION,
        title="Lossless conversation history",
        instructions=instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _as_tool(tool: Offered) -> Tool:
    return Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.schema),
        annotations=ToolAnnotations(title=tool.title, read_only_hint=not tool.changes, open_world_hint=False),
        _meta=dict(tool.meta) if tool.meta else None,
    )


def _answer(served: Served, name: str, arguments: dict[str, Any]) -> CallToolResult:
    try:
        answer = served.call(name, arguments)
    except LcmError as error:
        answer = {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - the host must go on
        log_failure(logger, "the tool %s failed", name, error=error)
        answer = {"error": f"internal error: {type(error).__name__}: {error}"}
    if "error" in answer:
        code = answer.get("error_code")
        return _text(f"{answer['error']} ({code})" if code else str(answer["error"]), is_error=True)
    # A host may hand a hook's text on as it is: what says nothing is no text.
    return _text(json.dumps(answer, ensure_ascii=False) if answer else "", is_error=False)


def _text(text: str, *, is_error: bool) -> CallToolResult:
    # The wire is UTF-8: a lone surrogate of a stored message must not end the connection.
    sendable = text.encode("utf-8", "replace").decode()
    return CallToolResult(content=[TextContent(type="text", text=sendable)], is_error=is_error)


async def _leave_on_signal(served: Served) -> None:
    """Ends the process: the thread that waits for the next line of stdin cannot be woken."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            with anyio.move_on_after(_CLOSING_SECONDS):
                await anyio.to_thread.run_sync(served.close, abandon_on_cancel=True)
            os._exit(0)
