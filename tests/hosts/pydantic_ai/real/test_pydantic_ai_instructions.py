"""Every system prompt of an agent arrives, on the first call and on later ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, SystemPromptPart, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from talk import KEY

from lcm_plugin.hosts.pydantic_ai import LcmCapability


def test_two_static_and_one_dynamic_system_prompt_arrive(tmp_path: Path) -> None:
    calls: list[list[str]] = []

    def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        calls.append([p.content for m in messages for p in m.parts if isinstance(p, SystemPromptPart)])
        return ModelResponse([TextPart("yes")])

    lcm: LcmCapability[Any] = LcmCapability(KEY, tmp_path / "lcm.db", summary_model="none")
    agent = Agent(FunctionModel(say), system_prompt=("You are P.", "Rules of M."), capabilities=[lcm])

    @agent.system_prompt
    def today() -> str:
        return "Today is Tuesday."

    first = agent.run_sync("hi")
    agent.run_sync("again", message_history=first.all_messages())
    agent.run_sync("once more")
    lcm.close()
    assert calls == [["You are P.", "Rules of M.", "Today is Tuesday."]] * 3
