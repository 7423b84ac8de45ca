"""Quotes in OpenClaw: from the owner's sessions of one agent, never from another person's chat."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lcm_plugin import LcmConfig, Session
from lcm_plugin.hosts.openclaw.methods import OpenclawMethods
from lcm_plugin.hosts.openclaw.sessions import owners_agent
from lcm_plugin.plugin import LcmPlugin

MAIN, OTHER, IGNORED = "agent:main:main", "agent:main:other", "agent:main:secret"
FACT = "The gate code of the north pumping station is HERON-4417."
QUESTION = "What is the gate code of the north pumping station?"


class Openclaw:
    """OpenClaw over a database of its own."""

    def __init__(self, plugin: LcmPlugin) -> None:
        self.plugin = plugin
        self._methods = OpenclawMethods(plugin).all()
        self._turns = 0

    def say(self, key: str, said: str = FACT, answered: str = "Noted.") -> list[dict[str, Any]]:
        """A turn that is committed."""
        self._turns += 1
        at = 1_760_000_000_000 + self._turns * 60_000
        turn = [
            {"role": "user", "content": [{"type": "text", "text": said}], "timestamp": at},
            {"role": "assistant", "content": [{"type": "text", "text": answered}], "timestamp": at + 1},
        ]
        given = {"session": {"key": key, "id": f"run of {key}"}, "key": f"t{self._turns}", "messages": turn}
        self._methods["openclaw.commit"](given)
        return turn

    def ask(
        self, key: str, history: list[dict[str, Any]] | None = None, prompt: str = QUESTION
    ) -> list[dict[str, Any]]:
        """The messages that the context for a prompt holds beside OpenClaw's own."""
        given = {
            "session": {"key": key, "id": f"run of {key}"},
            "messages": history or [],
            "budget": 32_000,
            "prompt": prompt,
        }
        found = self._methods["openclaw.assemble"](given)
        assert [one for one in found["plan"] if isinstance(one, int)] == [
            place for place, one in enumerate(history or []) if "<recalled>" not in str(one)
        ]
        made = [one for one in found["plan"] if not isinstance(one, int)]
        assert (found["tokens"] > 0) == bool(found["plan"])
        return made

    def quotes(self, key: str, history: list[dict[str, Any]] | None = None, prompt: str = QUESTION) -> bool:
        """Whether the fact is quoted."""
        return "HERON-4417" in str(self.ask(key, history, prompt))


def opened(folder: Path, **settings: Any) -> LcmPlugin:
    ignored = {"ignore_session_patterns": [IGNORED], "stateless_session_patterns": ["agent:main:passing"]}
    return LcmPlugin(LcmConfig(database=str(folder / "talk.db"), **{**ignored, **settings}))


@pytest.fixture
def openclaw(tmp_path: Path) -> Iterator[Openclaw]:
    plugin = opened(tmp_path)
    yield Openclaw(plugin)
    plugin.close()


@pytest.mark.parametrize(
    "key", [MAIN, OTHER, "agent:main:a1b2c3d4", "agent:main:2026-notes", "agent:main:my_plan"]
)
def test_the_main_session_and_named_ones_are_the_owners(key: str) -> None:
    assert owners_agent(key) == "main"
    assert owners_agent(key.replace("agent:main:", "agent:work-2:")) == "work-2"


HOSTILE = (
    *("", "main", "global", "agent", "agent:main", "agent:main:", "agent::main", ":agent:main:main"),
    *(
        "agent:main:global",
        "agent:main:unknown",
        "agent:main:direct",
        "agent:main:subagent",
        "agent:main:cron",
    ),
    *("agent:main:direct:bob", "agent:main:telegram:direct:bob", "agent:main:telegram:work:direct:bob"),
    *("agent:main:telegram:group:-100", "agent:main:discord:channel:7", "agent:main:main:thread:9"),
    *("agent:main:subagent:1", "agent:main:cron:daily", "agent:main:run:1", "agent:main:openai-user:bob"),
    *("agent:main:dashboard:1", "agent:main:explicit:1", "agent:main:internal-session-effects:1"),
    *("agent:main:Main", "Agent:main:main", "agent:MAIN:main", "AGENT:MAIN:MAIN", "agent:main:m\u0430in"),
    *("agent:main:main\n", "\nagent:main:main", " agent:main:main", "agent:main:main ", "agent:main:ma in"),
    *(
        "agent:main:main:",
        "agent:main::main",
        "agent:main:telegram%3Adirect%3Abob",
        "agent:main:direct\uff1abob",
    ),
    *(
        "agent:main:+4915112345",
        "agent:main:4915112345",
        "agent:main:bob@g.us",
        "agent:main:%",
        "agent:main:_x",
    ),
    *("agent:ma%:main", "agent:../main:main", "hermes:main:main", "agent:main:main\0"),
)


