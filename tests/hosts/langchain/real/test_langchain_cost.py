"""What the middleware does in a turn does not grow with the state, counted in calls and steps and not in seconds."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from scripted import ScriptedModel
from talk import THREAD, answer, garden, middleware_in

import lcm_plugin
from lcm_plugin.hosts.langchain import LcmMiddleware

PACKAGE = str(Path(lcm_plugin.__file__).parent)
SEARCH = str(Path(PACKAGE, "recall"))


@pytest.mark.parametrize("saver", [InMemorySaver, lambda: None])
def test_a_turn_converts_only_what_is_new(tmp_path: Path, saver: Any) -> None:
    spent: dict[int, Counter[str]] = {}
    for length in (150, 450):
        folder = tmp_path / str(length)
        folder.mkdir()
        middleware = middleware_in(folder, window=4_000)
        agent = garden(middleware, ScriptedModel(rule=lambda messages: answer("noted")), saver())
        state: list[Any] = [
            (HumanMessage if n % 2 == 0 else AIMessage)(f"message {n} on beds", id=f"m{n}")
            for n in range(length)
        ]
        for text in ("one", "two"):
            state = agent.invoke({"messages": [*state, HumanMessage(text, id=text)]}, THREAD)["messages"]
            middleware.engine.wait_idle(60)
        counted = spent[length] = Counter()

        def count(frame: FrameType, event: str, _: Any, counted: Counter[str] = counted) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
                counted[frame.f_code.co_name] += 1

        sys.setprofile(count)
        try:
            agent.invoke({"messages": [*state, HumanMessage("three", id="three")]}, THREAD)
        finally:
            sys.setprofile(None)
        middleware.close()
        assert counted["wrap_model_call"] == 1
        assert 1 <= counted["to_core"] <= 2
        assert counted["to_message"] <= 6
    assert spent[450].total() < spent[150].total() + 450


class Waits(AgentMiddleware):
    """Goes on after a model call when the compaction that it started has ended."""

    def __init__(self, lcm: LcmMiddleware) -> None:
        super().__init__()
        self.lcm = lcm

    def after_model(self, state: Any, runtime: Any) -> None:
        self.lcm.engine.wait_idle(60)


@contextmanager
def steps() -> Iterator[Counter[tuple[str, int]]]:
    """Counts the steps of Python that our own code takes on this thread, by function, without the search for quotes."""
    counted: Counter[tuple[str, int]] = Counter()

    def step(frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            counted[frame.f_code.co_name, frame.f_code.co_firstlineno] += 1
        return step

    def call(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE) or name.startswith(SEARCH):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield counted
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("saver", [InMemorySaver, lambda: None])
def test_a_turn_takes_no_more_steps_with_four_times_the_messages(tmp_path: Path, saver: Any) -> None:
    """What grows is what Python's own comparison of two lists does, once a turn."""
    taken: dict[int, Counter[tuple[str, int]]] = {}
    for length in (300, 1_200):
        folder = tmp_path / str(length)
        folder.mkdir()
        middleware = middleware_in(folder, window=4_000)
        model = ScriptedModel(rule=lambda messages: answer("noted"))
        agent = create_agent(model, middleware=[middleware, Waits(middleware)], checkpointer=saver())
        state: list[Any] = [
            (HumanMessage if n % 2 == 0 else AIMessage)(f"message {n} on beds", id=f"m{n}")
            for n in range(length)
        ]
        for text in ("one", "two", "three"):
            state = agent.invoke({"messages": [*state, HumanMessage(text, id=text)]}, THREAD)["messages"]
            middleware.engine.wait_idle(60)
        with steps() as counted:
            agent.invoke({"messages": [*state, HumanMessage("four", id="four")]}, THREAD)
        middleware.close()
        taken[length] = counted
    more = taken[1_200] - taken[300]
    assert more.total() < 9_000, more.most_common(5)


def test_what_is_changed_in_place_is_found_at_the_next_turn(tmp_path: Path) -> None:
    """Between the calls of one turn the same objects are taken to be as they were, but for the newest."""
    middleware = middleware_in(tmp_path)
    agent = garden(middleware, ScriptedModel(rule=lambda messages: answer("noted")), None)
    state: list[Any] = [
        (HumanMessage if n % 2 == 0 else AIMessage)(f"message {n} on beds", id=f"m{n}") for n in range(100)
    ]
    state = agent.invoke({"messages": [*state, HumanMessage("one", id="one")]}, THREAD)["messages"]
    state[40].content = "message 40 on roses"
    state = agent.invoke({"messages": [*state, HumanMessage("two", id="two")]}, THREAD)["messages"]
    stored = [message["content"] for message in middleware.engine.messages(middleware.session_of("talk"))]
    middleware.close()
    assert "message 40 on roses" in stored
