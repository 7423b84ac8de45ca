"""A database with sixty turns in it, and the official client on a real `lcm mcp` process."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from lcm_plugin import Memory

LCM = str(Path(sys.executable).with_name("lcm"))
KEY = "agent:coder:main"
OTHER = "agent:coder:garden"
FACT = "The vault code is 4417-HERON."
TURNS = 60
Connect = Callable[..., AbstractAsyncContextManager[ClientSession]]


def vague(order: Any) -> str:
    """A summary that keeps no fact."""
    return "They read one gauge after the other, and talked about pumps, valves and ferries."


def say(memory: Memory, turn: int) -> None:
    """One turn with a tool call."""
    text = FACT if turn == 1 else f"Turn {turn}: please read gauge {turn}. " + "It may be the pump. " * 12
    call = {"id": f"c{turn}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    memory.add(
        text,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{turn}", "content": f"gauge {turn} stands at {turn * 7}"},
        {"role": "assistant", "content": f"Gauge {turn} is at {turn * 7}. " + "The valve holds. " * 12},
    )
    memory.context()
    memory.end_turn()
    memory.engine.wait_idle(10)


@pytest.fixture(scope="session")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty turns at a small budget, and another session; nobody writes to it any more."""
    database = tmp_path_factory.mktemp("talk") / "lcm.db"
    with Memory(database, session=OTHER) as memory:
        memory.add("The tomatoes need lime.", {"role": "assistant", "content": "Noted."})
    with Memory(database, session=KEY, window=6_000, completer=vague) as memory:
        for turn in range(1, TURNS + 1):
            say(memory, turn)
        assert FACT not in str(memory.context()), "the fact must be out of sight, or nothing is shown"
    return database


@pytest.fixture
def connect(tmp_path: Path) -> Connect:
    """Starts `lcm mcp` with some arguments and opens a session with it."""

    @asynccontextmanager
    async def client(*arguments: str, **variables: str) -> AsyncIterator[ClientSession]:
        environment = {
            **os.environ,
            "HOME": str(tmp_path),
            "LCM_CONFIG": str(tmp_path / "no-settings.json"),
            **variables,
        }
        server = StdioServerParameters(command=LCM, args=["mcp", *arguments], env=environment)
        async with stdio_client(server) as (incoming, outgoing), ClientSession(incoming, outgoing) as session:
            await session.initialize()
            yield session

    return client
