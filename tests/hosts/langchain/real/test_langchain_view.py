"""What a model call sees through LangChain: every result it has to answer, and every instruction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from scripted import ScriptedModel
from talk import THREAD, answer, middleware_in

from lcm_plugin import Session

PARALLEL, ROUNDS = 80, 5


@tool
def look(place: int) -> str:
    """Looks somewhere."""
    return f"place {place}: " + "".join(f"{place * n % 9_973:04d} " for n in range(1, 138))


def test_each_call_of_a_loop_sees_every_result_of_its_parallel_calls(tmp_path: Path) -> None:
    def rule(messages: list[BaseMessage]) -> AIMessage:
        rounds = sum(isinstance(m, AIMessage) and bool(m.tool_calls) for m in messages)
        if rounds >= ROUNDS or len(model.calls) > ROUNDS:
            return answer("done")
        first = 1 + PARALLEL * (len(model.calls) - 1)
        return answer("", *(("look", {"place": first + n}) for n in range(PARALLEL)))

    model = ScriptedModel(rule=rule)
    middleware = middleware_in(tmp_path, window=32_000)
    agent = create_agent(model, tools=[look], middleware=[middleware])
    agent.invoke({"messages": [HumanMessage("look everywhere")]}, THREAD)
    assert model.problems == []
    assert len(model.calls) == ROUNDS + 1
    for call in model.calls[1:]:
        made = next(m for m in reversed(call) if isinstance(m, AIMessage) and m.tool_calls)
        given = {m.tool_call_id for m in call if isinstance(m, ToolMessage)}
        assert len(made.tool_calls) == PARALLEL
        assert {one["id"] for one in made.tool_calls} <= given
        assert "look everywhere" in str([m.content for m in call if m.type == "human"])
    middleware.close()


def test_every_system_message_of_the_state_arrives(tmp_path: Path) -> None:
    model = ScriptedModel(rule=lambda messages: answer("yes"))
    middleware = middleware_in(tmp_path, window=8_000)
    agent: Any = create_agent(model, tools=[look], middleware=[middleware], system_prompt="Be brief.")
    state = [SystemMessage("You are P."), SystemMessage("Rules of M."), HumanMessage("hi")]
    state = agent.invoke({"messages": state}, THREAD)["messages"]
    agent.invoke({"messages": [*state, HumanMessage("again")]}, THREAD)
    for call in model.calls:
        shown = str([m.content for m in call if m.type == "system"])
        assert "Be brief." in shown
        assert shown.count("You are P.") == shown.count("Rules of M.") == 1
    middleware.close()


def test_the_model_is_told_when_its_turn_alone_nearly_fills_the_window(tmp_path: Path) -> None:
    def rule(messages: list[BaseMessage]) -> AIMessage:
        last = messages[-1]
        return answer("", ("look", {"place": 1})) if "look" in str(last.content) else answer("done")

    told = "This context is nearly full of what cannot be compacted, most of all this turn."
    model, middleware = ScriptedModel(rule=rule), middleware_in(tmp_path)
    agent = create_agent(model, tools=[look], middleware=[middleware], checkpointer=InMemorySaver())
    texts = ["hello", "look at these: " + "a long page " * 3_300, "thanks"]
    for text in texts:
        state = agent.invoke({"messages": [HumanMessage(text)]}, THREAD)["messages"]
    assert model.problems == []
    _, first, second, after = ([(m.type, str(m.content)) for m in call] for call in model.calls)
    assert [told in text for _, text in first[-2:]] == [True, False]
    assert first[-2][0] == "human"
    assert second[: len(first)] == first
    assert told not in str(after)
    assert told not in str(state)
    assert [m.content for m in state if m.type == "human"] == texts
    assert told not in str(middleware.engine.messages(Session("langchain:talk")))
    middleware.close()
