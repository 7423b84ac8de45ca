"""A session that is open and not used: its server gives memory back, and answers as before when it is asked again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from agent_logs import SESSION, Log
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.hosts.agents import hooks as hooks_module
from lcm_plugin.hosts.agents.calls import HookCall
from lcm_plugin.hosts.agents.capture import Capture
from lcm_plugin.hosts.agents.hooks import Hooks
from lcm_plugin.hosts.mcp.rest import Rest
from lcm_plugin.messages.merging import COUNTS

ASKED = "What is the gate code of the north pumping station?"
MOST_MEGABYTES = 120
_SERVER = """
import sys
import lcm_plugin.hosts.mcp.rest as rest
from lcm_plugin.hosts.agents.__main__ import main
rest.REST_SECONDS = 1.0
main(["claude-code", "--database", sys.argv[1]])
"""


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A database with one stored turn of the project."""
    log = Log(tmp_path)
    log.turn("The gate code of the north pumping station is HERON-4417.", "Noted.")
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as engine:
        Capture(engine, "claude-code").store([log.path])
    return tmp_path / "lcm.db"


@contextmanager
def opened(database: Path) -> Iterator[Hooks]:
    with Engine.open(LcmConfig(database=str(database))) as engine:
        hooks = Hooks("claude-code", lambda: engine)
        deadline = time.monotonic() + 20
        while not hooks.warm:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        yield hooks
        hooks.close()


def test_what_counts_tokens_is_given_back_at_rest_once_and_loaded_for_the_next_call() -> None:
    async def work() -> None:
        rest = Rest(0.01)
        COUNTS.get_ready()
        async with anyio.create_task_group() as group:
            group.start_soon(rest.watch)
            with anyio.fail_after(20):
                while COUNTS.is_ready:
                    await anyio.sleep(0.001)
                # Nobody asked since: what another thread loads is not given back again.
                COUNTS.get_ready()
                await anyio.sleep(0.05)
                assert COUNTS.is_ready
                rest.stir()
                while COUNTS.is_ready:
                    await anyio.sleep(0.001)
            group.cancel_scope.cancel()

    anyio.run(work)
    assert COUNTS.of("the gate code") == 3


def test_calls_that_follow_each_other_keep_it() -> None:
    async def work() -> None:
        rest = Rest(1.0)
        COUNTS.get_ready()
        async with anyio.create_task_group() as group:
            group.start_soon(rest.watch)
            until = anyio.current_time() + 1.3
            while anyio.current_time() < until:
                rest.stir()
                await anyio.sleep(0.01)
                assert COUNTS.is_ready
            group.cancel_scope.cancel()

    anyio.run(work)


def test_a_prompt_after_a_rest_may_take_as_long_as_a_first_one(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = HookCall("UserPromptSubmit", session="other", cwd="/home/ann/pump", prompt=ASKED)
    monkeypatch.setattr(hooks_module, "DEADLINE_SECONDS", 0.0)
    monkeypatch.setattr(hooks_module, "OPENING_SECONDS", 60.0)
    with opened(history) as hooks:
        assert hooks.answer(call) == {}
        # What was not waited for goes on, and counts.
        for pool in (hooks._quotes, hooks._work):
            pool.submit(lambda: None).result(20)
        COUNTS.release()
        assert not hooks.warm
        assert "HERON-4417" in json.dumps(hooks.answer(call))
        assert hooks.warm


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_sessions_server_takes_no_more_memory_at_rest_than_it_may(history: Path) -> None:
    async def work() -> None:
        server = StdioServerParameters(command=sys.executable, args=["-c", _SERVER, str(history)])
        async with stdio_client(server) as (incoming, outgoing), ClientSession(incoming, outgoing) as session:
            await session.initialize()
            given: dict[str, Any] = {"session": "other", "cwd": "/home/ann/pump", "prompt": ASKED}
            answer = await session.call_tool("lcm_hook", {"event": "UserPromptSubmit", **given})
            assert "HERON-4417" in str(answer.content)
            await session.call_tool("lcm_hook", {"event": "Stop", "session": SESSION})
            with anyio.fail_after(60):
                while (used := megabytes_of(str(history))) > MOST_MEGABYTES:
                    await anyio.sleep(0.1)
            print(f"at rest: {used} MB")
            again = await session.call_tool(
                "lcm_hook", {"event": "UserPromptSubmit", **given, "session": "3"}
            )
            assert "HERON-4417" in str(again.content)

    anyio.run(work)


def megabytes_of(database: str) -> int:
    """The resident memory of the server of a database."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
            status = (place / "status").read_text()
        except OSError:
            continue
        if database.encode() in words and _SERVER.encode() in words:
            return int(status.split("VmRSS:")[1].split()[0]) // 1024
    raise AssertionError("no server runs")
