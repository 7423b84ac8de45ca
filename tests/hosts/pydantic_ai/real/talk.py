"""Sixty turns with a tool, a fact in the first and a question about it in the last.

As a script it says its turns into a database, each in a run of its own, and prints each that is over:
``python talk.py talk.db 60``; it goes on where an earlier process was killed.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from lcm_plugin.hosts.pydantic_ai import LcmCapability

KEY = "agent:pydantic:main"
FACT = "The vault code is 4417-HERON."
QUESTION = "What exactly was the vault code?"
WINDOW = 7_000
_WORDS = ("pump", "valve", "ledger", "harbour", "copper", "lantern", "orchard", "gravel", "ferry", "socket")


def words(seed: int, count: int = 45) -> str:
    """Other words for another seed."""
    rng = random.Random(seed)
    return " ".join(rng.choice(_WORDS) for _ in range(count))


def prompt(turn: int, last: int) -> str:
    """What the user says in a turn, from 1 on."""
    if turn == 1:
        return f"{FACT} {words(1)}"
    return QUESTION if turn == last else f"Turn {turn}: {words(turn)}"


def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Looks at a gauge, then answers; asked for the code it searches, and says what it was shown."""
    if not info.function_tools:
        return ModelResponse(
            [TextPart("They read gauges, one by one, and spoke of pumps, valves and ferries.")]
        )
    newest = messages[-1].parts[-1]
    if isinstance(newest, UserPromptPart):
        turn = re.match(r"Turn (\d+)", str(newest.content))
        number = int(turn[1]) if turn else 1
        if newest.content == QUESTION:
            return ModelResponse([ToolCallPart("lcm_grep", {"pattern": "vault code", "roles": ["user"]})])
        return ModelResponse([ToolCallPart("look", {"gauge": number}), ToolCallPart("look", '{"gauge": 0}')])
    shown = str(newest.content)
    if "hits" not in shown:
        return ModelResponse([TextPart(f"The gauge says: {shown}. {words(len(str(messages)))}")])
    found = [hit["snippet"].replace("**", "") for hit in json.loads(shown)["hits"]]
    return ModelResponse([TextPart(next((text for text in found if "code is" in text), "unknown"))])


def agent_with(lcm: LcmCapability[Any], model: Any = None) -> Agent[None, str]:
    """An agent with one tool of its own, in which the process dies when LCM_DIE_AT names that gauge."""
    agent = Agent(model or FunctionModel(say), capabilities=[lcm], instructions="You watch gauges. Be brief.")

    @agent.tool_plain
    def look(gauge: int) -> str:
        """Looks at a gauge."""
        if str(gauge) == os.environ.get("LCM_DIE_AT"):
            os.kill(os.getpid(), signal.SIGKILL)
        return f"gauge {gauge} stands at {gauge * 7}"

    return agent


def main(database: str, last: int) -> None:
    """Says what is missing of the turns."""
    lcm: LcmCapability[Any] = LcmCapability(KEY, database, window=WINDOW)
    agent = agent_with(lcm)
    parts = [part for message in lcm.history() for part in message.parts]
    said = sum(isinstance(part, UserPromptPart) for part in parts)
    for turn in range(said + 1, last + 1):
        print(turn, agent.run_sync(prompt(turn, last)).output[:60], flush=True)
    lcm.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
