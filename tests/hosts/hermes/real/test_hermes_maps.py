"""An agent counts over a thousand stored messages with three calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fakes.model_server import Calls, ModelRequest, Reply
from world import World

from lcm_plugin.messages.tokens import TokenCounter

Make = Callable[..., World]
SCHEMA = {"type": "object", "properties": {"refund": {"type": "boolean"}}, "required": ["refund"]}
QUESTION = "How many of these messages ask for a refund?"


def pair(number: int) -> list[dict[str, Any]]:
    wish = "I want a refund" if number % 4 == 0 else "Thanks"
    said = {"role": "user", "content": f"{wish}, order {number}"}
    return [said, {"role": "assistant", "content": f"Order {number} is noted."}]


def label(request: ModelRequest) -> str | None:
    """One item of the map."""
    if not request.messages or "one item of many" not in str(request.messages[0].get("content")):
        return None
    return json.dumps({"refund": "a refund" in str(request.messages[1]["content"])})


def agent(request: ModelRequest) -> Reply | str | None:
    """Maps, counts, reads a row, answers."""
    if QUESTION not in request.prompt:
        return None
    results = [json.loads(str(m["content"])) for m in request.messages if m.get("role") == "tool"]
    if not results:
        return Calls(("lcm_map", {"prompt": "Is a refund asked for?", "schema": SCHEMA}))
    handle = results[0]["handle"]
    if len(results) == 1:
        sql = "SELECT count(*) FROM answers WHERE refund"
        return Calls(("lcm_reduce", {"handles": [handle], "sql": sql}))
    if len(results) == 2:
        return Calls(("lcm_describe", {"id": handle, "tokenCap": 300}))
    return f"{results[1]['rows'][0][0]} of {results[0]['items']}"


def test_a_counting_question_over_a_thousand_messages_takes_three_calls(world: Make) -> None:
    home = world(lcm={"maps": True})
    home.server.add_rule(label)
    home.server.add_rule(agent)
    history = [message for number in range(500) for message in pair(number)]
    result = home.scenario("loop", turns=[QUESTION], history=history)
    assert result["answers"] == ["125 of 1000"]
    tools = [row for row in home.stored() if row["role"] == "tool"]
    assert len(tools) == 3
    count = TokenCounter().text
    assert sum(count(str(row["content"])) for row in tools) < 2_000
    assert home.server.invalid == []
