"""An agent counts over a thousand stored messages with three calls."""

from __future__ import annotations

import json
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from scripted import ScriptedModel
from talk import answer, ask, garden

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.hosts.langchain import LcmMiddleware
from lcm_plugin.types import CompletionRequest

SCHEMA = {"type": "object", "properties": {"refund": {"type": "boolean"}}, "required": ["refund"]}
ORDERS = [
    {"role": "user", "content": f"{'I want a refund' if number % 4 == 0 else 'Thanks'}, order {number}"}
    for number in range(1_000)
]


def label(request: CompletionRequest) -> str:
    return json.dumps({"refund": "refund" in str(request.messages[1]["content"])})


def rule(messages: list[BaseMessage]) -> AIMessage:
    """Maps, counts, reads a row, answers."""
    results = [json.loads(str(message.content)) for message in messages if message.type == "tool"]
    handle = results[0]["handle"] if results else ""
    if not results:
        return answer("", ("lcm_map", {"prompt": "A refund?", "schema": SCHEMA, "roles": ["user"]}))
    if len(results) == 1:
        sql = "SELECT count(*) FROM answers WHERE refund"
        return answer("", ("lcm_reduce", {"handles": [handle], "sql": sql}))
    if len(results) == 2:
        return answer("", ("lcm_describe", {"id": handle, "tokenCap": 300}))
    return answer(f"{results[1]['rows'][0][0]} of {results[0]['items']}")


def test_a_counting_question_over_a_thousand_messages_takes_three_calls(tmp_path: Path) -> None:
    engine = Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"), maps=True), label)
    middleware, model = LcmMiddleware(engine=engine, window=32_000), ScriptedModel(rule=rule)
    agent = garden(middleware, model, InMemorySaver())
    middleware.engine.ingest(Session("langchain:talk"), [*ORDERS, {"role": "assistant", "content": "Noted."}])
    state = ask(agent, "How many users want a refund?")
    assert state[-1].content == "250 of 1000"
    results = [str(message.content) for message in state if message.type == "tool"]
    assert len(results) == 3
    assert sum(map(middleware.engine.count_tokens, results)) < 2_000
    assert {"lcm_map", "lcm_reduce"} <= set(model.bound)
    assert model.problems == []
    middleware.close()
    engine.close()
