"""Facts planted in a real agent are in view after its compaction, word for word, and its tools find them all.

``TEST_CANARIES=30,1 tests/hosts/agents/run.sh -k planted`` plants thirty, with instructions and values that change;
without it six are, and thirty in the agents whose contexts are made here, where CI is set.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Protocol

from effort import FULL, canaries
from fake_models import Answer
from homes import with_lcm
from open_talks import claude_talk, codex_talk
from real_agents import Agent, ClaudeCode, Codex, Gemini
from stored import rows_of

from lcm_plugin.evaluation.canaries.asking import counts, look, missed
from lcm_plugin.evaluation.canaries.planting import PLAN_TOOL, Canary, Exchange, Script, script


class Talk(Protocol):
    """A session that is open."""

    def say(self, prompt: str) -> None: ...


class Asked:
    """What the agent's model is shown for a question, and what it finds with the agent's tools."""

    passes = 1

    def __init__(self, agent: Agent, talk: Talk, shell: tuple[str, str], grep: str) -> None:
        self._agent, self.talk, self._shell, self._grep = agent, talk, shell, grep
        self._files = 0

    def say(self, exchange: Exchange) -> None:
        """A turn whose calls print what the script wants them to."""
        calls = [(self._shell[0], self._printing(call.result)) for call in exchange.calls]
        self._agent.models.script[exchange.user] = Answer(exchange.answer, calls)
        self.talk.say(exchange.user)

    def ask(self, question: str) -> str:
        self.talk.say(question)
        return self._agent.models.talk(question)[-1].text

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if name != "lcm_grep":
            return {}
        prompt = f"Search {self._files}."
        self._files += 1
        self._agent.models.script[prompt] = Answer("Found.", [self.search(arguments)])
        before = self._agent.models.talk()[-1].turns
        self.talk.say(prompt)
        return {"found": self._agent.models.talk()[-1].turns[len(before) :]}

    def search(self, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The call with which the agent's model searches."""
        return self._grep, arguments

    def _printing(self, text: str) -> dict[str, Any]:
        self._files += 1
        name = f"part-{self._files}.txt"
        (self._agent.project / name).write_text(text, encoding="utf-8")
        more = {"description": "look"} if self._shell[0].lower() == "bash" else {}
        return {self._shell[1]: f"cat {name}", **more}


def plan_of(planted: int) -> Script:
    """What an agent can be told: no plan, and nothing that a program takes back."""
    whole = script(1, planted)
    fits = [one for one in whole.canaries if one.kind in ("fact", "changed", "instruction")]
    if planted < 30:
        facts = [one for one in fits if one.kind == "fact"]
        fits = [*facts, next(one for one in fits if one.kind == "changed")]
    turns = tuple(one for one in whole.planting if _plants(one, fits))
    return replace(whole, canaries=tuple(fits), planting=turns)


def _plants(exchange: Exchange, wanted: list[Canary]) -> bool:
    text = json.dumps(exchange.messages("x"), ensure_ascii=False)
    if exchange.taken_back or any(call.name == PLAN_TOOL for call in exchange.calls):
        return False
    return any(words in text for one in wanted for words in (one.right, one.wrong) if words)


def hold(
    host: Asked,
    agent: Agent,
    used: int,
    going_on: str = "",
    *,
    long: bool = False,
) -> None:
    """Plants, has the agent compact, asks for everything; ``long``: for thirty facts where CI is set.

    ``going_on`` is a turn in which it compacts, else it does so after the last one that plants.
    A search follows each question, so that later ones are asked behind what searches and quotes showed before.
    """
    plan = plan_of(30 if canaries()[0] == 30 or (long and FULL) else 6)
    first = len(agent.models.requests)
    for exchange in plan.planting[:-1]:
        host.say(exchange)
    if going_on:
        host.say(plan.planting[-1])
    agent.models.use_once = used
    if going_on:
        host.talk.say(going_on)
    else:
        host.say(plan.planting[-1])
    # Codex compacts in the middle of a turn that calls tools.
    planted = [one for one in agent.models.requests[first:] if one.body.get("tools")]
    longest = max(len(request.turns) for request in planted)
    host.talk.say("Go on. [[say Going on.]]")
    assert len(agent.models.talk("Go on.")[-1].turns) < longest
    sightings = [look(host, one, 1) for one in plan.canaries]
    print(f"canaries: {counts(sightings)}")
    assert missed(sightings) == []
    assert [one.canary.question for one in sightings if not one.one_call] == []
    assert all("<recalled>" not in row.whole for row in rows_of(agent.database))


def test_facts_planted_in_claude_code_are_in_view_after_a_compaction(claude: ClaudeCode) -> None:
    with claude_talk(claude) as talk:
        hold(Asked(claude, talk, ("Bash", "command"), "mcp__plugin_lcm_lcm__lcm_grep"), claude, 985_000)


def test_facts_planted_in_codex_are_in_view_after_a_compaction(codex: Codex) -> None:
    with codex_talk(codex) as talk:
        hold(Asked(codex, talk, ("exec_command", "cmd"), "lcm_grep"), codex, 900_000)


class GeminiTalk:
    """Gemini CLI has none that stays open and runs its hooks: every turn is a process that goes on from the last."""

    def __init__(self, gemini: Gemini) -> None:
        self._gemini, self._session = gemini, ""

    def say(self, prompt: str) -> None:
        self._session = self._gemini.say(prompt, self._session)


def test_facts_planted_in_gemini_cli_are_in_view_after_a_compression(gemini: Gemini) -> None:
    # Each turn is a process that opens all anew: a busy machine is no fault of the plugin's.
    gemini.environment["PLUGIN_TIMEOUT_OF_LCM_MS"] = "4500"
    with_lcm(gemini)
    host = Asked(gemini, GeminiTalk(gemini), ("run_shell_command", "command"), "mcp_lcm_lcm_grep")
    # A process that goes on from another does not know what that one used: it compresses before its own next request.
    call = '[[call run_shell_command {"command":"echo on"}]]'
    hold(host, gemini, 900_000, f"Look once more. {call} [[say Looked.]]")
