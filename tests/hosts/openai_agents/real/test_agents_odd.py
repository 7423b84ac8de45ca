"""Odd messages through the real host's own loop."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, function_tool
from fakes.speech import turn
from fuzzing import play, play_deep
from scripted import Item, ScriptedModel, called, problems_in, said

from lcm_plugin import Engine
from lcm_plugin.hosts.openai_agents import LcmSession
from lcm_plugin.messages import tokens


def test_an_empty_output_is_recorded_as_it_is_and_shown_as_a_result(engine: Engine) -> None:
    session = LcmSession("empty", engine=engine)
    items = [
        {"role": "user", "content": "look"},
        {"type": "function_call", "call_id": "c", "name": "search", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": []},
        {"role": "user", "content": "and?"},
    ]
    session._add(items)
    assert session._items(100) == items
    (shown,) = [item for item in session._items(None) if item.get("type") == "function_call_output"]
    assert shown["output"]
    assert "no result" not in str(shown["output"])
    assert problems_in(session._items(None)) == []


def asked_next(items: list[Item]) -> list[str]:
    """What is wrong with a history when the user says something behind it."""
    return problems_in([*items, {"role": "user", "content": "go on"}])


def test_odd_messages_lose_double_and_stop_nothing(tmp_path: Path) -> None:
    play("openai_agents", tmp_path, asked_next)


def test_messages_nested_deeper_than_python_recurses_lose_and_stop_nothing(tmp_path: Path) -> None:
    play_deep("openai_agents", tmp_path, asked_next)


def test_a_large_result_is_counted_once_and_off_the_loop(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = json.dumps([turn(number, 200) for number in range(3_300)])
    assert len(large) > 2_600_000

    @function_tool
    def fetch() -> str:
        """Fetches."""
        return large

    def rule(items: list[Item], number: int) -> list[Any]:
        fetches = str(items[-1].get("content")).startswith("fetch")
        return [called("fetch", {}, number) if fetches else said("done", number)]

    counted: list[int] = []
    count = tokens._tokens

    def watched(text: str, slices: Any) -> int:
        if len(text) >= len(large):
            counted.append(threading.get_ident())
        return count(text, slices)

    monkeypatch.setattr(tokens, "_tokens", watched)
    session = LcmSession("large", engine=engine, window=64_000)
    agent = Agent(name="fetcher", model=ScriptedModel(rule), tools=[fetch])
    in_loop: list[int] = []

    async def run() -> None:
        in_loop.append(threading.get_ident())
        for text in ("fetch it", "and again", "thanks"):
            await Runner.run(
                agent, text, session=session, hooks=session.hooks, run_config=session.run_config()
            )

    asyncio.run(run())
    assert len(counted) == 1
    assert counted[0] != in_loop[0]


def test_a_large_result_holds_the_loop_for_less_than_a_twentieth_of_a_second(tmp_path: Path) -> None:
    """In a process of its own, since what is loaded at the first large text counts too."""
    command = [sys.executable, str(Path(__file__).with_name("large_result.py"))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for number in range(3):  # what else runs on the machine may hold it longer
        database = tmp_path / f"{number}.db"
        done = subprocess.run(
            [*command, str(database)], stdout=subprocess.PIPE, text=True, check=True, env=environment
        )
        longest, whole = map(float, done.stdout.split())
        if longest < 0.05 and whole < 1:
            return
    pytest.fail(f"the loop was held for {longest} s, and the turn took {whole} s of CPU time")
