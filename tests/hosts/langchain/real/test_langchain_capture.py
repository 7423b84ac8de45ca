"""Capture only, beside LangChain's own summariser: it compacts, and what it took away is quoted when it is asked for."""

from __future__ import annotations

from pathlib import Path

from fakes.speech import fact, turn
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from scripted import ScriptedModel
from talk import ask

from lcm_plugin import LcmConfig, Session
from lcm_plugin.hosts.langchain import LcmMiddleware

TURNS = 24
ASKED = "What was the code of VAULT-003, please?"
SESSION = Session("langchain:talk")


def answer(messages: list[BaseMessage]) -> AIMessage:
    prompt = str(messages[-1].content)
    return AIMessage(
        "They counted barrels." if "summar" in prompt.lower() else f"Heard {len(prompt)} characters."
    )


def test_what_the_summariser_took_away_is_stored_and_quoted_when_asked_for(tmp_path: Path) -> None:
    model = ScriptedModel(rule=answer)
    config = LcmConfig(database=str(tmp_path / "lcm.db"), capture_only=True, fresh_tail_count=2)
    ours = LcmMiddleware(config, window=12_000)
    theirs = SummarizationMiddleware(model, trigger=("messages", 8), keep=("messages", 4))
    agent = create_agent(model, middleware=[theirs, ours], checkpointer=InMemorySaver())
    said = [f"{turn(number, 30)} {fact(number)}" for number in range(1, TURNS)]
    for text in said:
        ask(agent, text)
    state = ask(agent, ASKED)
    assert len(state) < 12, "the host compacts its own state"
    stored = [message["content"] for message in ours.engine.messages(SESSION) if message["role"] == "user"]
    assert [text for text in stored if text in said] == said
    assert stored[-1] == ASKED
    call = model.calls[-1]
    assert call[-1].content == ASKED
    assert fact(3) in str(call[-2].content)
    assert str(call[-2].content).startswith("<recalled>")
    own = [message for message in call[1:] if not str(message.content).startswith("<recalled>")]
    assert [message.id for message in own] == [message.id for message in state[:-1]]
    assert not any("<recalled>" in str(message.content) for message in state)
    assert all(item.kind == "message" for item in ours.engine.context_items(SESSION))
    assert model.problems == []
    ours.close()
