"""Sixty turns of a real agent: nothing is lost, every call is valid and fits, an early fact is found."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checks import as_written, problems_of
from fakes.model_server import Calls, ModelRequest, ModelServer
from invariants import assert_sound
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from talk import FACT, KEY, QUESTION, WINDOW, agent_with, prompt, say

from lcm_plugin import Session
from lcm_plugin.hosts.pydantic_ai import LcmCapability

TURNS = 60
Make = Callable[..., LcmCapability[Any]]


class Watched:
    """The scripted model, and every list of messages that it was called with."""

    def __init__(self) -> None:
        self.calls: list[list[ModelMessage]] = []
        self.summaries = 0
        self.model = FunctionModel(self._say)

    def _say(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if info.function_tools:
            self.calls.append(list(messages))
        else:
            self.summaries += 1
        return say(messages, info)


def spoken(messages: list[ModelMessage]) -> list[str]:
    return [str(p.content) for m in messages for p in m.parts if isinstance(p, UserPromptPart)]


def tokens(lcm: LcmCapability[Any], messages: list[ModelMessage]) -> int:
    texts = [
        getattr(part, "content", None) or str(getattr(part, "args", "")) for m in messages for part in m.parts
    ]
    return lcm.engine.count_tokens([str(text) for text in texts])


def check(lcm: LcmCapability[Any], watched: Watched, answer: str, everything: list[ModelMessage]) -> None:
    """What must hold after sixty turns; ``everything`` is what the runs' results say was said."""
    for messages in watched.calls:
        assert problems_of(messages) == []
        assert tokens(lcm, messages) <= WINDOW
    assert watched.summaries > 0, "the agent's own model writes the summaries"
    assert "<summary" in str(watched.calls[-1])
    # Summarised away, and quoted for the question before any tool was called.
    [quoted] = [text for text in spoken(watched.calls[-2]) if FACT in text]
    assert "<recalled>" in quoted
    assert not any(FACT in str(messages) for messages in watched.calls[-8:-2])
    assert FACT in answer
    assert lcm.history() == as_written(everything)
    assert spoken(everything) == [prompt(turn, TURNS) for turn in range(1, TURNS + 1)]
    rows = lcm.engine.messages(Session(KEY))
    assert (
        len({row["id"] for row in rows})
        == len(rows)
        == sum(len(message.parts) if message.kind == "request" else 1 for message in everything)
    )


def test_60_runs_without_a_history_of_ones_own(make: Make, database: Path) -> None:
    lcm, watched = make(), Watched()
    agent = agent_with(lcm, watched.model)

    async def talk() -> tuple[str, list[ModelMessage]]:
        everything: list[ModelMessage] = []
        for turn in range(1, TURNS + 1):
            result = await agent.run(prompt(turn, TURNS))
            everything += result.all_messages()
            await asyncio.to_thread(lcm.engine.wait_idle, 10)
        return result.output, everything

    answer, everything = asyncio.run(talk())
    check(lcm, watched, answer, everything)
    assert_sound(database)


def test_60_runs_with_the_whole_history_handed_over_each_time(make: Make, database: Path) -> None:
    lcm, watched = make(), Watched()
    agent = agent_with(lcm, watched.model)

    async def talk() -> tuple[str, list[ModelMessage]]:
        history: list[ModelMessage] = []
        for turn in range(1, TURNS + 1):
            result = await agent.run(prompt(turn, TURNS), message_history=history)
            history = result.all_messages()
            await asyncio.to_thread(lcm.engine.wait_idle, 10)
        return result.output, history

    answer, history = asyncio.run(talk())
    assert len(history) == 4 * TURNS, "the host's own history stays whole"
    check(lcm, watched, answer, history)
    assert_sound(database)


def test_60_runs_in_a_loop_that_stands_still_between_them(make: Make, database: Path) -> None:
    lcm, watched = make(summary_model="none"), Watched()
    agent = agent_with(lcm, watched.model)
    for turn in range(1, TURNS + 1):
        result = agent.run_sync(prompt(turn, TURNS))
    assert all(problems_of(messages) == [] for messages in watched.calls)
    assert all(tokens(lcm, messages) <= WINDOW for messages in watched.calls)
    assert watched.summaries == 0
    assert "<summary" in str(watched.calls[-1])
    assert FACT in result.output
    assert_sound(database)


def test_60_runs_through_the_hosts_own_openai_converter(make: Make) -> None:
    with ModelServer(window=64_000) as server:
        server.add_rule(_like_the_script)
        model = OpenAIChatModel("fake-model", provider=OpenAIProvider(base_url=server.url, api_key="sk-fake"))
        lcm = make()
        agent = agent_with(lcm, model)

        async def talk() -> str:
            async with agent:
                for turn in range(1, TURNS + 1):
                    result = await agent.run(prompt(turn, TURNS))
                await asyncio.to_thread(lcm.engine.wait_idle, 10)
            return result.output

        answer = asyncio.run(talk())
        asked = [request for request in server.requests if request.tools]
        assert server.invalid == []
        assert len(asked) == 2 * TURNS
        assert any("<summary" in str(request.messages) for request in asked)
        assert FACT in answer
        assert spoken(lcm.history()) == [prompt(turn, TURNS) for turn in range(1, TURNS + 1)]


