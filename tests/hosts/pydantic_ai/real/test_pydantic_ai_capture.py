"""Capture only: the run's own history goes to the model, and before the newest prompt what it no longer shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fakes.speech import fact, turn
from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from lcm_plugin import LcmConfig, Session
from lcm_plugin.hosts.pydantic_ai import LcmCapability

KEY = "agent:pydantic:main"
TURNS = 12
ASKED = "What was the code of VAULT-003, please?"


def prompts(messages: list[ModelMessage]) -> list[str]:
    return [
        str(part.content)
        for message in messages
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]


def test_a_host_that_keeps_its_newest_messages_only_is_reminded_of_the_others(tmp_path: Path) -> None:
    calls: list[list[ModelMessage]] = []

    def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        calls.append(messages)
        return ModelResponse([TextPart(f"Heard {len(calls)}.")])

    config = LcmConfig(database=str(tmp_path / "lcm.db"), capture_only=True, fresh_tail_count=2)
    lcm: LcmCapability[Any] = LcmCapability(KEY, config=config, window=12_000)
    cut = ProcessHistory(lambda messages: messages[-3:])
    agent = Agent(FunctionModel(say), capabilities=[cut, lcm])
    said = [f"{turn(number, 30)} {fact(number)}" for number in range(1, TURNS)]
    history: list[ModelMessage] = []
    for text in (*said, ASKED):
        history = agent.run_sync(text, message_history=history[-2:]).all_messages()
    assert prompts(lcm.history()) == [*said, ASKED]
    shown = prompts(calls[-1])
    assert [text for text in shown if not text.startswith("<recalled>")] == [said[-1], ASKED]
    assert shown[-1] == ASKED
    assert fact(3) in shown[-2]
    assert shown[-2].startswith("<recalled>")
    assert not any(text.startswith("<recalled>") for text in prompts(history))
    assert all(item.kind == "message" for item in lcm.engine.context_items(Session(KEY)))
    lcm.close()