@pytest.mark.parametrize("key", HOSTILE)
def test_any_other_key_stands_alone(key: str, openclaw: Openclaw) -> None:
    assert owners_agent(key) == ""
    openclaw.say(MAIN)
    if key and "\0" not in key:
        assert not openclaw.quotes(key)
        openclaw.say(key, "The gate code of the south pumping station is EGRET-9902.")
        asked = "What is the gate code of the south pumping station?"
        assert "EGRET" not in str(openclaw.ask(OTHER, prompt=asked))


def test_the_first_prompt_of_a_new_session_is_given_what_another_one_was_told(openclaw: Openclaw) -> None:
    openclaw.say(OTHER)
    [made] = openclaw.ask(MAIN)
    assert made["role"] == "user"
    assert "HERON-4417" in made["content"][0]["text"]
    # Between two calls of tools OpenClaw hands over what it was given, which is not stored.
    assert openclaw.ask(MAIN, [made]) == [made]
    assert openclaw.plugin.engine.messages(Session(MAIN)) == []
    assert not openclaw.quotes(MAIN, prompt="Hi there!")
    history = openclaw.say(MAIN, "Good morning.", "Good morning to you.")
    assert openclaw.quotes(MAIN, history)
    assert not openclaw.quotes(MAIN, history, "Thank you, that is great.")
    assert all("<recalled>" not in str(row) for row in openclaw.plugin.engine.messages(Session(MAIN)))


def test_what_is_in_view_is_not_quoted(openclaw: Openclaw) -> None:
    openclaw.say(OTHER, "Good morning.", "Good morning to you.")
    history = openclaw.say(MAIN)
    assert openclaw.ask(MAIN, history) == []


def test_another_agents_sessions_are_not_quoted(openclaw: Openclaw) -> None:
    for key in ("agent:work:main", "agent:main2:main", "agent:mai:main"):
        openclaw.say(key)
    assert not openclaw.quotes(MAIN)
    assert openclaw.quotes("agent:work:other")


@pytest.mark.parametrize(
    "key", ["agent:main:direct:bob", "agent:main:telegram:direct:bob", "agent:main:wa:group:1"]
)
def test_a_peers_chat_is_quoted_in_itself_only(key: str, openclaw: Openclaw) -> None:
    openclaw.say(key)
    for other in (MAIN, OTHER, key.replace("bob", "eve").replace(":1", ":2"), f"{key}:thread:1"):
        assert not openclaw.quotes(other), other
    # What left its own context is.
    openclaw.say(MAIN, "The gate code of the south pumping station is EGRET-9902.")
    history = openclaw.say(key, "Good morning.", "Good morning to you.")
    assert openclaw.quotes(key, history)
    assert "EGRET" not in str(
        openclaw.ask(key, history, "What is the gate code of the south pumping station?")
    )


def test_an_ignored_session_neither_gives_nor_gets(openclaw: Openclaw, tmp_path: Path) -> None:
    openclaw.say(OTHER)
    assert not openclaw.quotes(IGNORED)
    openclaw.plugin.close()
    plugin = opened(tmp_path, ignore_session_patterns=[OTHER])
    assert not Openclaw(plugin).quotes(MAIN)
    plugin.close()


def test_a_stateless_session_is_given_quotes(openclaw: Openclaw) -> None:
    openclaw.say(OTHER)
    assert openclaw.quotes("agent:main:passing")


def test_the_setting_that_keeps_recall_to_a_session_keeps_quotes_to_it(tmp_path: Path) -> None:
    plugin = opened(tmp_path, recall_scope="session")
    openclaw = Openclaw(plugin)
    openclaw.say(OTHER)
    assert not openclaw.quotes(MAIN)
    plugin.close()


def test_what_was_rewound_or_reset_in_another_session_is_not_quoted(openclaw: Openclaw) -> None:
    first = openclaw.say(OTHER, "Good morning.", "Good morning to you.")
    openclaw.say(OTHER)
    assert openclaw.quotes(MAIN)
    openclaw.ask(OTHER, first)
    assert not openclaw.quotes(MAIN)
    assert not openclaw.quotes(OTHER, first)
    openclaw.say("agent:main:third")
    assert openclaw.quotes(MAIN)
    openclaw.plugin.engine.reset_session(Session("agent:main:third"))
    assert not openclaw.quotes(MAIN)


@pytest.mark.parametrize(
    "prompt", ["/lcm status " + QUESTION, "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\n" + QUESTION]
)
def test_a_command_and_a_notice_of_the_host_get_none(prompt: str, openclaw: Openclaw) -> None:
    openclaw.say(OTHER)
    assert openclaw.ask(MAIN, prompt=prompt) == []
