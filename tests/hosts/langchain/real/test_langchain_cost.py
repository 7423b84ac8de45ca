"""What the middleware does in a turn does not grow with the state, counted in calls and not in seconds."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from scripted import ScriptedModel
from talk import THREAD, answer, garden, middleware_in

import lcm_plugin

PACKAGE = str(Path(lcm_plugin.__file__).parent)


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
