"""The graph's state is the truth: a model sees what a fresh thread with the same state would show it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from scripted import ScriptedModel
from talk import THREAD, answer, ask, garden, middleware_in

from lcm_plugin import Session
from lcm_plugin.hosts.langchain import LcmMiddleware

LANE = Session("langchain:talk")
WORDS = ("yes", "ok", "go on", "yes", "no", "ok", "ok", "yes", "no", "no", "go on", "ok")


def texts(messages: list[BaseMessage]) -> list[str]:
    return [str(message.content) for message in messages]


def stored(middleware: LcmMiddleware) -> list[str]:
    return [str(message["content"]) for message in middleware.engine.messages(LANE)]


def noting(messages: list[BaseMessage]) -> AIMessage:
    return answer("noted")


def at(agent: Any, count: int) -> Any:
    """The checkpoint at the end of a run that held so many messages."""
    history = agent.get_state_history(THREAD)
    return next(s.config for s in history if len(s.values["messages"]) == count and not s.next)


def test_a_graph_goes_back_further_than_it_can_be_read_again_at_once(tmp_path: Path) -> None:
    middleware, model = middleware_in(tmp_path, window=200_000), ScriptedModel(rule=noting)
    agent = garden(middleware, model, InMemorySaver())
    ask(agent, "one")
    long_list = [(HumanMessage if n % 2 == 0 else AIMessage)(f"message {n}") for n in range(700)]
    agent.invoke({"messages": [*long_list, HumanMessage("two")]}, THREAD)
    assert len(middleware.engine.messages(LANE)) == 704
    end = agent.get_state(THREAD).config
    ask(agent, "another two", at(agent, 2))
    assert texts(model.calls[-1])[1:] == ["one", "noted", "another two"]
    assert len(middleware.engine.messages(LANE)) == 706
    ask(agent, "three", end)
    assert texts(model.calls[-1])[-4:] == ["message 699", "two", "noted", "three"]
    assert "another two" not in texts(model.calls[-1])
    assert len(middleware.engine.messages(LANE)) == 708
    middleware.close()


@pytest.mark.parametrize("restarted", [False, True])
def test_removing_all_messages_clears_the_view(tmp_path: Path, restarted: bool) -> None:
    middleware, model, saver = middleware_in(tmp_path), ScriptedModel(rule=noting), InMemorySaver()
    agent = garden(middleware, model, saver)
    ask(agent, "one")
    if restarted:
        middleware.close()
        middleware = middleware_in(tmp_path)
        agent = garden(middleware, model, saver)
    ask(agent, "two")
    agent.invoke({"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("a fresh start")]}, THREAD)
    assert texts(model.calls[-1])[1:] == ["a fresh start"]
    ask(agent, "and on")
    assert texts(model.calls[-1])[1:] == ["a fresh start", "noted", "and on"]
    assert stored(middleware) == ["one", "noted", "two", "noted", "a fresh start", "noted", "and on", "noted"]
    middleware.close()


def test_an_answer_is_made_again(tmp_path: Path) -> None:
    said = iter(["first answer", "second answer", "third answer"])
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=lambda messages: answer(next(said)))
    agent = garden(middleware, model, InMemorySaver())
    ask(agent, "one")
    before = next(s.config for s in agent.get_state_history(THREAD) if s.next == ("model",))
    agent.invoke(None, before)
    assert texts(model.calls[-1])[1:] == ["one"]
    ask(agent, "two")
    assert texts(model.calls[-1])[1:] == ["one", "second answer", "two"]
    assert stored(middleware) == ["one", "first answer", "second answer", "two", "third answer"]
    middleware.close()


def test_a_retry_after_a_failed_call_stores_the_question_once(tmp_path: Path) -> None:
    fails = [True]

    def rule(messages: list[BaseMessage]) -> AIMessage:
        if fails.pop() if fails else False:
            raise ConnectionError("the provider is away")
        return answer("noted")

    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=rule)
    agent = garden(middleware, model, InMemorySaver())
    with pytest.raises(ConnectionError):
        ask(agent, "one")
    agent.invoke(None, THREAD)
    ask(agent, "two")
    assert stored(middleware) == ["one", "noted", "two", "noted"]
    middleware.close()


def test_a_question_that_is_edited_by_its_id_replaces_the_old_one(tmp_path: Path) -> None:
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=noting)
    agent = garden(middleware, model, InMemorySaver())
    ask(agent, "one")
    asked = ask(agent, "book Bristol")[2]
    agent.invoke({"messages": [HumanMessage("book Bristol, 3 nights", id=asked.id)]}, THREAD)
    assert texts(model.calls[-1])[1:4] == ["one", "noted", "book Bristol, 3 nights"]
    assert "book Bristol" in stored(middleware)
    middleware.close()


@pytest.mark.parametrize("saver", [InMemorySaver, lambda: None])
def test_two_runs_in_one_thread_keep_their_own_questions(tmp_path: Path, saver: Any) -> None:
    both, seen = threading.Barrier(2, timeout=60), {}

    @tool
    def look(place: str) -> str:
        """Looks."""
        both.wait()
        return f"seen at {place}"

    def rule(messages: list[BaseMessage]) -> AIMessage:
        last = messages[-1]
        if last.type == "human" and str(last.content).startswith("look"):
            both.wait()
            return answer("", ("look", {"place": str(last.content)}))
        if last.type == "tool":
            seen[str(last.content)] = texts(messages)[1:]
        return answer("noted")

    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=rule)
    agent = create(middleware, model, look, saver())
    ask(agent, "a long beginning of the whole talk")
    # Both begin at one checkpoint; else the later one might read the other's question from the state.
    base = agent.get_state(THREAD).config if saver is InMemorySaver else THREAD
    runs = [threading.Thread(target=ask, args=(agent, f"look at {name}", base)) for name in "AB"]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    beginning = ["a long beginning of the whole talk", "noted"]
    for name in "AB":
        own = seen[f"seen at look at {name}"]
        assert own[:2] == beginning
        assert own[-3:] == [f"look at {name}", "", f"seen at look at {name}"]
        # Without a checkpointer a run has no history that says which questions stand before its own.
        assert len(own) == 5 or (saver is not InMemorySaver and len(own) == 6)
    ask(agent, "and then?")
    assert texts(model.calls[-1])[-1] == "and then?"
    assert len(stored(middleware)) == 2 + 2 * 4 + 2
    assert model.problems == []
    middleware.close()


def create(middleware: LcmMiddleware, model: ScriptedModel, one: Any, saver: Any) -> Any:
    from langchain.agents import create_agent

    return create_agent(
        model, tools=[one], middleware=[middleware], system_prompt="Be brief.", checkpointer=saver
    )


def test_short_words_in_a_list_that_the_host_shortens_are_all_stored(tmp_path: Path) -> None:
    words = iter(WORDS[(n * 5) % 12] for n in range(40))
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=lambda messages: answer(next(words)))
    agent = garden(middleware, model, None)
    history: list[Any] = []
    for number in range(40):
        history = [*history[-6:], HumanMessage(WORDS[(number * 7) % 12])]
        bare = [message.model_copy(update={"id": None}) for message in history]
        history = agent.invoke({"messages": bare}, THREAD)["messages"]
    assert len(stored(middleware)) == 80
    middleware.close()


@pytest.mark.parametrize("saver", [InMemorySaver, lambda: None])
@pytest.mark.parametrize("as_tuple", [True, False])
def test_deepagents_stores_messages_without_ids_once(tmp_path: Path, saver: Any, as_tuple: bool) -> None:
    middleware, model = middleware_in(tmp_path, window=40_000), ScriptedModel(rule=noting)
    agent = create_deep_agent(model=model, middleware=[middleware], checkpointer=saver())
    asked = ["ok", "what is the weather like at the harbour?", "ok", "ok"]
    for text in asked:
        agent.invoke({"messages": [("user", text) if as_tuple else text]}, THREAD)
    assert stored(middleware) == [part for text in asked for part in (text, "noted")]
    assert texts(model.calls[-1])[1:] == ["ok", "noted", asked[1], "noted", "ok", "noted", "ok"]
    middleware.close()


@pytest.mark.parametrize("saver", [InMemorySaver, lambda: None])
def test_a_tool_that_raises_leaves_a_thread_that_goes_on(tmp_path: Path, saver: Any) -> None:
    @tool
    def look(place: str) -> str:
        """Looks."""
        raise OSError("the shed is locked")

    def rule(messages: list[BaseMessage]) -> AIMessage:
        asked = str(messages[-1].content)
        return answer("I look.", ("look", {"place": "shed"})) if asked == "look" else answer("noted")

    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=rule)
    agent = create(middleware, model, look, saver())
    ask(agent, "one")
    with pytest.raises(OSError, match="locked"):
        ask(agent, "look")
    ask(agent, "two")
    ask(agent, "three")
    assert model.problems == []
    assert [text for text in stored(middleware) if text != "noted"] == [
        "one",
        "look",
        "I look.",
        "two",
        "three",
    ]
    assert texts(model.calls[-1])[-1] == "three"
    middleware.close()
