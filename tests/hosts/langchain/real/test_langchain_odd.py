"""Odd messages through the real host's own loop."""

from __future__ import annotations

from pathlib import Path

from fuzzing import play, play_deep
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from scripted import ScriptedModel, problems_in
from talk import answer

from lcm_plugin import Engine, Session
from lcm_plugin.hosts.langchain import LcmMiddleware
from lcm_plugin.hosts.langchain.messages import to_core
from lcm_plugin.messages.convert import MARKER


@tool
def search(word: str) -> list[str]:
    """What is found."""
    return []


def test_a_tool_that_returns_nothing_is_answered_and_ends_the_run(engine: Engine) -> None:
    def rule(messages: list[BaseMessage]) -> AIMessage:
        return (
            answer("nothing there") if messages[-1].type == "tool" else answer("", ("search", {"word": "x"}))
        )

    model = ScriptedModel(rule=rule)
    middleware = LcmMiddleware(engine=engine, window=12_000, summary_model="none")
    agent = create_agent(model, tools=[search], middleware=[middleware])
    config = {"configurable": {"thread_id": "empty"}, "recursion_limit": 10}
    agent.invoke({"messages": [{"role": "user", "content": "look"}]}, config)  # type: ignore[arg-type]
    assert len(model.calls) == 2
    assert model.problems == []
    assert isinstance(model.calls[1][-1], ToolMessage)
    assert "no result" not in str(model.calls[1][-1].content)


def test_a_value_nested_too_deep_is_converted_and_its_neighbours_are_stored(engine: Engine) -> None:
    deep: list[object] = []
    for _ in range(3_000):
        deep = [deep]
    session = Session("deep")
    odd = HumanMessage([{"type": "odd", "value": deep}], id="2", additional_kwargs={"more": deep})
    messages = [HumanMessage("one", id="1"), odd, AIMessage("three", id="3")]
    for _ in range(2):
        engine.ingest(session, [to_core(message) for message in messages], "state")
    first, second, third = engine.messages(session)
    assert (first["content"], third["content"]) == ("one", "three")
    assert MARKER in str(second["content"])
    assert engine.assemble(session, 8_000).messages


def test_odd_messages_lose_double_and_stop_nothing(tmp_path: Path) -> None:
    play("langchain", tmp_path, problems_in)


def test_messages_nested_deeper_than_python_recurses_lose_and_stop_nothing(tmp_path: Path) -> None:
    play_deep("langchain", tmp_path, problems_in)
