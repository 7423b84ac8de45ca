"""What was popped or cleared is out of every later context and summary; the store keeps it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Model, ModelProvider, Runner
from scripted import Item, ScriptedModel, said, thought
from talk import SETTINGS, question, rule, weather

from lcm_plugin import LcmConfig
from lcm_plugin.hosts.openai_agents import LcmSession

SECRET = "Book the hotel Bristol for three nights."


def opened(path: Path, **options: Any) -> LcmSession:
    return LcmSession("talk", LcmConfig(database=str(path / "lcm.db"), **SETTINGS), **options)


async def turns(session: LcmSession, model: ScriptedModel, *texts: str) -> None:
    agent = Agent(name="gardener", instructions="Be brief.", model=model, tools=[weather])
    for text in texts:
        await Runner.run(agent, text, session=session, hooks=session.hooks, run_config=session.run_config())


async def pop_turn(session: LcmSession) -> list[Any]:
    """Takes the last turn back, as the SDK's page on sessions shows it."""
    popped = [await session.pop_item()]
    while popped[-1].get("role") != "user":
        popped.append(await session.pop_item())
    return popped


@pytest.mark.parametrize("compacted", [False, True])
def test_a_popped_turn_is_in_no_input_and_no_summary_eight_turns_later(
    tmp_path: Path, compacted: bool
) -> None:
    session, model = opened(tmp_path, window=8_000), ScriptedModel(rule)

    async def talk() -> int:
        await turns(session, model, question(0), f"{SECRET} " + "It is for a trip. " * 40)
        if compacted:
            for _ in range(20):
                await session.add_items([{"role": "user", "content": "Thanks, and one more thing. " * 30}])
            assert session.engine.wait_idle(60)
            session.engine.compact(session.core_session, True, 4_000)
            for _ in range(20):
                await session.pop_item()
        popped = await pop_turn(session)
        assert popped[-1]["content"].startswith(SECRET)
        before = len(model.inputs)
        await turns(session, model, *map(question, range(1, 9)))
        return before

    before = asyncio.run(talk())
    assert session.engine.wait_idle(60)
    session.engine.compact(session.core_session, True, 4_000)
    items: Any = asyncio.run(session.get_items())
    assert any("<summary" in str(item.get("content")) for item in items)
    assert "Bristol" not in json.dumps([items, model.inputs[before:]])
    assert model.problems == []
    record: Any = asyncio.run(session.record())
    assert sum(SECRET in str(item.get("content")) for item in record) == 1
    found = session.call_tool("lcm_grep", {"pattern": "Bristol"})
    assert [hit.get("taken_back") for hit in found["hits"]] == [True]
    assert session.engine.check().findings == ()
    session.close()


def test_an_empty_reply_that_was_popped_leaves_nothing_made_up_in_the_record(tmp_path: Path) -> None:
    session = opened(tmp_path)
    asked, blank = {"role": "user", "content": "hello"}, said("", 4).model_dump(exclude_unset=True)

    async def pop_both() -> None:
        await session.add_items([asked, blank])
        assert await session.pop_item() == blank
        assert await session.pop_item() == asked
        assert await session.pop_item() is None

    asyncio.run(pop_both())
    assert len(session.engine.messages(session.core_session)) == 2
    session.close()


def test_what_was_cleared_is_in_no_later_input(tmp_path: Path) -> None:
    session, model = opened(tmp_path), ScriptedModel(rule)
    asyncio.run(turns(session, model, SECRET))
    asyncio.run(session.clear_session())
    asyncio.run(turns(session, model, *map(question, range(8))))
    assert "Bristol" not in json.dumps(model.inputs[1:])
    assert session.call_tool("lcm_grep", {"pattern": "Bristol"})["total"] == 0
    everywhere = session.call_tool("lcm_grep", {"pattern": "Bristol", "all_conversations": True})
    assert everywhere["total"] >= 1
    session.close()


