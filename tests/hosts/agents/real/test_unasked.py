"""What gets no quotes in any agent: small talk, orders to sub-agents, and notices of programs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fake_models import Answer
from gateway import Gateway
from open_talks import claude_talk
from real_agents import Agent, ClaudeCode
from waiting import eventually

AGENTS = ("claude", "codex", "gemini", "opencode", "openclaw")
FACT = "The gate code of the north pumping station is HERON-4417."
QUESTION = "What is the gate code of the north pumping station?"
# Gemini CLI escapes what a hook adds.
QUOTED = re.compile("(<|&lt;)recalled(>|&gt;)")
SPAWNING: dict[str, tuple[str, dict[str, Any]]] = {
    "claude": (
        "Agent",
        {"description": "ask", "prompt": QUESTION, "subagent_type": "general-purpose"},
    ),
    "codex": ("spawn_agent", {"task_name": "ask", "message": QUESTION, "fork_turns": "none"}),
    "gemini": ("invoke_agent", {"agent_name": "generalist", "prompt": QUESTION}),
    "opencode": ("task", {"description": "ask", "prompt": QUESTION, "subagent_type": "general"}),
    "openclaw": ("tool_call", {"id": "openclaw:core:sessions_spawn", "args": {"task": QUESTION}}),
}


@pytest.fixture(params=AGENTS)
def told(request: pytest.FixtureRequest) -> Agent:
    """An agent to which another session told a fact."""
    agent: Any = request.getfixturevalue(request.param)
    if request.param == "openclaw":
        agent.say(f"{FACT} [[say Noted.]]", "agent:main:other")
    else:
        agent.say(f"{FACT} [[say Noted.]]")
    if request.param == "codex":
        settings = agent.home / ".codex" / "config.toml"
        settings.write_text(f"{settings.read_text()}\n[features]\nmulti_agent_v2 = true\n")
    return agent


def quoted(agent: Agent, mark: str) -> list[bool]:
    """Whether quotes stand in the requests with a mark."""
    found = [bool(QUOTED.search(one.text)) for one in agent.models.talk(mark)]
    assert found
    return found


def test_small_talk_gets_none_and_a_question_does(told: Any) -> None:
    session = told.say("Hi there! [[say Hello.]]")
    told.say("Thank you, that is great. [[say Good.]]", session)
    assert not any(quoted(told, "Hi there!"))
    told.say(f"{QUESTION} [[say Quoted.]]", session)
    assert quoted(told, QUESTION)[-1]


def test_the_first_prompt_of_a_session_of_openclaw_is_given_what_another_was_told(gateway: Gateway) -> None:
    gateway.say("The fog horn of the mole is called EGRET-9902. [[say Noted.]]", "agent:main:harbour")
    asked = "How is the fog horn of the mole called?"
    gateway.models.script[asked] = Answer("Here.", [("exec", {"command": "echo one"})])
    for key, given in (("agent:main:evening", True), ("agent:main:telegram:direct:bob", False)):
        begun = len(gateway.models.talk(asked))
        gateway.say(asked, key)
        texts = [one.text for one in gateway.models.talk(asked)[begun:]]
        assert [("EGRET-9902" in text, len(QUOTED.findall(text))) for text in texts] == [(given, given)] * 2


@pytest.mark.parametrize("told", [one for one in AGENTS if one != "openclaw"], indirect=True)
def test_an_order_to_a_sub_agent_gets_none(told: Any, request: pytest.FixtureRequest) -> None:
    host = request.node.callspec.params["told"]
    begun = len(told.models.requests)
    told.models.script["Send somebody."] = Answer("Sent.", [SPAWNING[host]])
    told.say("Send somebody.")
    asked = [one for one in told.models.requests[begun:] if one.body.get("tools") and one.turns]
    subs = [one for one in asked if "Send somebody." not in one.text]
    # Codex encrypts an order, so that the fake model sees none.
    assert [one for one in subs if host == "codex" or QUESTION in one.text]
    assert not any(QUOTED.search(one.text) for one in subs)


def test_an_order_to_a_sub_agent_of_openclaw_gets_none(gateway: Gateway) -> None:
    gateway.say(f"{FACT} [[say Noted.]]", gateway.session())
    gateway.models.script["Send somebody."] = Answer("Sent.", [SPAWNING["openclaw"]])
    gateway.say("Send somebody.", gateway.session())

    def subs() -> list[Any]:
        return [one for one in gateway.models.talk(QUESTION) if "Send somebody." not in one.text]

    assert not any(QUOTED.search(one.text) for one in eventually(subs))


def test_a_notice_that_a_program_ended_gets_none(claude: ClaudeCode) -> None:
    claude.say(f"{FACT} [[say Noted.]]")
    given = {"command": "sleep 1", "description": QUESTION, "run_in_background": True}
    claude.models.script["Begin it."] = Answer("Begun.", [("Bash", given)])
    with claude_talk(claude) as talk:
        talk.say("Begin it.")
        notices = eventually(lambda: claude.models.talk("<task-notification>"))
        assert QUESTION in notices[-1].text
        assert not any(QUOTED.search(one.text) for one in notices)
