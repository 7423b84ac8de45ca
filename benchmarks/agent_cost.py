"""What lcm costs a coding agent in tokens, turn by turn, beside the same talk without it.

    LCM_TEST_AGENTS=.venvs/agents python benchmarks/agent_cost.py claude-code|codex|gemini|opencode|openclaw

Drives the real program (`tests/hosts/agents/run.sh install`) against a fake model server through one talk of twelve turns,
with tool calls, questions about another session, and small talk, then a compaction and a question about what it took out.
The bodies of the requests are counted: once without lcm, once with it. Beside the cost stands what it buys: how many of the
facts asked for are in the request that asks.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/hosts/agents/real"))

from fake_models import Answer, FakeModels, Request
from homes import HOMES, with_lcm
from open_talks import claude_talk, codex_talk, opencode_talk
from real_agents import Gemini, Openclaw

from lcm_plugin.messages.tokens import TokenCounter

COUNTER = TokenCounter()
OTHER_SESSION = (
    "The gate code of the north pumping station is HERON-4417.",
    "The pump controller is deployed to port 8123 and never to 8080.",
    "The spare key of the workshop hangs behind the blue toolbox.",
)
ASKED = {
    "What is the gate code of the north pumping station?": "HERON-4417",
    "Which port is the pump controller deployed to?": "8123",
    "Where does the spare key of the workshop hang?": "blue toolbox",
    "At how many bar does the relief valve open?": "6.5 bar",
}
AFTER = list(ASKED)[-1]
SMALL = ("Hi there!", "Thanks, that is great.", "Ok, go on.")
CALLING = tuple(f"Look at part {number} of the report." for number in range(1, 5))
TALK = (
    SMALL[0],
    CALLING[0],
    next(iter(ASKED)),
    CALLING[1],
    SMALL[1],
    list(ASKED)[1],
    CALLING[2],
    "Never touch pump.cfg. The relief valve opens at 6.5 bar.",
    CALLING[3],
    SMALL[2],
    list(ASKED)[2],
    "Write down what is left to do.",
)
SHELLS = {
    "claude-code": ("Bash", "command"),
    "codex": ("exec_command", "cmd"),
    "gemini": ("run_shell_command", "command"),
    "opencode": ("bash", "command"),
    "openclaw": ("exec", "command"),
}
FULL = {"claude-code": 985_000, "codex": 900_000, "gemini": 900_000, "opencode": 199_000}
"""The usage that has the agent compact. OpenClaw's own compaction takes no summary of the fake model's."""
QUOTES = re.compile(r"(?:<|&lt;)recalled(?:>|&gt;).*?(?:<|&lt;)/recalled(?:>|&gt;)", re.DOTALL)
PACKS = re.compile(r"(?:<|&lt;)lcm-resume(?:>|&gt;).*?(?:<|&lt;)/lcm-resume(?:>|&gt;)", re.DOTALL)
SUMMARISING = re.compile(
    r"create a detailed summary|CHECKPOINT COMPACTION|<state_snapshot>|Summarize the conversation|anchored summary",
    re.IGNORECASE,
)


PARTS = ("tools", "system", "messages")


@dataclass
class Turn:
    """What one turn sent: the tokens of its first request by part, of all its requests, and the quotes in the first."""

    prompt: str
    tools: int
    system: int
    messages: int
    all_requests: int
    quotes: int
    pack: int
    holds: bool


@dataclass
class Measured:
    turns: list[Turn] = field(default_factory=list)
    summarised: int = 0
    """Tokens of the requests with which the agent had its own history summarised."""


class Single:
    """An agent that takes a process for each turn."""

    def __init__(self, agent: Gemini | Openclaw, session: str) -> None:
        self._agent, self._session = agent, session

    def say(self, prompt: str) -> None:
        """A turn, to its end."""
        self._session = self._agent.say(prompt, self._session)


@contextmanager
def opened(agent: Any, session: str, *, hooked: bool) -> Iterator[Any]:
    """A session of an agent."""
    talks = {
        "claude-code": claude_talk,
        "codex": partial(codex_talk, hooked=hooked),
        "opencode": opencode_talk,
    }
    if agent.name in talks:
        with talks[agent.name](agent) as talk:
            yield talk
    else:
        yield Single(agent, session if isinstance(agent, Openclaw) else "")


def measure(agent: Any, session: str, *, hooked: bool) -> Measured:
    """Takes the talk, and measures its requests."""
    found = Measured()
    name, argument = SHELLS[agent.name]
    more = {"description": "look"} if name.lower() == "bash" else {}
    for number, prompt in enumerate(CALLING):
        (agent.project / f"part-{number}.txt").write_text(f"Pump {number} runs at 12 litres. " * 40)
        agent.models.script[prompt] = Answer(
            "I looked.", [(name, {argument: f"cat part-{number}.txt", **more})]
        )
    with opened(agent, session, hooked=hooked) as talk:
        for prompt in TALK[:-1]:
            found.turns.append(taken(agent, talk, prompt))
        begun = len(agent.models.requests)
        # Gemini CLI compresses between the requests of a turn, the others before the next turn.
        within = agent.name == "gemini"
        last = (TALK[-1], CALLING[0]) if within else (TALK[-1], "Go on with the work.")
        for number, prompt in enumerate(last):
            if number == int(within):
                agent.models.use_once = FULL.get(agent.name, 0)
            found.turns.append(taken(agent, talk, prompt))
        found.turns.append(taken(agent, talk, AFTER))
    summarising = [one for one in agent.models.requests[begun:] if is_summary(one)]
    found.summarised = sum(sum(parts(one)) for one in summarising)
    return found


def taken(agent: Any, talk: Any, prompt: str) -> Turn:
    """One turn, and what it sent."""
    begun = len(agent.models.requests)
    talk.say(prompt)
    made = [one for one in agent.models.requests[begun:] if one.body.get("tools") and not is_summary(one)]
    first = next(one for one in made if prompt in one.text)
    tools, system, messages = parts(first)
    text = newest(first)
    quotes, packs = (sum(COUNTER.text(block) for block in kind.findall(text)) for kind in (QUOTES, PACKS))
    every = sum(sum(parts(one)) for one in made)
    fact = ASKED.get(prompt, "")
    return Turn(prompt, tools, system, messages, every, quotes, packs, bool(fact) and fact in first.text)


def is_summary(request: Request) -> bool:
    """Whether a request has the talk summarised."""
    return bool(SUMMARISING.search(json.dumps([request.turns[-1:], request.body.get("systemInstruction")])))


def newest(request: Request) -> str:
    """What stands behind the answer before, as text."""
    turns = request.turns
    begun = 0
    for number, turn in enumerate(turns):
        if turn.get("role") in ("assistant", "model"):
            begun = number + 1
    texts: list[str] = []
    for turn in turns[begun:]:
        content = turn.get("content", turn.get("parts"))
        texts += (
            [content] if isinstance(content, str) else [str(one.get("text", "")) for one in content or ()]
        )
    return "\n".join(texts)


def parts(request: Request) -> tuple[int, int, int]:
    """The tokens of a request's tools, of its standing orders, and of its messages."""
    body = request.body
    system = [body.get(key) for key in ("system", "instructions", "systemInstruction")]
    head = [one for one in request.turns if one.get("role") == "system"][:1] if not any(system) else []
    rest = request.turns[len(head) :]
    return tokens(body.get("tools")), tokens([*filter(None, system), *head]), tokens(rest)