def test_runs_at_the_same_time_in_one_session_take_nothing_back(tmp_path: Path) -> None:
    session, model = opened(tmp_path), ScriptedModel(rule)
    asked = [question(number) for number in range(1, 4)]

    async def together() -> None:
        await turns(session, model, question(0))
        await asyncio.gather(*(turns(session, model, text) for text in asked))

    asyncio.run(together())
    record: Any = asyncio.run(session.record())
    assert sorted(item["content"] for item in record if item.get("role") == "user") == sorted(
        [question(0), *asked]
    )
    assert asyncio.run(session.get_items(limit=1_000)) == record
    for text in asked:
        own = [items for items in model.inputs if any(item.get("content") == text for item in items)]
        assert len(own) >= 2
    session.close()


class Refusing(ScriptedModel):
    """Refuses inputs above a limit, in characters over 4, as Anthropic does or without a number."""

    def __init__(self, limit: int, names_it: bool) -> None:
        super().__init__(lambda items, number: [thought(number), said(f"answer {number}", number)])
        self.limit, self.names_it, self.refused = limit, names_it, 0

    async def get_response(
        self, system_instructions: str | None, input: Any, *more: Any, **options: Any
    ) -> Any:
        tokens = len(json.dumps(input)) // 4
        if tokens > self.limit:
            self.refused += 1
            text = f"prompt is too long: {tokens} tokens > {self.limit} maximum"
            raise RuntimeError(text if self.names_it else "the prompt is too long")
        return await super().get_response(system_instructions, input)


class OnlyOne(ModelProvider):
    """A provider of one model."""

    def __init__(self, model: Model) -> None:
        self.only = model

    def get_model(self, model_name: str | None) -> Model:
        return self.only


def long_notes(count: int) -> list[Item]:
    return [{"role": "user", "content": f"note {n}: " + "the beds are wet " * 40} for n in range(count)]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("names_it", [False, True])
def test_a_refused_input_is_shortened_within_the_turn(tmp_path: Path, names_it: bool, streamed: bool) -> None:
    session, model = opened(tmp_path), Refusing(6_000, names_it)
    agent = Agent(name="a", instructions="Be brief.", model="some-model")
    config = session.run_config(model_provider=OnlyOne(model))

    async def ask() -> str:
        await session.add_items(long_notes(60))
        if not streamed:
            result = await Runner.run(agent, "hello", session=session, hooks=session.hooks, run_config=config)
            return str(result.final_output)
        running = Runner.run_streamed(agent, "hello", session=session, run_config=config)
        async for _ in running.stream_events():
            pass
        return str(running.final_output)

    assert asyncio.run(ask()) == "answer 1"
    assert 1 <= model.refused <= (1 if names_it else 6)
    assert model.inputs[-1][-1] == {"role": "user", "content": "hello"}
    assert long_notes(60)[-1] in model.inputs[-1]
    refused = model.refused
    asyncio.run(turns(session, model, "and now?"))
    assert model.refused == refused
    session.close()


def test_a_model_of_ones_own_can_be_wrapped_and_other_errors_come_through(tmp_path: Path) -> None:
    session, model = opened(tmp_path), Refusing(6_000, True)
    agent = Agent(name="a", model=session.model(model))
    asyncio.run(session.add_items(long_notes(60)))
    assert Runner.run_sync(agent, "hello", session=session).final_output == "answer 1"

    class Broken(ScriptedModel):
        async def get_response(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("401 unauthorized")

    broken = Agent(name="b", model=session.model(Broken(rule)))
    with pytest.raises(RuntimeError, match="401"):
        Runner.run_sync(broken, "hello", session=session)
    tiny = Refusing(1, True)
    with pytest.raises(RuntimeError, match="too long"):
        Runner.run_sync(Agent(name="c", model=session.model(tiny)), "hello", session=session)
    assert tiny.refused < 20
    session.close()
