"""What is planted, and the talk that it is planted in. Everything is made from a seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

from lcm_plugin.evaluation.corpus import Corpus
from lcm_plugin.evaluation.facts import changed, facts
from lcm_plugin.messages.blocks import calls_of, text_of
from lcm_plugin.types import Message

Kind = Literal["fact", "instruction", "plan", "changed", "taken back"]
KINDS: tuple[Kind, ...] = ("fact", "instruction", "plan", "changed", "taken back")
FACTS, CHANGED, TAKEN_BACK = 30, 5, 4
PLAN_TOOL = "update_plan"
SYSTEM = "You help a small harbour. Standing order: always answer in metric units, and never promise a date."
_RULES = (
    ("a guest asks for a refund", "offer a voucher first and note it under RF-88"),
    ("the tide gauge is above 4 metres", "call Mara Lind before any gate is opened"),
    ("a report is written", "end it with the line 'checked by the night desk'"),
    ("a password is typed into the chat", "answer only with form S-14"),
)
_PLANS = (
    "Step 1: repaint the north gate in grey (draft A)",
    "Step 1: order 40 metres of chain for the dry dock (draft B)",
    "Step 1: move the ferry office to pier 7 (draft C)",
)


@dataclass(frozen=True, slots=True)
class Canary:
    """``right`` must be found word for word; ``wrong`` is what was said before it or was taken back."""

    kind: Kind
    question: str
    right: str
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call with its result."""

    name: str
    arguments: dict[str, Any]
    result: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """One turn of a talk. ``taken_back``: the host removes it again when it is over."""

    user: str
    calls: tuple[Call, ...]
    answer: str
    taken_back: bool = False

    def messages(self, prefix: str) -> list[Message]:
        """The turn as messages; ``prefix`` makes the ids of its calls."""
        rows: list[Message] = [{"role": "user", "content": self.user}]
        for number, call in enumerate(self.calls):
            function = {"name": call.name, "arguments": json.dumps(call.arguments)}
            made = {"id": f"{prefix}_{number}", "type": "function", "function": function}
            rows.append({"role": "assistant", "content": None, "tool_calls": [made]})
            rows.append(
                {"role": "tool", "tool_call_id": made["id"], "name": call.name, "content": call.result}
            )
        return [*rows, {"role": "assistant", "content": self.answer}]


@dataclass(frozen=True, slots=True)
class Script:
    """The canaries with the turns that plant them, and endless other talk."""

    canaries: tuple[Canary, ...]
    planting: tuple[Exchange, ...]
    others: Iterator[Exchange]


def script(seed: int, facts_planted: int = FACTS) -> Script:
    """The same script for the same seed; with fewer facts for a slow host.

    The facts stand in users' messages, tools' results and answers in turn. What changes later is said again some turns
    after, with another value; what is taken back is said and removed at once.
    """
    random, others = Random(seed), exchanges(seed)
    all_facts = facts(random, facts_planted + CHANGED + TAKEN_BACK)
    plain, gone = all_facts[:facts_planted], all_facts[facts_planted + CHANGED :]
    old = all_facts[facts_planted : facts_planted + CHANGED]
    new = [changed(random, fact, number) for number, fact in enumerate(old)]
    canaries = [Canary("fact", fact.question, fact.statement) for fact in plain]
    canaries += [
        Canary("instruction", f"What do we do when {when}?", _rule(when, then)) for when, then in _RULES
    ]
    canaries.append(Canary("plan", "What is step 1 of the plan?", _PLANS[-1], _PLANS[0]))
    canaries += [
        Canary("changed", now.question, now.statement, before.statement)
        for before, now in zip(old, new, strict=True)
    ]
    canaries += [Canary("taken back", fact.question, "", fact.statement) for fact in gone]
    planting: list[Exchange] = []
    for number, fact in enumerate(plain):
        planting.append(_with(next(others), fact.statement, number))
    planting += [_with(next(others), fact.statement, 0) for fact in old]
    planting += [_planned(next(others), plan) for plan in _PLANS]
    planting += [_with(next(others), _rule(when, then), 0) for when, then in _RULES]
    planting += [replace(_with(next(others), fact.statement, 0), taken_back=True) for fact in gone]
    planting += [_with(next(others), f"Correction: {fact.statement}", 0) for fact in new]
    return Script(tuple(canaries), tuple(planting), others)


def exchanges(seed: int) -> Iterator[Exchange]:
    """Endless turns of other talk, most with tool calls."""
    for turn in Corpus(seed).turns():
        results = {row["tool_call_id"]: row["content"] for row in turn if row["role"] == "tool"}
        calls = [
            Call(made.name, json.loads(made.arguments), results[made.id])
            for row in turn
            for made in calls_of(row)
        ]
        yield Exchange(text_of(turn[0]), tuple(calls), text_of(turn[-1]))


def _rule(when: str, then: str) -> str:
    return f"From now on, when {when}, {then}."


def _with(exchange: Exchange, statement: str, number: int) -> Exchange:
    """The turn with a statement in the user's message, a tool's result or the answer."""
    if number % 3 == 1 and exchange.calls:
        first, *rest = exchange.calls
        lines = first.result.splitlines()
        lines.insert(len(lines) // 2, statement)
        return replace(exchange, calls=(replace(first, result="\n".join(lines)), *rest))
    if number % 3 == 2:
        return replace(exchange, answer=f"{exchange.answer} {statement}")
    return replace(exchange, user=f"{statement} {exchange.user}")


def _planned(exchange: Exchange, plan: str) -> Exchange:
    """The turn with a plan, written with a plan tool."""
    written = Call(PLAN_TOOL, {"plan": [{"step": plan, "status": "pending"}]}, "Plan updated")
    return replace(exchange, calls=(written, *exchange.calls))
