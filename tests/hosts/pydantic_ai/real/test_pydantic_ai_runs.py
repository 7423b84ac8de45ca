"""Runs that stream, fail, retry, are cancelled or refused, and capabilities beside this one."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from checks import as_written, problems_of
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.capabilities import AbstractCapability, ProcessHistory
from pydantic_ai.exceptions import ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from talk import KEY, agent_with, words

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.hosts.pydantic_ai import LcmCapability, recorder, view

Make = Callable[..., LcmCapability[Any]]


def answering(text: str = "done") -> FunctionModel:
    return FunctionModel(lambda messages, info: ModelResponse([TextPart(text)]))


def kinds(messages: list[ModelMessage]) -> list[list[str]]:
    return [[part.part_kind for part in message.parts] for message in messages]


def test_the_hosts_test_model_calls_every_tool_and_all_is_stored(make: Make) -> None:
    lcm = make(summary_model="none")
    agent = agent_with(lcm, TestModel())
    first = agent.run_sync("hello")
    second = agent.run_sync("and again")
    assert lcm.history() == as_written([*first.all_messages(), *second.all_messages()])
    called = {part.tool_name for part in lcm.history()[1].parts if isinstance(part, ToolCallPart)}
    assert {"look", "lcm_grep", "lcm_describe", "lcm_expand", "lcm_expand_query"} <= called


def test_a_streamed_run_is_stored_as_its_result_says(make: Make) -> None:
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if isinstance(messages[-1].parts[-1], UserPromptPart):
            yield {0: DeltaToolCall("look", '{"gauge"', tool_call_id="c1")}
            yield {0: DeltaToolCall(json_args=": 3}")}
        else:
            yield "gauge "
            yield "three"

    lcm = make(summary_model="none")
    agent = agent_with(lcm, FunctionModel(stream_function=stream))

    async def talk() -> list[ModelMessage]:
        everything: list[ModelMessage] = []
        for text in ("first", "second"):
            async with agent.run_stream(text) as streamed:
                assert "".join([piece async for piece in streamed.stream_text(delta=True)]) == "gauge three"
            everything += streamed.all_messages()
        return everything

    everything = asyncio.run(talk())
    assert kinds(everything) == [["user-prompt"], ["tool-call"], ["tool-return"], ["text"]] * 2
    assert lcm.history() == as_written(everything)


def test_a_tool_that_asks_for_another_try_and_output_that_does_not_fit(make: Make) -> None:
    class Reading(BaseModel):
        bar: int

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert problems_of(messages) == []
        step = sum(message.kind == "response" for message in messages)
        output = info.output_tools[0].name
        parts = [
            ToolCallPart("read", {"gauge": 0}),
            ToolCallPart("read", {"gauge": 1}),
            ToolCallPart(output, {"bar": "many"}),
            ToolCallPart(output, {"bar": 7}),
        ]
        return ModelResponse([ThinkingPart("hm"), parts[step]])

    lcm = make(summary_model="none")
    agent: Agent[None, Reading] = Agent(
        FunctionModel(model), output_type=Reading, capabilities=[lcm], retries=3
    )

    @agent.tool_plain
    def read(gauge: int) -> str:
        if gauge == 0:
            raise ModelRetry("gauges begin at 1")
        return "7 bar"

    result = agent.run_sync("read it")
    assert result.output == Reading(bar=7)
    assert "gauges begin at 1" in str(lcm.history())
    assert lcm.history() == as_written(result.all_messages())


def test_a_run_that_fails_in_a_tool_leaves_what_was_said(make: Make) -> None:
    lcm = make(summary_model="none")
    agent = Agent(
        FunctionModel(lambda messages, info: ModelResponse([ToolCallPart("burst", {})])), capabilities=[lcm]
    )

    @agent.tool_plain
    def burst() -> str:
        raise RuntimeError("the pipe burst")

    with pytest.raises(RuntimeError, match="the pipe burst"):
        agent.run_sync("open the valve")
    assert kinds(lcm.history())[:2] == [["user-prompt"], ["tool-call"]]
    seen: list[list[ModelMessage]] = []

    def after(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(messages)
        return ModelResponse([TextPart("It burst.")])

    agent.run_sync("what happened?", model=FunctionModel(after))
    assert problems_of(seen[0]) == []
    assert "open the valve" in str(seen[0])


def test_a_cancelled_run_leaves_what_was_said(make: Make) -> None:
    lcm = make(summary_model="none")
    agent = Agent(
        FunctionModel(lambda messages, info: ModelResponse([ToolCallPart("wait", {})])), capabilities=[lcm]
    )

    async def talk() -> None:
        started = asyncio.Event()

        @agent.tool_plain
        async def wait() -> str:
            started.set()
            await asyncio.sleep(60)
            return "never"

        run = asyncio.create_task(agent.run("wait for it"))
        await started.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(talk())
    assert kinds(lcm.history())[:2] == [["user-prompt"], ["tool-call"]]


def test_a_context_that_the_provider_refuses_is_tried_once_more_and_smaller(make: Make) -> None:
    lcm = make(summary_model="none", window=20_000)
    agent: Agent[None, str] = Agent(answering("noted " + words(3, 60)), capabilities=[lcm])
    for number in range(40):
        agent.run_sync(f"Note {number}: {words(number, 80)}")
    lcm.engine.wait_idle(10)
    sizes: list[int] = []

    def refusing(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sizes.append(len(str(messages)))
        if len(sizes) == 1:
            raise ModelHTTPError(400, "fake", {"message": "maximum context length is 4096 tokens"})
        return ModelResponse([TextPart("fits now")])

    assert agent.run_sync("what now?", model=FunctionModel(refusing)).output == "fits now"
    assert len(sizes) == 2
    assert sizes[1] < sizes[0]


def test_another_error_of_the_provider_reaches_the_caller_at_once(make: Make) -> None:
    tries: list[int] = []

    def failing(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        tries.append(1)
        raise ModelHTTPError(500, "fake", {"message": "out of order"})

    lcm = make(summary_model="none")
    with pytest.raises(ModelHTTPError, match="out of order"):
        Agent(FunctionModel(failing), capabilities=[lcm]).run_sync("hello")
    assert len(tries) == 1
    assert kinds(lcm.history()) == [["user-prompt"]]


def test_while_the_database_is_locked_the_run_goes_on_and_is_stored_later(
    make: Make, database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lcm = make(summary_model="none", config=LcmConfig(busy_timeout_ms=50))
    agent: Agent[None, str] = Agent(answering(), capabilities=[lcm])
    first = agent.run_sync("one")
    with closing(sqlite3.connect(database)) as other:
        other.execute("BEGIN IMMEDIATE")
        second = agent.run_sync("two", message_history=first.all_messages())
        other.rollback()
    assert second.output == "done"
    assert "lcm record failed" in caplog.text
    third = agent.run_sync("three", message_history=second.all_messages())
    assert lcm.history() == as_written(third.all_messages())


def test_without_a_database_the_run_goes_on_as_if_nothing_were_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    lcm: LcmCapability[Any] = LcmCapability(KEY, tmp_path / "file" / "talk.db", summary_model="none")
    seen: list[list[ModelMessage]] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(messages)
        return ModelResponse([TextPart("done")])

    agent: Agent[None, str] = Agent(FunctionModel(model), capabilities=[lcm])
    first = agent.run_sync("one")
    agent.run_sync("two", message_history=first.all_messages())
    assert kinds(seen[1]) == [["user-prompt"], ["text"], ["user-prompt"]]
    (failed,) = lcm.plugin.health.failures()
    assert failed.hook == "record"
    assert failed.in_a_row >= 2


def test_an_ignored_session_is_neither_stored_nor_changed(make: Make) -> None:
    lcm = make(
        "agent:a:secret", summary_model="none", config=LcmConfig(ignore_session_patterns=["agent:*:secret"])
    )
    agent: Agent[None, str] = Agent(answering(), capabilities=[lcm])
    first = agent.run_sync("one")
    second = agent.run_sync("two", message_history=first.all_messages())
    assert len(second.all_messages()) == 4
    assert lcm.engine.library.status().messages == 0


def test_a_function_chooses_the_session_of_each_run(make: Make) -> None:
    def key(ctx: RunContext[str]) -> str:
        return f"agent:user:{ctx.deps}"

    lcm = make(key, summary_model="none")
    seen: list[str] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(str(messages))
        return ModelResponse([TextPart("done")])

    agent = Agent(FunctionModel(model), deps_type=str, capabilities=[lcm])

    async def both() -> None:
        await asyncio.gather(agent.run("I am Ada", deps="ada"), agent.run("I am Bo", deps="bo"))
        await agent.run("who am I?", deps="ada")

    asyncio.run(both())
    assert "I am Ada" in seen[-1]
    assert "I am Bo" not in seen[-1]
    assert len(lcm.history("agent:user:ada")) == 4
    with pytest.raises(ValueError, match="which session"):
        lcm.history()


def test_what_another_capability_puts_into_one_call_reaches_the_model_and_no_history(make: Make) -> None:
    class Reminder(AbstractCapability[Any]):
        async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
            reminder = ModelRequest([UserPromptPart("[the pump is off]")])
            return replace(request_context, messages=[*request_context.messages, reminder])

    seen: list[list[ModelMessage]] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(messages)
        return ModelResponse([TextPart("done")])

    lcm = make(summary_model="none")
    agent: Agent[None, str] = Agent(FunctionModel(model), capabilities=[lcm, Reminder()])
    agent.run_sync("one")
    agent.run_sync("two")
    assert str(seen[1][-1]).count("[the pump is off]") == 1
    assert "two" in str(seen[1][-1])
    assert problems_of(seen[1]) == []


def test_a_history_that_another_capability_cuts_is_stored_whole_all_the_same(make: Make) -> None:
    lcm = make(summary_model="none")
    agent: Agent[None, str] = Agent(
        answering(), capabilities=[ProcessHistory(lambda messages: messages[-1:]), lcm]
    )
    for number in range(4):
        agent.run_sync(f"turn {number}")
    assert [str(m.parts[0].content) for m in lcm.history() if isinstance(m, ModelRequest)] == [
        f"turn {number}" for number in range(4)
    ]


def test_one_capability_serves_many_runs_at_once(make: Make) -> None:
    lcm = make(summary_model="none", window=60_000)
    agent = agent_with(lcm, TestModel(call_tools=["look"]))

    async def many() -> list[Any]:
        return await asyncio.gather(*(agent.run(f"run {number}") for number in range(8)))

    results = asyncio.run(many())
    assert len(lcm.history()) == sum(len(result.all_messages()) for result in results)
    said = sorted(str(p.content) for m in lcm.history() for p in m.parts if isinstance(p, UserPromptPart))
    assert said == sorted(f"run {number}" for number in range(8))


def test_an_open_engine_can_be_shared(database: Path) -> None:
    with Engine.open(LcmConfig(database=str(database))) as engine:
        lcm: LcmCapability[Any] = LcmCapability(KEY, engine=engine)
        Agent(answering(), capabilities=[lcm]).run_sync("hello")
        assert len(engine.messages(Session(KEY))) == 2


def test_a_question_is_answered_by_the_agents_own_model_reading_the_history(make: Make) -> None:
    loops: set[int] = set()

    async def reader(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        loops.add(id(asyncio.get_running_loop()))
        names = [tool.name for tool in info.function_tools]
        newest = messages[-1].parts[-1]
        if "look" not in names:
            return ModelResponse([TextPart("The code is 4417-HERON [msg_1].")])
        if isinstance(newest, UserPromptPart) and "ask" in str(newest.content):
            return ModelResponse([ToolCallPart("lcm_expand_query", {"prompt": "Which code?"})])
        return ModelResponse([TextPart(str(getattr(newest, "content", "")))])

    lcm = make()
    agent = agent_with(lcm, FunctionModel(reader))

    async def talk() -> str:
        await agent.run("The vault code is 4417-HERON.")
        return (await agent.run("ask for the code")).output

    assert "The code is 4417-HERON" in asyncio.run(talk())
    assert len(loops) == 1, "the agent's own model is asked in the loop it belongs to"


def test_a_model_of_its_own_writes_the_summaries_in_a_loop_of_its_own(make: Make) -> None:
    loops: set[int] = set()

    async def writer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        loops.add(threading.get_ident())
        return ModelResponse(
            [TextPart("They noted what the pumps and valves did, one thing after the other.")]
        )

    lcm = make(summary_model=FunctionModel(writer), window=4_000)
    agent: Agent[None, str] = Agent(answering("noted"), capabilities=[lcm])
    for number in range(50):
        agent.run_sync(f"Note {number}: {words(number, 80)}")
    lcm.engine.wait_idle(20)
    summaries = list(lcm.engine.library.summaries(1))
    assert summaries
    assert any("They noted what" in summary.content for summary in summaries)
    assert loops
    assert threading.get_ident() not in loops


def test_a_wrong_answer_of_the_model_is_stored_too(make: Make) -> None:
    lcm = make(summary_model="none")
    agent = Agent(answering("not a number"), output_type=int, capabilities=[lcm], retries=0)
    with pytest.raises(UnexpectedModelBehavior):
        agent.run_sync("how many?")
    assert "not a number" in str(lcm.history())


def test_a_run_that_is_iterated_step_by_step_is_stored_too(make: Make) -> None:
    lcm = make(summary_model="none")
    agent = agent_with(lcm, TestModel(call_tools=["look"]))

    async def talk() -> list[ModelMessage]:
        async with agent.iter("hello") as run:
            async for _ in run:
                pass
        assert run.result is not None
        return run.result.all_messages()

    assert asyncio.run(talk()) == lcm.history()


def test_a_long_history_handed_over_again_is_looked_at_once(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    as_it_is = recorder.dump
    monkeypatch.setattr(
        recorder, "dump", lambda messages: (looked_at.append(len(messages)), as_it_is(messages))[1]
    )
    lcm = make(summary_model="none")
    agent: Agent[None, str] = Agent(answering(), capabilities=[lcm])
    history: list[ModelMessage] = []
    for number in range(5):
        history = agent.run_sync(f"turn {number}", message_history=history).all_messages()
    assert len(history) == 10
    assert sum(looked_at) <= len(history) + 5, "each message once, and the newest request once more at most"
    assert lcm.history() == as_written(history)


def test_a_call_that_a_killed_process_left_is_made_by_a_run_without_a_prompt(make: Make) -> None:
    lcm = make(summary_model="none")
    left = [
        ModelRequest([UserPromptPart("read it")]),
        ModelResponse([ToolCallPart("look", {"gauge": 3}, "c1")]),
    ]
    fresh = recorder.Recorder().listing(left)
    lcm.engine.ingest(Session(KEY), fresh)

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert problems_of(messages) == []
        return ModelResponse([TextPart(str(messages[-1].parts[0].content))])

    agent = agent_with(lcm, FunctionModel(model))
    assert "no result of this call" in agent.run_sync("and now?").output
    lcm.engine.reset_session(Session(KEY))
    lcm.close()
    lcm.engine.ingest(Session(KEY), [{**message, "id": message["id"] + "'"} for message in fresh])
    assert agent.run_sync(message_history=lcm.history()).output == "gauge 3 stands at 21"
    assert kinds(lcm.history()) == [["user-prompt"], ["tool-call"], ["tool-return"], ["text"]]


def test_a_large_image_is_worked_on_off_the_loop(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    worked_on: list[int] = []

    def watched(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            worked_on.append(threading.get_ident())
            return work(*given, **named)

        return run

    monkeypatch.setattr(recorder, "dump", watched(recorder.dump))
    monkeypatch.setattr(recorder, "to_core", watched(recorder.to_core))
    monkeypatch.setattr(view, "from_core", watched(view.from_core))
    image = BinaryContent(b"\x89PNG\r\n\x1a\n" + bytes(3_000_000), media_type="image/png")
    lcm = make()
    agent = Agent(
        FunctionModel(lambda messages, info: ModelResponse([TextPart("Seen.")])), capabilities=[lcm]
    )
    in_loop: list[int] = []

    async def run() -> None:
        in_loop.append(threading.get_ident())
        await agent.run(["Look at this.", image])
        await agent.run("And again.")

    asyncio.run(run())
    assert worked_on
    assert in_loop[0] not in worked_on
    [kept] = [part for message in lcm.history() for part in message.parts if isinstance(part.content, list)]
    assert kept.content[1].data == image.data
