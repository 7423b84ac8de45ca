"""A turn with a tool's result of 2.7 MB, for a process of its own.

``python large_result.py DATABASE`` prints how long the event loop was held at the longest, and the turn in all: seconds
of CPU time, so that what else runs on the machine is not in them, between two steps of a task that steps each millisecond.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import agents
from agents import Agent, Runner, function_tool
from fakes.speech import turn
from scripted import Item, ScriptedModel, called, said

from lcm_plugin import LcmConfig
from lcm_plugin.hosts.openai_agents import LcmSession

LARGE = json.dumps([turn(number, 200) for number in range(3_300)])


@function_tool
def fetch() -> str:
    """Fetches."""
    return LARGE


def rule(items: list[Item], number: int) -> list[Any]:
    """Fetches when asked to, and answers."""
    fetches = str(items[-1].get("content")).startswith("fetch")
    return [called("fetch", {}, number) if fetches else said("done", number)]


async def _step(longest: list[float]) -> None:
    before = time.process_time()
    while True:
        await asyncio.sleep(0.001)
        now = time.process_time()
        longest[0] = max(longest[0], now - before)
        before = now


@contextmanager
def _watched() -> Iterator[list[float]]:
    longest = [0.0]
    task = asyncio.get_running_loop().create_task(_step(longest))
    yield longest
    task.cancel()


async def run(session: LcmSession) -> tuple[float, float]:
    """Longest hold and the whole of the turn, in seconds of CPU time."""
    agent = Agent(name="fetcher", model=ScriptedModel(rule), tools=[fetch])

    async def say(text: str) -> None:
        await Runner.run(agent, text, session=session, hooks=session.hooks, run_config=session.run_config())

    await say("hello")
    start = time.process_time()
    with _watched() as longest:
        await say("fetch it")
    return longest[0], time.process_time() - start


if __name__ == "__main__":
    agents.set_tracing_disabled(True)
    opened = LcmSession("large", LcmConfig(database=sys.argv[1]), window=64_000)
    print(*asyncio.run(run(opened)))
