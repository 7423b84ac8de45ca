"""Long talks through the real runner at a small window."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, FunctionTool, RunConfig, Runner, function_tool
from scripted import Item, ScriptedModel, called, problems_in, said, thought
from talk import FACT, OVERHEAD, SETTINGS, WINDOW, question, rule, talk, weather

from lcm_plugin import Engine, LcmConfig, LcmError
from lcm_plugin.compaction.calibration import UNCONFIRMED_MARGIN
from lcm_plugin.hosts.openai_agents import LcmSession, recall_tools

TURNS = 60


def opened(path: Path) -> LcmSession:
    config = LcmConfig(database=str(path), **SETTINGS)
    return LcmSession("talk", config, window=WINDOW, overhead_tokens=OVERHEAD)


def tokens(engine: Engine, items: list[Item]) -> int:
    return sum(engine.count_tokens(item) for item in items)


def test_sixty_turns_with_tools_stay_valid_and_within_the_window(tmp_path: Path) -> None:
    session, model = opened(tmp_path / "lcm.db"), ScriptedModel(rule)
    asyncio.run(talk(session, model, 0, TURNS))
    agent = Agent(name="gardener", model=model, tools=[weather, *session.tools])
    result = asyncio.run(
        Runner.run(agent, "recall the password", session=session, run_config=session.run_config())
    )
    assert model.problems == []
    assert len(model.inputs) == 1 + 2 * (TURNS - 1) + 3
    assert max(tokens(session.engine, items) for items in model.inputs) <= WINDOW - OVERHEAD
    assert any("<summary" in str(item.get("content")) for item in model.inputs[-1])

    assert FACT not in json.dumps([item for item in model.inputs[-3] if item.get("role") == "user"][-3:])
    read = [item for item in result.to_input_list() if item.get("type") == "function_call_output"][-1]
    assert FACT in json.dumps(json.loads(str(read["output"])), ensure_ascii=False)

    record: Any = asyncio.run(session.record())
    asked = [item["content"] for item in record if item.get("role") == "user"]
    assert asked == [*map(question, range(TURNS)), "recall the password"]
    made = [item["call_id"] for item in record if item.get("type") == "function_call"]
    answered = [item["call_id"] for item in record if item.get("type") == "function_call_output"]
    assert len(made) == len(set(made)) == 2 * (TURNS - 1) + 2
    assert sorted(made) == sorted(answered)
    ids = [item["id"] for item in record if item.get("id")]
    assert len(ids) == len(set(ids))
    assert session.engine.check().findings == ()
    session.close()


def test_one_long_run_stays_within_the_window(tmp_path: Path) -> None:
    def keep_looking(items: list[Item], number: int) -> list[Any]:
        if number > 60:
            return [thought(number), said("enough", number)]
        return [thought(number), called("weather", {"place": f"bed {number}"}, number)]

    session, model = opened(tmp_path / "lcm.db"), ScriptedModel(keep_looking)
    agent = Agent(name="gardener", model=model, tools=[weather, *session.tools])
    asyncio.run(
        Runner.run(
            agent, "look at every bed", session=session, run_config=session.run_config(), max_turns=100
        )
    )
    assert model.problems == []
    assert len(model.inputs) == 61
    assert max(tokens(session.engine, items) for items in model.inputs) <= WINDOW - OVERHEAD
    assert all(items[-1]["output"].startswith(f"bed {n}:") for n, items in enumerate(model.inputs) if n)
    assert len(asyncio.run(session.record())) == 1 + 3 * 60 + 2
    session.close()


def test_a_killed_process_loses_nothing_that_was_added(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    command = [sys.executable, str(Path(__file__).with_name("talk.py")), str(database), "0", "1000"]
    path = os.pathsep.join(str(Path(__file__).parents[level]) for level in (3, 4))
    killed = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert killed.stdout is not None
    done = 0
    for line in killed.stdout:
        done = int(line.split()[1])
        if done == 20:
            break
    killed.kill()
    killed.wait()
    killed.stdout.close()

    session, model = opened(database), ScriptedModel(rule, 900_000)
    before: Any = asyncio.run(session.record())
    asked = [item["content"] for item in before if item.get("role") == "user"]
    assert asked[:21] == [question(turn) for turn in range(21)]
    assert asked == [question(turn) for turn in range(len(asked))]
    asyncio.run(talk(session, model, 500, 5))
    assert model.problems == []
    after: Any = asyncio.run(session.record())
    assert after[: len(before)] == before
    assert len(after) == len(before) + 5 * 8
    assert session.engine.check().findings == ()
    session.close()


def test_a_streamed_run_stores_the_same(tmp_path: Path) -> None:
    session, model = opened(tmp_path / "lcm.db"), ScriptedModel(rule)
    agent = Agent(name="gardener", model=model, tools=[weather, *session.tools])

    async def stream() -> None:
        for turn in range(6):
            result = Runner.run_streamed(
                agent, question(turn), session=session, run_config=session.run_config()
            )
            async for _ in result.stream_events():
                pass

    asyncio.run(stream())
    assert model.problems == []
    record: Any = asyncio.run(session.record())
    assert len(record) == 3 + 5 * 8
    made = [item["call_id"] for item in record if item.get("type") == "function_call"]
    assert len(made) == len(set(made)) == 10
    session.close()


@pytest.mark.skipif(
    "needs_approval" not in FunctionTool.__dataclass_fields__, reason="this SDK has no approvals"
)
def test_a_run_that_waits_for_an_approval_goes_on(tmp_path: Path) -> None:
    @function_tool(needs_approval=True)
    def dig(place: str) -> str:
        """Digs."""
        return f"a hole in {place}"

    def dig_first(items: list[Item], number: int) -> list[Any]:
        if items[-1].get("role") == "user" and "dig" in str(items[-1]["content"]):
            return [thought(number), called("dig", {"place": "bed 1"}, number)]
        return [thought(number), said("done", number)]

    session, model = opened(tmp_path / "lcm.db"), ScriptedModel(dig_first)
    agent = Agent(name="gardener", model=model, tools=[dig])

    async def approve() -> None:
        stopped = await Runner.run(agent, "dig", session=session)
        assert len(stopped.interruptions) == 1
        state = stopped.to_state()
        state.approve(stopped.interruptions[0])
        await Runner.run(agent, state, session=session)
        await Runner.run(agent, "thanks", session=session)

    asyncio.run(approve())
    assert model.problems == []
    record: Any = asyncio.run(session.record())
    kinds = [item.get("type") or item["role"] for item in record]
    turn = ["user", "reasoning", "function_call", "function_call_output", "reasoning", "message"]
    assert kinds == [*turn, "user", "reasoning", "message"]
    session.close()


def test_one_agent_serves_many_sessions(tmp_path: Path) -> None:
    def search(items: list[Item], number: int) -> list[Any]:
        if items[-1].get("role") == "user" and "search" in str(items[-1]["content"]):
            return [called("lcm_grep", {"pattern": "password"}, number)]
        return [said("done", number)]

    config = LcmConfig(database=str(tmp_path / "lcm.db"))
    with Engine.open(config) as engine:
        sessions = [LcmSession(name, engine=engine) for name in ("ann", "bob")]
        model = ScriptedModel(search)
        agent: Agent[LcmSession] = Agent(name="a", model=model, tools=recall_tools(lambda run: run.context))
        for session in sessions:
            text = f"the password of {session.session_id} is {session.session_id}-1"
            Runner.run_sync(agent, text, session=session, context=session)
        for session in sessions:
            result = Runner.run_sync(agent, "search", session=session, context=session)
            found = json.dumps(result.to_input_list()[-2])
            other = "bob" if session.session_id == "ann" else "ann"
            assert f"{session.session_id}-1" in found
            assert f"{other}-1" not in found


def test_arguments_that_are_not_json_are_told_to_the_model(tmp_path: Path) -> None:
    session = opened(tmp_path / "lcm.db")
    tool = session.tools[0]
    assert "not JSON" in asyncio.run(tool.on_invoke_tool(None, "{"))  # type: ignore[arg-type]
    session.close()


def test_the_filter_leaves_an_input_of_another_conversation_alone(tmp_path: Path) -> None:
    session = opened(tmp_path / "lcm.db")
    foreign = [{"role": "user", "content": "word " * 20_000}]
    assert session._shorter(foreign, None) is None
    asyncio.run(session.add_items([{"role": "user", "content": "hello"}]))
    assert session._shorter(foreign, None) is None
    session.close()


def test_the_window_learns_from_what_the_provider_counts(tmp_path: Path) -> None:
    session, model = opened(tmp_path / "lcm.db"), ScriptedModel(rule)
    asyncio.run(talk(session, model, 0, 12))
    assert session.engine.calibration.samples(None) >= 12
    assert session.engine.calibration.margin(None) != UNCONFIRMED_MARGIN
    session.close()


def test_the_overhead_is_measured_and_a_refused_input_fits_the_next_time(tmp_path: Path) -> None:
    session = LcmSession("talk", LcmConfig(database=str(tmp_path / "lcm.db")))
    agent = Agent(name="a", instructions="Be brief. " * 300, model=ScriptedModel(rule), tools=session.tools)
    Runner.run_sync(agent, "hello", session=session, hooks=session.hooks)
    count = session.engine.count_tokens
    assert count("Be brief. " * 300) + 800 < session._overhead < count("Be brief. " * 300) + 4_000
    items = [{"role": "user", "content": f"note {n}: " + "the beds are wet " * 40} for n in range(60)]
    asyncio.run(session.add_items(items))
    assert count(asyncio.run(session.get_items())) > 6_000
    session.note_refusal(RuntimeError("prompt is too long: 12000 tokens > 6000 maximum"))
    assert count(asyncio.run(session.get_items())) + session._overhead <= 6_000
    session.close()


def test_failing_storage_is_an_error_and_nothing_is_lost_silently(tmp_path: Path) -> None:
    @function_tool
    def nothing() -> str:
        """Does nothing."""
        return "done"

    (tmp_path / "lcm.db").write_bytes(b"not a database at all, but long enough to be looked at" * 40)
    session = opened(tmp_path / "lcm.db")
    agent = Agent(name="a", model=ScriptedModel(rule), tools=[nothing])
    with pytest.raises(LcmError, match=r"lcm\.db"):
        Runner.run_sync(agent, "hello", session=session, run_config=RunConfig())
    assert [one.hook for one in session.plugin.health.failures(session.core_session)] == ["get_items"]


def test_a_history_with_only_a_reply_can_be_read(tmp_path: Path) -> None:
    session = opened(tmp_path / "lcm.db")
    reply = {"role": "assistant", "content": "welcome"}
    asyncio.run(session.add_items([reply]))
    items: Any = asyncio.run(session.get_items())
    assert items == [reply]
    assert problems_in([{"role": "user", "content": "hi"}]) == []
    session.close()


@pytest.mark.parametrize("remembers", [False, True])
def test_an_agent_used_as_a_tool_leaves_the_coordinators_session_alone(
    tmp_path: Path, remembers: bool
) -> None:
    session = LcmSession("talk", LcmConfig(database=str(tmp_path / "lcm.db")), window=WINDOW)
    helpers = LcmSession("talk:subagent:helper", engine=session.engine) if remembers else None
    looker = ScriptedModel(lambda items, number: [said(f"the gauge was read, answer {number}", number)], 100)
    tool = Agent(name="looker", model=looker).as_tool("ask_looker", "Looks.", session=helpers)

    def coordinate(items: list[Item], number: int) -> list[Any]:
        if items[-1].get("role") == "user":
            return [called("ask_looker", {"input": f"look for step {number}"}, number)]
        return [said(f"it says: {items[-1]['output']}", number)]

    model = ScriptedModel(coordinate)
    agent = Agent(name="coordinator", model=model, tools=[tool, *session.tools])

    async def ask() -> list[str]:
        runs = [
            await Runner.run(agent, f"question {n}", session=session, run_config=session.run_config())
            for n in range(3)
        ]
        return [str(run.final_output) for run in runs]

    answers = asyncio.run(ask())
    assert answers == [f"it says: the gauge was read, answer {n}" for n in (101, 102, 103)]
    record = json.dumps(asyncio.run(session.record()))
    assert record.count('"question ') == 3
    assert '"content": "look for step' not in record
    assert [len(items) for items in looker.inputs] == ([1, 3, 5] if remembers else [1, 1, 1])
    keys = sorted(one.session_key for one in session.engine.library.conversations())
    assert keys == ["openai-agents:talk", "openai-agents:talk:subagent:helper"][: 1 + remembers]
    assert model.problems == looker.problems == []
    session.close()


def test_an_agent_that_is_handed_the_talk_goes_on_in_its_session(tmp_path: Path) -> None:
    session = LcmSession("talk", LcmConfig(database=str(tmp_path / "lcm.db")), window=WINDOW)
    expert = ScriptedModel(lambda items, number: [said(f"I read {len(items)} items", number)], 100)
    second = Agent(name="expert", model=expert)
    model = ScriptedModel(lambda items, number: [called("transfer_to_expert", {}, number)])
    first = Agent(name="desk", model=model, handoffs=[second])

    async def ask() -> Any:
        await Runner.run(first, "a question for an expert", session=session, run_config=session.run_config())
        return await Runner.run(second, "and another", session=session, run_config=session.run_config())

    assert asyncio.run(ask()).final_output == "I read 5 items"
    assert expert.inputs[-1][0]["content"] == "a question for an expert"
    kinds = [item.get("type") or item["role"] for item in asyncio.run(session.record())]
    assert kinds == ["user", "function_call", "function_call_output", "message", "user", "message"]
    assert expert.problems == []
    session.close()
