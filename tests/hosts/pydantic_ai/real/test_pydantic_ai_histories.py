"""Whatever a program does with its histories, a run is shown what it was given, and all is stored once."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from checks import problems_of
from histories import numbers, random_steps
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from talk import KEY

from lcm_plugin import LcmConfig, Session
from lcm_plugin.hosts.pydantic_ai import LcmCapability

KINDS = ["turn", "tools", "edit", "edit an answer", "back", "branch", "retry", "compact", "restart"]
LANE = Session(KEY)


def texts(messages: list[ModelMessage]) -> list[str]:
    """What is said, called and found, part by part."""
    return [
        str(part.args if isinstance(part, ToolCallPart) else part.content)
        for message in messages
        for part in message.parts
    ]


class Program:
    """A program with an agent, the history that it hands over, and those that it left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listing: list[ModelMessage] = []
        self.left: list[list[ModelMessage]] = []
        self.said: list[str] = []
        self.shown: list[ModelMessage] = []
        self.problems: list[str] = []
        self.compacted = False
        self.open()

    def open(self) -> None:
        config = LcmConfig(
            fresh_tail_count=2,
            leaf_chunk_tokens=200,
            leaf_target_tokens=60,
            leaf_min_fanout=2,
            autocompact_disabled=True,
        )
        self.lcm: LcmCapability[Any] = LcmCapability(
            KEY, self.folder / "lcm.db", window=200_000, summary_model="none", config=config
        )
        self.agent: Agent[None, str] = Agent(FunctionModel(self._model), capabilities=[self.lcm])
        self.agent.tool_plain(look)

    def words(self, kind: str) -> str:
        self.said.append(f"{kind}, said as number {len(self.said)} of this talk")
        return self.said[-1]

    def _model(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.shown = list(messages)
        self.problems += problems_of(messages)
        if str(getattr(messages[-1].parts[-1], "content", "")).startswith("tools"):
            place = f"place {len(self.said)}"
            self.said += [str({"place": place}), f"seen at {place}"]
            return ModelResponse([ToolCallPart("look", {"place": place}, f"call-of-{len(self.said)}-here")])
        return ModelResponse([TextPart(self.words("answer"))])

    def run(self, prompt: str | None, history: list[ModelMessage]) -> None:
        self.left.append(self.listing)
        self.listing = self.agent.run_sync(prompt, message_history=history).all_messages()

    def step(self, kind: str, number: int) -> None:
        asked = [n for n, one in enumerate(self.listing) if isinstance(one.parts[0], UserPromptPart)]
        ends = [n for n, one in enumerate(self.listing) if isinstance(one.parts[0], TextPart)]
        at = asked[number % len(asked)]
        if kind == "compact":
            self.compacted |= self.lcm.engine.compact(LANE, force=True, budget=1_000).compacted
        elif kind == "restart":
            self.lcm.close()
            self.open()
        elif kind == "edit":
            self.run(self.words("turn"), self.edited(at))
        elif kind == "edit an answer":
            self.run(self.words("turn"), self.edited(ends[number % len(ends)]))
        elif kind == "back" and at:
            self.run(self.words("back"), self.listing[:at])
        elif kind == "retry":
            self.run(None, self.listing[: at + 1])
        elif kind == "branch" and (left := [one for one in self.left if one]):
            self.run(self.words("branch"), left[number % len(left)])
        else:
            self.run(self.words(kind), self.listing)

    def edited(self, at: int) -> list[ModelMessage]:
        listing = list(self.listing)
        listing[at] = copy.deepcopy(listing[at])
        listing[at].parts[0].content = self.words("edited")  # type: ignore[union-attr]
        return listing


def look(place: str) -> str:
    """Looks."""
    return f"seen at {place}"


def check(steps: list[tuple[str, int]], folder: Path) -> None:
    program = Program(folder)
    program.run(program.words("turn"), [])
    for kind, number in steps:
        program.step(kind, number)
    program.run(program.words("and now"), program.listing)
    final = texts(program.listing[:-1])
    seen = texts(program.shown)
    assert Counter(texts(program.lcm.history())) == Counter(program.said)
    assert program.problems == []
    assert program.lcm.engine.check(LANE).findings == ()
    program.lcm.close()
    if program.compacted:
        assert seen[-1] == final[-1]
        assert not [text for text in program.said if text not in final and text in seen]
        return
    assert seen == final
    (folder / "fresh").mkdir()
    fresh = Program(folder / "fresh")
    fresh.run(None, program.listing[:-1])
    assert texts(fresh.shown) == seen
    fresh.lcm.close()


@pytest.mark.parametrize("number", numbers(16, here=6))
def test_any_history_of_a_session_shows_its_newest_list(number: int, tmp_path: Path) -> None:
    check(random_steps(KINDS, number), tmp_path)
