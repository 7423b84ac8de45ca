"""Recall by itself through a real agent: the request that reaches the model's server holds an old fact."""

from __future__ import annotations

from pathlib import Path

from fakes.model_server import ModelServer
from fakes.speech import fact, turn
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from talk import ask, garden, middleware_in

from lcm_plugin import Session

TURNS = 300
ASKED = "Can you remind me: what is the code of VAULT-003? RECALL VAULT-003"


def test_a_fact_of_turn_3_is_in_the_request_of_turn_300_before_any_tool_is_called(tmp_path: Path) -> None:
    with ModelServer() as server:
        model = ChatOpenAI(model="fake-model", base_url=server.url, api_key="none", use_responses_api=False)  # type: ignore[arg-type]
        middleware = middleware_in(tmp_path)
        agent = garden(middleware, model, InMemorySaver())
        for number in range(1, TURNS):
            ask(agent, f"{turn(number, 40)} {fact(number)}")
        state = ask(agent, ASKED)
        assert str(state[-1].content) == fact(3)
        [asked] = [request for request in server.requests if request.prompt == ASKED]
        quotes, question = asked.messages[-2:]
        assert question["content"] == ASKED
        assert str(quotes["content"]).startswith("<recalled>")
        assert fact(3) in str(quotes["content"])
        assert not any(fact(3) in str(message["content"]) for message in asked.messages[-20:-2])
        assert server.invalid == []
        stored = middleware.engine.messages(Session("langchain:talk"))
        assert len(stored) == len(state) == 2 * TURNS
        assert not any("<recalled>" in str(message) for message in stored)
        middleware.close()