def _like_the_script(request: ModelRequest) -> Any:
    last = request.messages[-1]
    if not request.tools:
        return "They read gauges, one by one, and spoke of pumps, valves and ferries."
    if last["role"] == "user":
        if QUESTION in str(last["content"]):
            return Calls(("lcm_grep", {"pattern": "vault code", "roles": ["user"]}))
        return Calls(("look", {"gauge": len(request.messages)}))
    return FACT if FACT in str(last["content"]).replace("**", "") else f"I saw: {last['content'][:200]}"


@pytest.mark.parametrize("die_at", ["30", ""])
def test_killed_in_the_middle_and_started_again_it_goes_on(make: Make, database: Path, die_at: str) -> None:
    command = [sys.executable, str(Path(__file__).with_name("talk.py")), str(database), str(TURNS)]
    environment = {**os.environ, "LCM_DIE_AT": die_at, "LCM_HARD_WAIT_MS": "0"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        for line in first.stdout:
            if not die_at and line.startswith("30 "):
                first.kill()
    assert first.returncode == -9
    lcm = make()
    if die_at:
        last = lcm.history()[-1]
        assert [part.args for part in last.parts if part.part_kind == "tool-call"] == [
            {"gauge": 30},
            '{"gauge": 0}',
        ], "the call was stored before its tool did anything"
    del environment["LCM_DIE_AT"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=100)
    assert FACT in done.stdout.splitlines()[-1]
    assert spoken(lcm.history()) == [prompt(turn, TURNS) for turn in range(1, TURNS + 1)]
    assert_sound(database)


def test_a_shorter_history_takes_back_what_it_lacks(make: Make) -> None:
    seen: list[str] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(str(messages))
        return ModelResponse([TextPart(f"answer {len(seen)}")])

    lcm = make(summary_model="none")
    agent: Agent[None, str] = Agent(FunctionModel(model), capabilities=[lcm])
    first = agent.run_sync("I need a hotel")
    agent.run_sync("Bristol, 3 nights", message_history=first.all_messages())
    again = agent.run_sync("Grand, 2 nights", message_history=first.all_messages())
    assert "I need a hotel" in seen[-1]
    assert "Grand, 2 nights" in seen[-1]
    assert "Bristol" not in seen[-1]
    agent.run_sync("And breakfast", message_history=again.all_messages())
    assert "Bristol" not in seen[-1]
    assert "Grand, 2 nights" in seen[-1]
    assert "Bristol, 3 nights" in str(lcm.history())


def test_runs_at_the_same_time_keep_their_own_questions(make: Make) -> None:
    lcm = make(summary_model="none", window=60_000)
    gates = {name: asyncio.Event() for name in "AB"}
    ended: dict[str, str] = {}

    async def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, UserPromptPart):
            name = str(last.content)[-1]
            gates[name].set()
            await gates["B" if name == "A" else "A"].wait()
            return ModelResponse([ToolCallPart("look", {"gauge": name}, f"call-of-run-{name}-0001")])
        asked = [p for m in messages for p in m.parts if isinstance(p, UserPromptPart)]
        ended[str(last.content)] = str(asked[-1].content)
        return ModelResponse([TextPart(f"Done: {asked[-1].content}")])

    agent: Agent[None, str] = Agent(FunctionModel(model), capabilities=[lcm])

    @agent.tool_plain
    def look(gauge: str) -> str:
        return f"gauge {gauge}"

    async def both() -> list[Any]:
        return await asyncio.gather(agent.run("question A"), agent.run("question B"))

    results = asyncio.run(both())
    assert [result.output for result in results] == ["Done: question A", "Done: question B"]
    assert ended == {"gauge A": "question A", "gauge B": "question B"}
    assert len(lcm.history()) == sum(len(result.all_messages()) for result in results)


def test_an_agent_that_a_tool_runs_has_a_session_of_its_own(make: Make) -> None:
    lcm = make(summary_model="none")
    delegate: Agent[None, str] = Agent(
        FunctionModel(lambda messages, info: ModelResponse([TextPart(f"read {len(messages)}")])),
        capabilities=[lcm],
    )

    def coordinate(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if isinstance(messages[-1].parts[-1], UserPromptPart):
            return ModelResponse([ToolCallPart("ask", {"what": "the gauge"}, "call-of-the-coordinator")])
        return ModelResponse([TextPart(f"It says: {messages[-1].parts[-1].content}")])

    coordinator: Agent[None, str] = Agent(FunctionModel(coordinate), capabilities=[lcm])

    @coordinator.tool_plain
    async def ask(what: str) -> str:
        return (await delegate.run(f"Find out about {what}")).output

    result = coordinator.run_sync("What does the gauge say?")
    assert result.output == "It says: read 1"
    assert len(lcm.history()) == len(result.all_messages()) == 4
    assert "Find out" not in str(lcm.history())
    with lcm.engine.store.read() as reader:
        keys = [one.session_key for one in reader.conversations()]
    assert [key for key in keys if key.startswith(f"{KEY}:subagent:")] == keys[1:]
    assert len(keys) == 2
