"""Whatever happened to a session, a run is given what a fresh session with the same items would give, and all is kept."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, function_tool
from histories import numbers, random_steps
from scripted import Item, ScriptedModel, called, said, thought

from lcm_plugin import LcmConfig
from lcm_plugin.hosts.openai_agents import LcmSession

KINDS = ["turn", "tools", "back", "pop one", "retry", "again", "two at once", "clear", "compact", "restart"]


@function_tool
def look(place: str) -> str:
    """Looks."""
    return f"seen at {place}"


def text_of(item: Item) -> str:
    """An item's words: what it says, calls or found."""
    if item.get("type") in ("function_call", "function_call_output"):
        return str(item.get("arguments") or item.get("output"))
    content = item.get("content")
    return "".join(part["text"] for part in content) if isinstance(content, list) else str(content)


def texts(items: list[Any]) -> list[str]:
    return [text_of(item) for item in items if item.get("type") != "reasoning"]


class Program:
    """A program with a session, the items that it should hold, and all that was ever added."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.items: list[Item] = []
        self.said: list[str] = []
        self.cleared = 0
        self.compacted = False
        self.model = ScriptedModel(self._rule)
        self.open()

    def open(self) -> None:
        config = LcmConfig(
            database=str(self.folder / "lcm.db"),
            fresh_tail_count=2,
            leaf_chunk_tokens=200,
            leaf_target_tokens=60,
            leaf_min_fanout=2,
            autocompact_disabled=True,
        )
        self.session = LcmSession("talk", config, window=200_000)

    def words(self, kind: str) -> str:
        self.said.append(f"{kind}, said as number {len(self.said)} of this talk")
        return self.said[-1]

    def _rule(self, items: list[Item], number: int) -> list[Any]:
        if text_of(items[-1]).startswith("tools"):
            place = f"place {len(self.said)}"
            self.said += [f'{{"place": "{place}"}}', f"seen at {place}"]
            return [thought(number), called("look", {"place": place}, number)]
        return [thought(number), said(self.words("answer"), number)]

    async def run(self, *asked: str) -> None:
        agent = Agent(name="a", model=self.model, tools=[look])
        runs = [
            Runner.run(agent, text, session=self.session, run_config=self.session.run_config())
            for text in asked
        ]
        await asyncio.gather(*runs)
        self.items = list(await self.session.get_items(limit=10_000))

    async def pop(self, count: int) -> None:
        for _ in range(count):
            popped = await self.session.pop_item()
            assert popped == self.items.pop()

    async def step(self, kind: str, number: int) -> None:
        asked = [n for n, item in enumerate(self.items) if item.get("role") == "user"]
        at = asked[number % len(asked)] if asked else 0
        if kind == "compact":
            work = (self.session.core_session, True, 1_000)
            self.compacted |= (await asyncio.to_thread(self.session.engine.compact, *work)).compacted
        elif kind == "restart":
            self.session.close()
            self.open()
        elif kind == "clear":
            await self.session.clear_session()
            self.items, self.cleared = [], len(self.said)
        elif kind == "pop one" and self.items:
            await self.pop(1)
        elif kind in ("back", "retry") and asked:
            text = text_of(self.items[at])
            await self.pop(len(self.items) - at)
            if kind == "back":
                await self.run(self.words("back"))
            else:
                self.said.append(text)
                await self.run(text)
        elif kind == "two at once":
            await self.run(self.words("one of two"), self.words("two of two"))
        else:
            await self.run(self.words(kind))


async def check(steps: list[tuple[str, int]], folder: Path) -> None:
    program = Program(folder)
    await program.run(program.words("turn"))
    for kind, number in steps:
        await program.step(kind, number)
    before = list(program.items)
    await program.run(last := program.words("and now"))
    final = [*texts(before), last]
    given = [text for text in texts(program.model.inputs[-1]) if not text.startswith("(no ")]
    assert program.model.problems == []
    assert Counter(texts(await program.session.record())) == Counter(program.said[program.cleared :])
    assert program.session.engine.check(program.session.core_session).findings == ()
    program.session.close()
    if program.compacted:
        assert given[-1] == last
        gone = {text for text in program.said if text not in final}
        assert not gone.intersection(given)
        return
    (folder / "fresh").mkdir()
    fresh = Program(folder / "fresh")
    await fresh.session.add_items(before)
    await fresh.run(last)
    assert texts(fresh.model.inputs[-1]) == texts(program.model.inputs[-1])
    fresh.session.close()


@pytest.mark.parametrize("number", numbers(16, here=6))
def test_any_history_of_a_session_is_given_as_a_fresh_one_would(number: int, tmp_path: Path) -> None:
    asyncio.run(check(random_steps(KINDS, number), tmp_path))
