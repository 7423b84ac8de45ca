"""Long talks through real agents at a small window."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from scripted import ScriptedModel, size
from talk import FACT, THREAD, WINDOW, answer, ask, garden, middleware_in, question, rule, weather

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.hosts.langchain import LcmMiddleware
from lcm_plugin.hosts.langchain.messages import from_core

TURNS = 60
LANE = Session("langchain:talk")


def restored(middleware: LcmMiddleware, session: Session = LANE) -> list[BaseMessage]:
    return [one for m in middleware.engine.messages(session) for one in from_core(m, exact=True)]


def texts(messages: list[BaseMessage]) -> list[str]:
    return [str(message.content) for message in messages]


def test_sixty_turns_with_tools_stay_valid_and_within_the_window(tmp_path: Path) -> None:
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=rule)
    agent = garden(middleware, model, InMemorySaver())
    for turn in range(TURNS):
        ask(agent, question(turn))
    state = ask(agent, "recall the password")
    assert model.problems == []
    assert len(model.calls) == 1 + 2 * (TURNS - 1) + 3
    count = middleware.engine.count_tokens
    assert max(sum(count(text) for text in texts(call)) for call in model.calls) <= WINDOW
    assert size(model.calls[-1]) < size(state) / 4
    assert any("<summary" in text for text in texts(model.calls[-1]))
    read = next(message for message in reversed(state) if message.type == "tool")
    assert FACT in json.dumps(json.loads(str(read.content)), ensure_ascii=False)
    assert len(state) == 2 + 5 * (TURNS - 1) + 6
    assert restored(middleware) == state
    assert [getattr(m, "artifact", None) for m in restored(middleware)] == [
        getattr(m, "artifact", None) for m in state
    ]
    assert middleware.engine.check().findings == ()
    assert {"lcm_grep", "lcm_describe", "lcm_expand", "lcm_expand_query", "weather"} <= set(model.bound)
    middleware.close()


def test_asynchronous_runs_are_the_same(tmp_path: Path) -> None:
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=rule)
    agent = garden(middleware, model, InMemorySaver())

    async def talk() -> Any:
        for turn in range(12):
            await agent.ainvoke({"messages": [HumanMessage(question(turn))]}, THREAD)
        return await agent.ainvoke({"messages": [HumanMessage("recall the password")]}, THREAD)

    state = asyncio.run(talk())["messages"]
    assert model.problems == []
    assert restored(middleware) == state
    assert any(FACT in text for text in texts(state) if text.startswith("{"))
    middleware.close()


def test_a_killed_process_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("talk.py")), str(tmp_path), "0", "1000"]
    tests = str(Path(__file__).parents[3])
    killed = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": tests}
    )
    assert killed.stdout is not None
    for line in killed.stdout:
        if line == "turn 15\n":
            break
    killed.kill()
    killed.wait()
    killed.stdout.close()

    connection = sqlite3.connect(tmp_path / "graph.db", check_same_thread=False)
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=rule)
    agent = garden(middleware, model, SqliteSaver(connection))
    for turn in range(500, 503):
        state = ask(agent, question(turn))
    assert model.problems == []
    ids = [message.id for message in restored(middleware)]
    assert len(ids) == len(set(ids))
    assert set(ids) == {message.id for message in state}
    asked = [text for text in texts(restored(middleware)) if text.startswith("plan")]
    assert asked[:15] == [question(turn) for turn in range(1, 16)]
    assert asked[-3:] == [question(turn) for turn in range(500, 503)]
    assert middleware.engine.check().findings == ()
    middleware.close()
    connection.close()


def test_without_a_checkpointer_the_store_is_the_memory(tmp_path: Path) -> None:
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=lambda messages: answer("noted"))
    agent = garden(middleware, model, None)
    ask(agent, "my cat is called Ottokar")
    ask(agent, "what is my cat called?")
    assert texts(model.calls[-1])[1:] == ["my cat is called Ottokar", "noted", "what is my cat called?"]
    assert len(middleware.engine.messages(LANE)) == 4
    middleware.close()


def test_a_whole_history_handed_over_under_fresh_ids_is_stored_once(tmp_path: Path) -> None:
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=rule)
    agent = garden(middleware, model, None)
    history: list[Any] = []
    for turn in range(6):
        history.append(HumanMessage(question(turn)))
        bare = [message.model_copy(update={"id": None}) for message in history]
        history = agent.invoke({"messages": bare}, THREAD)["messages"]
    assert texts(restored(middleware)) == texts(history)
    assert model.problems == []
    middleware.close()


def test_going_back_to_a_checkpoint_takes_back_what_came_after_it(tmp_path: Path) -> None:
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=lambda messages: answer("noted"))
    agent = garden(middleware, model, InMemorySaver())
    for text in ("one", "two", "three"):
        ask(agent, text)
    end = agent.get_state(THREAD).config
    back = next(
        s.config for s in agent.get_state_history(THREAD) if len(s.values["messages"]) == 2 and not s.next
    )
    ask(agent, "another two", back)
    assert texts(model.calls[-1])[1:] == ["one", "noted", "another two"]
    ask(agent, "four", end)
    assert texts(model.calls[-1])[1:] == ["one", "noted", "two", "noted", "three", "noted", "four"]
    assert len(middleware.engine.messages(LANE)) == 10
    assert middleware.engine.check().findings == ()
    middleware.close()


def test_another_process_sees_that_a_graph_went_back(tmp_path: Path) -> None:
    saver, model = InMemorySaver(), ScriptedModel(rule=lambda messages: answer("noted"))
    first = middleware_in(tmp_path)
    agent = garden(first, model, saver)
    for text in ("one", "two"):
        ask(agent, text)
    first.close()
    second = middleware_in(tmp_path)
    agent = garden(second, model, saver)
    back = next(
        s.config for s in agent.get_state_history(THREAD) if len(s.values["messages"]) == 2 and not s.next
    )
    ask(agent, "another two", back)
    assert texts(model.calls[-1])[1:] == ["one", "noted", "another two"]
    second.close()


def test_an_edited_message_is_what_the_model_sees_and_both_are_kept(tmp_path: Path) -> None:
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=lambda messages: answer("noted"))
    agent = garden(middleware, model, InMemorySaver())
    for text in ("one", "two"):
        state = ask(agent, text)
    agent.update_state(THREAD, {"messages": [AIMessage("better so", id=state[1].id)]})
    ask(agent, "three")
    assert texts(model.calls[-1])[1:] == ["one", "better so", "two", "noted", "three"]
    ask(agent, "four")
    assert texts(model.calls[-1])[1:] == ["one", "better so", "two", "noted", "three", "noted", "four"]
    assert texts(restored(middleware))[:4] == ["one", "better so", "two", "noted"]
    assert len(restored(middleware)) == 4 + 1 + 2 + 2
    agent.update_state(THREAD, {"messages": [AIMessage("noted", id=state[1].id)]})
    ask(agent, "five")
    assert texts(model.calls[-1])[1:3] == ["one", "noted"]
    assert texts(model.calls[-1])[3:] == ["two", "noted", "three", "noted", "four", "noted", "five"]
    assert len(restored(middleware)) == 4 + 1 + 2 + 2 + 2
    assert "better so" in texts(restored(middleware))
    assert middleware.engine.check().findings == ()
    middleware.close()


def test_an_edit_of_the_first_message_and_a_restart_after_it_leave_no_copies(tmp_path: Path) -> None:
    saver, model = InMemorySaver(), ScriptedModel(rule=lambda messages: answer("noted"))
    middleware = middleware_in(tmp_path)
    state = ask(garden(middleware, model, saver), "one")
    agent = garden(middleware, model, saver)
    agent.update_state(THREAD, {"messages": [HumanMessage("uno", id=state[0].id)]})
    ask(agent, "two")
    assert texts(model.calls[-1])[1:] == ["uno", "noted", "two"]
    middleware.close()
    again = middleware_in(tmp_path)
    ask(garden(again, model, saver), "three")
    assert texts(model.calls[-1])[1:] == ["uno", "noted", "two", "noted", "three"]
    assert len(restored(again)) == 2 + 1 + 2 + 2
    again.close()


def test_a_thread_that_is_older_than_its_checkpoints_goes_on(tmp_path: Path) -> None:
    model = ScriptedModel(rule=lambda messages: answer("noted"))
    first = middleware_in(tmp_path)
    ask(garden(first, model, None), "one")
    first.close()
    saver = InMemorySaver()
    for text in ("two", "three"):
        middleware = middleware_in(tmp_path)
        ask(garden(middleware, model, saver), text)
        middleware.close()
    assert texts(model.calls[-1])[1:] == ["one", "noted", "two", "noted", "three"]


def test_a_run_that_waits_for_a_person_goes_on(tmp_path: Path) -> None:
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=rule)
    asks = HumanInTheLoopMiddleware(interrupt_on={"weather": True})
    agent = create_agent(model, tools=[weather], middleware=[middleware, asks], checkpointer=InMemorySaver())
    stopped = agent.invoke({"messages": [HumanMessage(question(1))]}, THREAD)
    assert "__interrupt__" in stopped
    decisions = [{"type": "approve"}, {"type": "reject", "message": "not in the rain"}]
    state = agent.invoke(Command(resume={"decisions": decisions}), THREAD)["messages"]
    assert model.problems == []
    assert restored(middleware) == state
    middleware.close()


def test_messages_removed_from_the_front_stay_in_the_context(tmp_path: Path) -> None:
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=lambda messages: answer("noted"))
    agent = garden(middleware, model, InMemorySaver())
    state = ask(agent, "one")
    ask(agent, "two")
    agent.update_state(THREAD, {"messages": [RemoveMessage(id=str(message.id)) for message in state]})
    ask(agent, "three")
    assert texts(model.calls[-1])[1:] == ["one", "noted", "two", "noted", "three"]
    assert len(middleware.engine.messages(LANE)) == 6
    middleware.close()


def test_what_another_middleware_puts_into_a_call_goes_with_it(tmp_path: Path) -> None:
    class Reminder(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(messages=[*request.messages, HumanMessage("it is Tuesday")]))

    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=lambda messages: answer("noted"))
    agent = create_agent(model, middleware=[Reminder(), middleware], checkpointer=InMemorySaver())
    for text in ("one", "two"):
        ask(agent, text)
    assert texts(model.calls[-1])[1:] == ["one", "noted", "two", "it is Tuesday"]
    assert "it is Tuesday" not in texts(restored(middleware))
    middleware.close()


def test_summaries_come_from_the_agents_own_model(tmp_path: Path) -> None:
    summaries: list[str] = []

    def both(messages: list[BaseMessage]) -> AIMessage:
        if "weather" not in str(messages[-1].content) and messages[0].type == "system" and len(messages) == 2:
            summaries.append(str(messages[-1].content))
        return rule(messages)

    model = ScriptedModel(rule=both)
    middleware = middleware_in(tmp_path, summary_model=None)
    agent = garden(middleware, model, InMemorySaver())
    for turn in range(25):
        ask(agent, question(turn))
    assert middleware.engine.wait_idle(30)
    conversation = next(middleware.engine.library.conversations())
    made = list(middleware.engine.library.summaries(conversation.conversation_id))
    assert made
    assert len(model.calls) > 1 + 2 * 24
    middleware.close()


def test_another_model_may_write_the_summaries(tmp_path: Path) -> None:
    writer = ScriptedModel(rule=lambda messages: answer("Short: the beds are wet; plans for every day."))
    model = ScriptedModel(rule=rule)
    middleware = middleware_in(tmp_path, summary_model=writer)
    agent = garden(middleware, model, InMemorySaver())
    for turn in range(25):
        ask(agent, question(turn))
    assert middleware.engine.wait_idle(30)
    assert len(model.calls) == 1 + 2 * 24
    assert writer.calls
    assert middleware.engine.calibration.factor("ScriptedModel") != 1.0
    middleware.close()


def unreachable(messages: list[BaseMessage]) -> AIMessage:
    raise ConnectionError("Error code: 529 - overloaded")


def excuses(messages: list[BaseMessage]) -> AIMessage:
    return answer("I'm sorry, but I can't help with summarizing this conversation.")


@pytest.mark.parametrize("fails", [unreachable, excuses])
def test_a_summary_call_that_fails_leaves_its_error_nowhere_and_the_history_stored(
    tmp_path: Path, fails: Any
) -> None:
    writer, model = ScriptedModel(rule=fails), ScriptedModel(rule=rule)
    middleware = middleware_in(tmp_path, summary_model=writer)
    agent = garden(middleware, model, InMemorySaver())
    for turn in range(12):
        ask(agent, question(turn))
        assert middleware.engine.wait_idle(60)
    conversation = next(middleware.engine.library.conversations())
    made = list(middleware.engine.library.summaries(conversation.conversation_id))
    assert writer.calls
    assert made
    assert all(one.fallback for one in made)
    shown = " ".join(text for call in model.calls for text in texts(call))
    assert "529" not in shown
    assert "I'm sorry" not in shown
    asked = [text for text in texts(restored(middleware)) if text in map(question, range(12))]
    assert asked == list(map(question, range(12)))
    middleware.close()


def test_langchains_own_fake_model_works(tmp_path: Path) -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage("hello"), AIMessage("again")]))
    middleware = middleware_in(tmp_path)
    middleware.tools = []
    agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
    ask(agent, "hi")
    assert texts(ask(agent, "and now?")) == ["hi", "hello", "and now?", "again"]
    assert texts(restored(middleware)) == ["hi", "hello", "and now?", "again"]
    middleware.close()


def test_a_context_that_the_provider_finds_too_long_is_sent_again_shorter(tmp_path: Path) -> None:
    refused: list[int] = []

    def strict(messages: list[BaseMessage]) -> AIMessage:
        if size(messages) > 9_000:
            refused.append(size(messages))
            raise ValueError("This model's maximum context length is 3500 tokens; reduce the length")
        return rule(messages)

    middleware, model = middleware_in(tmp_path, window=16_000), ScriptedModel(rule=strict)
    agent = garden(middleware, model, InMemorySaver())
    for turn in range(30):
        ask(agent, question(turn))
    assert refused
    assert len(refused) < 10
    assert model.problems == []
    middleware.close()


@pytest.mark.parametrize("named", [True, False])
def test_a_window_that_was_assumed_too_large_costs_one_refusal_and_no_turn(
    tmp_path: Path, named: bool
) -> None:
    """Where 128,000 were assumed, and less was true, every turn failed for ever from some turn on."""
    refused: list[int] = []

    def strict(messages: list[BaseMessage]) -> AIMessage:
        tokens = size(messages) // 4
        if tokens > 2_000:
            refused.append(tokens)
            limit = (
                f"maximum context length is 2000 tokens. However, your messages resulted in {tokens} tokens"
            )
            raise ValueError(f"This model's {limit}" if named else "The prompt is too long")
        return answer("noted")

    middleware, model = middleware_in(tmp_path, window=None), ScriptedModel(rule=strict)
    agent = garden(middleware, model, InMemorySaver())
    for turn in range(30):
        assert texts(ask(agent, f"turn {turn}: " + "the beds are wet today " * 30))[-1] == "noted"
    assert 1 <= len(refused) <= (1 if named else 8)
    assert model.problems == []
    middleware.close()


def test_without_a_thread_the_call_goes_out_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=lambda messages: answer("noted"))
    agent = garden(middleware, model, None)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            agent.invoke({"messages": [HumanMessage("hi")]})
    assert texts(model.calls[-1]) == ["Be brief.", "hi"]
    assert sum("no thread_id" in record.getMessage() for record in caplog.records) == 1
    assert not (tmp_path / "lcm.db").exists()


def test_switched_off_it_stores_nothing_and_changes_nothing(tmp_path: Path) -> None:
    middleware = LcmMiddleware(LcmConfig(database=str(tmp_path / "lcm.db"), enabled=False))
    model = ScriptedModel(rule=lambda messages: answer("noted"))
    ask(garden(middleware, model, None), "hi")
    assert texts(model.calls[-1]) == ["Be brief.", "hi"]
    assert middleware.engine.messages(LANE) == []
    middleware.close()


def test_a_reset_begins_anew_though_the_graph_remembers(tmp_path: Path) -> None:
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=lambda messages: answer("noted"))
    agent = garden(middleware, model, InMemorySaver())
    ask(agent, "one")
    middleware.engine.reset_session(middleware.session_of("talk"))
    ask(agent, "two")
    assert texts(model.calls[-1])[1:] == ["two"]
    assert texts(restored(middleware)) == ["two", "noted"]
    middleware.close()


def test_a_session_may_be_chosen_from_the_config(tmp_path: Path) -> None:
    middleware = middleware_in(tmp_path, session=lambda config: config["configurable"].get("user"))
    agent = garden(middleware, ScriptedModel(rule=lambda messages: answer("noted")), None)
    ask(agent, "hi", {"configurable": {"user": "ann"}})
    assert texts(restored(middleware, Session("ann"))) == ["hi", "noted"]
    middleware.close()


def test_a_database_that_fails_does_not_stop_the_agent(tmp_path: Path) -> None:
    (tmp_path / "lcm.db").write_bytes(b"not a database at all, but long enough to be looked at" * 40)
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=lambda messages: answer("noted"))
    agent = garden(middleware, model, InMemorySaver())
    ask(agent, "one")
    assert texts(ask(agent, "two")) == ["one", "noted", "two", "noted"]
    assert texts(model.calls[-1]) == ["Be brief.", "one", "noted", "two"]
    failed = middleware.plugin.health.failures(Session("langchain:talk"))
    assert {"before_model", "after_agent"} <= {one.hook for one in failed}
    assert all(one.in_a_row == 2 for one in failed)


def test_an_agent_that_is_a_node_has_one_lane_for_all_its_turns(tmp_path: Path) -> None:
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=lambda messages: answer("noted"))
    graph: Any = StateGraph(MessagesState)
    graph.add_node("gardener", create_agent(model, middleware=[middleware]))
    graph.add_edge(START, "gardener")
    compiled = graph.compile(checkpointer=InMemorySaver())
    for text in ("one", "two"):
        ask(compiled, text)
    assert texts(model.calls[-1])[1:] == ["one", "noted", "two"]
    assert texts(restored(middleware, Session("langchain:talk:gardener"))) == ["one", "noted", "two", "noted"]
    middleware.close()


def test_deepagents_works_with_it_and_a_sub_agent_has_a_lane_of_its_own(tmp_path: Path) -> None:
    def deep(messages: list[BaseMessage]) -> AIMessage:
        last = messages[-1]
        if last.type == "human" and str(last.content).startswith("delegate"):
            task = {"description": f"look at {last.content}", "subagent_type": "looker"}
            return answer("", ("task", task))
        if last.type == "human" and str(last.content).startswith("look at"):
            return answer("", ("weather", {"place": "Bergen"}))
        if isinstance(last, ToolMessage) and last.name == "weather":
            return answer("the looker saw rain")
        return rule(messages)

    model = ScriptedModel(rule=deep)
    middleware = middleware_in(tmp_path, window=40_000)
    inner = LcmMiddleware(engine=middleware.engine, window=40_000)
    looker = {
        "name": "looker", "description": "looks", "system_prompt": "Look.", "model": model,
        "tools": [weather], "middleware": [inner],
    }  # fmt: skip
    agent = create_deep_agent(
        model=model,
        tools=[weather],
        middleware=[middleware],
        subagents=[looker],
        checkpointer=InMemorySaver(),
    )
    for number in range(3):
        state = ask(agent, f"delegate {number}")
    ask(agent, f"note this: {FACT}")
    for turn in range(1, 8):
        ask(agent, question(turn))
    state = ask(agent, "recall the password")
    assert model.problems == []
    assert any(FACT in text for text in texts(state) if text.startswith("{"))
    assert restored(middleware) == state
    lanes = [conversation.session_key for conversation in middleware.engine.library.conversations()]
    assert len(lanes) == 4
    children = [lane for lane in lanes if lane != "langchain:talk"]
    assert all(lane.startswith("langchain:talk:tools/") for lane in children)
    for number, lane in enumerate(children):
        assert texts(restored(middleware, Session(lane)))[0] == f"look at delegate {number}"
    middleware.close()


@pytest.mark.skipif(version("deepagents") < "0.7", reason="earlier ones refuse a second middleware of a name")
def test_deepagents_lets_it_replace_its_own_summariser(tmp_path: Path) -> None:
    model = ScriptedModel(rule=rule, profile={"max_input_tokens": 20_000})
    middleware = middleware_in(tmp_path, window=None, name="SummarizationMiddleware")
    agent = create_deep_agent(
        model=model, tools=[weather], middleware=[middleware], checkpointer=InMemorySaver()
    )
    for turn in range(60):
        state = ask(agent, question(turn))
    assert model.problems == []
    assert len(model.calls) == 1 + 2 * 59
    assert middleware.engine.count_tokens(texts(state)) > 0.85 * 20_000
    assert any("<summary" in text for text in texts(model.calls[-1]))
    assert restored(middleware) == state
    middleware.close()


def test_a_mark_for_a_providers_cache_is_no_edit(tmp_path: Path) -> None:
    middleware, model = middleware_in(tmp_path), ScriptedModel(rule=lambda messages: answer("noted"))
    agent = garden(middleware, model, InMemorySaver())
    said = [{"type": "text", "text": "one"}]
    state = agent.invoke({"messages": [HumanMessage(said)]}, THREAD)["messages"]
    marked = [{**said[0], "cache_control": {"type": "ephemeral"}}]
    agent.update_state(THREAD, {"messages": [HumanMessage(marked, id=state[0].id)]})
    ask(agent, "two")
    assert len(restored(middleware)) == 4
    middleware.close()


def test_a_bad_summary_model_is_named() -> None:
    with pytest.raises(ValueError, match="summary_model"):
        LcmMiddleware(summary_model="gpt-5")


def test_two_agents_may_share_an_engine(tmp_path: Path) -> None:
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as engine:
        for name in ("one", "two"):
            agent = garden(
                LcmMiddleware(engine=engine), ScriptedModel(rule=lambda messages: answer("noted")), None
            )
            ask(agent, f"hello {name}", {"configurable": {"thread_id": name}})
        assert [len(engine.messages(Session(f"langchain:{name}"))) for name in ("one", "two")] == [2, 2]
