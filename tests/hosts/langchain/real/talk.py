"""A talk of many turns with tools, for the tests and for a process of its own that gets killed.

``python talk.py FOLDER FIRST COUNT`` runs some turns and prints a line after each.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from scripted import ScriptedModel

from lcm_plugin import LcmConfig
from lcm_plugin.hosts.langchain import LcmMiddleware

WINDOW = 12_000
FACT = "The password of the shed is amber-lantern-77, with two dashes."
SETTINGS = {"fresh_tail_count": 8, "leaf_chunk_tokens": 1_500, "leaf_target_tokens": 200}
THREAD = {"configurable": {"thread_id": "talk"}}
_number = itertools.count(1)


@tool(response_format="content_and_artifact")
def weather(place: str) -> tuple[str, dict[str, Any]]:
    """The weather at a place."""
    return f"{place}: " + "rain from the west, then dry. " * 12, {"place": place, "raw": list(range(500))}


def answer(text: str, *calls: tuple[str, dict[str, Any]]) -> AIMessage:
    """An answer with calls and a provider's counts."""
    made = [{"name": name, "args": args, "id": f"call_{next(_number)}_{id(args):x}"} for name, args in calls]
    usage = {"input_tokens": 5_000, "output_tokens": 20, "total_tokens": 5_020}
    return AIMessage(
        content=text,
        tool_calls=made,  # type: ignore[arg-type]
        usage_metadata=usage,  # type: ignore[arg-type]
        response_metadata={"model_name": "scripted-1", "finish_reason": "stop"},
    )


def rule(messages: list[BaseMessage]) -> AIMessage:
    """Looks at two places for a plan; searches the history for what it is asked of it; then answers."""
    last = messages[-1]
    text = str(last.content)
    if last.type == "human" and text.startswith("plan"):
        return answer("", *(("weather", {"place": f"bed {n}"}) for n in range(2)))
    if last.type == "human" and text.startswith("recall"):
        return answer("", ("lcm_grep", {"pattern": "password of the shed"}))
    if isinstance(last, ToolMessage) and last.name == "lcm_grep":
        hits = json.loads(text)["hits"]
        found = next(hit["id"] for hit in hits if hit["role"] == "user" and "recall" not in hit["snippet"])
        return answer("", ("lcm_describe", {"id": found}))
    return answer("noted: " + "the beds are wet. " * 10)


def question(turn: int) -> str:
    """What is asked in a turn."""
    if turn == 0:
        return f"note this: {FACT}"
    return f"plan the work of day {turn}. " + "The garden has many beds and little sun. " * 6


def garden(middleware: LcmMiddleware, model: ScriptedModel, checkpointer: Any) -> Any:
    """The agent."""
    return create_agent(
        model, tools=[weather], middleware=[middleware], system_prompt="Be brief.", checkpointer=checkpointer
    )


def middleware_in(folder: Path, **options: Any) -> LcmMiddleware:
    """A middleware on the folder's database."""
    config = LcmConfig(database=str(folder / "lcm.db"), **SETTINGS)  # type: ignore[arg-type]
    return LcmMiddleware(config, **{"window": WINDOW, "summary_model": "none", **options})


def ask(agent: Any, text: str, config: Any = THREAD) -> list[BaseMessage]:
    """One turn; returns the state's messages."""
    found: list[BaseMessage] = agent.invoke({"messages": [{"role": "user", "content": text}]}, config)[
        "messages"
    ]
    return found


if __name__ == "__main__":
    place = Path(sys.argv[1])
    saver = SqliteSaver(sqlite3.connect(place / "graph.db", check_same_thread=False))
    gardener = garden(middleware_in(place), ScriptedModel(rule=rule), saver)
    for turn in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
        ask(gardener, question(turn))
        print("turn", turn, flush=True)
