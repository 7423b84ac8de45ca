"""A talk of many turns with tools, for the tests and for a process of its own that gets killed.

``python talk.py DATABASE FIRST COUNT`` runs some turns and prints a line after each.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import agents
from agents import Agent, Runner, function_tool
from scripted import Item, ScriptedModel, called, said, thought

from lcm_plugin import LcmConfig
from lcm_plugin.hosts.openai_agents import LcmSession

WINDOW = 12_000
OVERHEAD = 3_500
FACT = "The password of the shed is amber-lantern-77, with two dashes."
SETTINGS = {"fresh_tail_count": 8, "leaf_chunk_tokens": 1_500, "leaf_target_tokens": 200}


@function_tool
def weather(place: str) -> str:
    """The weather at a place."""
    return f"{place}: " + "rain from the west, then dry. " * 12


def rule(items: list[Item], number: int) -> list[Any]:
    """Thinks; looks at two places for a plan; searches the history for what it is asked of it; then answers."""
    last = items[-1]
    text = last.get("content") if last.get("role") == "user" else None
    if isinstance(text, str) and text.startswith("plan"):
        return [thought(number), *(called("weather", {"place": f"bed {n}"}, number, n) for n in range(2))]
    if isinstance(text, str) and text.startswith("recall"):
        return [thought(number), called("lcm_grep", {"pattern": "password of the shed"}, number)]
    if _name_of_call(items, last.get("call_id")) == "lcm_grep":
        return [thought(number), called("lcm_describe", {"id": _first_hit(str(last["output"]))}, number)]
    return [thought(number), said(f"noted in step {number}: " + "the beds are wet. " * 10, number)]


def _name_of_call(items: list[Item], call_id: Any) -> str:
    calls = [item for item in items if item.get("type") == "function_call"]
    return next((item["name"] for item in calls if item["call_id"] == call_id), "")


def _first_hit(output: str) -> str:
    hits = json.loads(output)["hits"]
    return str(next(hit["id"] for hit in hits if hit["role"] == "user" and "recall" not in hit["snippet"]))


def question(turn: int) -> str:
    """What is asked in a turn."""
    if turn == 0:
        return f"note this: {FACT}"
    return f"plan the work of day {turn}. " + "The garden has many beds and little sun. " * 6


async def talk(session: LcmSession, model: ScriptedModel, first: int, count: int) -> None:
    agent = Agent(name="gardener", instructions="Be brief.", model=model, tools=[weather, *session.tools])
    for turn in range(first, first + count):
        await Runner.run(
            agent, question(turn), session=session, hooks=session.hooks, run_config=session.run_config()
        )
        print("turn", turn, flush=True)


if __name__ == "__main__":
    agents.set_tracing_disabled(True)
    opened = LcmSession(
        "talk", LcmConfig(database=sys.argv[1], **SETTINGS), window=WINDOW, overhead_tokens=OVERHEAD
    )
    start = int(sys.argv[2])
    asyncio.run(talk(opened, ScriptedModel(rule, 1_000 * start), start, int(sys.argv[3])))