def tokens(value: Any) -> int:
    return COUNTER.text(json.dumps(value, ensure_ascii=False))


def report(agent: str, without: Measured, with_it: Measured) -> dict[str, Any]:
    """The row of an agent: tokens, where there are two without lcm and with it."""
    pairs = list(zip(without.turns, with_it.turns, strict=True))
    talk = pairs[: len(TALK)]
    quoted = [one.quotes for _, one in talk]
    facts = [(one.holds, other.holds) for one, other in pairs if one.prompt in ASKED]
    return {
        "agent": agent,
        "the twelfth turn's request": [sum_of(one) for one in talk[-1]],
        # Codex names new tools with the second prompt.
        "standing": {part: getattr(talk[1][1], part) - getattr(talk[1][0], part) for part in PARTS},
        "quotes": {
            "prompts": f"{sum(map(bool, quoted))} of {len(quoted)}",
            "mean": round(sum(quoted) / len(quoted)),
            "most": max(quoted),
            "on small talk": sum(one.quotes for _, one in talk if one.prompt in SMALL),
            "after the compaction": pairs[-1][1].quotes,
        },
        "resume pack": sum(one.pack for _, one in pairs),
        "all requests of twelve turns": [
            sum(turn.all_requests for turn in side) for side in zip(*talk, strict=True)
        ],
        "summarised by the agent": [without.summarised, with_it.summarised],
        "the request after the compaction": [sum_of(one) for one in pairs[-1]],
        "facts in view": [f"{sum(held)} of {len(held)}" for held in zip(*facts, strict=True)],
    }


def sum_of(turn: Turn) -> int:
    return turn.tools + turn.system + turn.messages


def main() -> None:
    os.environ["LCM_TEST_AGENTS"] = str(Path(os.environ["LCM_TEST_AGENTS"]).absolute())
    for name in sys.argv[1:] or list(HOMES):
        models = FakeModels()
        with tempfile.TemporaryDirectory() as folder:
            agent = HOMES[name](Path(folder), models)
            agent.project.mkdir()
            without = measure(agent, "agent:main:before", hooked=False)
            with_lcm(agent)
            with opened(agent, "agent:main:other", hooked=True) as talk:
                for fact in OTHER_SESSION:
                    talk.say(fact)
            found = measure(agent, "agent:main:main", hooked=True)
        models.close()
        print(json.dumps(report(name, without, found), indent=1), flush=True)


if __name__ == "__main__":
    main()
