"""Asks for the canaries after some compactions, and judges what a model would see."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lcm_plugin.evaluation.canaries.planting import KINDS, Canary, Exchange, Kind, Script

AFTER = (3, 30)
GOALS = {"found": 30, "in_view": 27}
"""Of the facts, as asked for by name."""
_MOST_TURNS = 3_000


class Host(Protocol):
    """Whatever carries the talk: the hooks alone, or a real host with a fake model."""

    @property
    def passes(self) -> int:
        """Compaction passes since the talk began."""

    def say(self, exchange: Exchange) -> None:
        """One turn; with ``taken_back`` it is removed again."""

    def ask(self, question: str) -> str:
        """The text of the request that a question leads to, without the question itself."""

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A recall tool's answer."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """How one canary was seen.

    ``in_view``: without a call. ``one_call``: there or in one answer of ``lcm_grep`` to the question. ``found``: with two
    more calls at most. ``wrong``: what was said before, or taken back, was taken for true.
    """

    canary: Canary
    after: int
    in_view: bool
    one_call: bool
    found: bool
    wrong: bool

    @property
    def passed(self) -> bool:
        """What was taken back must not appear; anything else must be found, and not be mistaken."""
        return not self.wrong and (self.found or self.canary.kind == "taken back")


def measure(host: Host, plan: Script, after: Sequence[int] = AFTER) -> list[Sighting]:
    """Plants everything, goes on talking, and asks after so many compactions."""
    for exchange in plan.planting:
        host.say(exchange)
    planted, sightings = host.passes, list[Sighting]()
    for count in sorted(after):
        for _ in range(_MOST_TURNS):
            if host.passes - planted >= count:
                break
            host.say(next(plan.others))
        sightings += [look(host, canary, count) for canary in plan.canaries]
    return sightings


def look(host: Host, canary: Canary, after: int) -> Sighting:
    """Asks for one canary."""
    view = host.ask(canary.question)
    first = host.call("lcm_grep", {"pattern": canary.question, "limit": 10})
    if canary.kind == "taken back":
        shown = canary.wrong in view or _shown_as_true(first, canary.wrong)
        return Sighting(canary, after, False, False, False, shown)
    in_view = canary.right in view
    one_call = in_view or canary.right in _text(first)
    found = one_call or any(
        canary.right in _text(host.call(name, arguments))
        for name, arguments in (
            ("lcm_grep", {"pattern": canary.question, "limit": 50, "token_cap": 8_000}),
            ("lcm_expand_query", {"prompt": canary.question}),
        )
    )
    return Sighting(canary, after, in_view, one_call, found, _is_mistaken(canary, view, first))


def _is_mistaken(canary: Canary, view: str, answer: dict[str, Any]) -> bool:
    """Whether the older of two statements is the only one shown, or comes last in the view."""
    if not canary.wrong:
        return False
    if canary.right in view or canary.wrong in view:
        return view.rfind(canary.wrong) > view.rfind(canary.right)
    text = _text(answer)
    return canary.wrong in text and canary.right not in text


def _shown_as_true(answer: dict[str, Any], statement: str) -> bool:
    """Whether a hit holds the statement and does not say that it was taken back."""
    return any(statement in _text(hit) and not hit.get("taken_back") for hit in answer.get("hits", ()))


def _text(answer: dict[str, Any]) -> str:
    """An answer's words, without the marks of what matched."""
    return json.dumps(answer, ensure_ascii=False).replace("**", "")


def counts(sightings: Sequence[Sighting]) -> list[dict[str, Any]]:
    """The figures of each kind after each number of compactions."""
    return [
        {
            "after": after,
            "kind": kind,
            "planted": len(rows),
            "in_view": sum(row.in_view for row in rows),
            "one_call": sum(row.one_call for row in rows),
            "found": sum(row.found for row in rows),
            "wrong": sum(row.wrong for row in rows),
        }
        for after in sorted({row.after for row in sightings})
        for kind in KINDS
        if (rows := _of(sightings, after, kind))
    ]


def _of(sightings: Sequence[Sighting], after: int, kind: Kind) -> list[Sighting]:
    return [row for row in sightings if row.after == after and row.canary.kind == kind]


def missed(sightings: Sequence[Sighting]) -> list[str]:
    """What falls short of the goals, in words; empty when all is well."""
    failures = [
        f"after {row.after} compactions: {row.canary.kind}: {row.canary.question}"
        for row in sightings
        if not row.passed
    ]
    for one in counts(sightings):
        if one["kind"] == "fact":
            share = one["planted"] / GOALS["found"]
            failures += [
                f"after {one['after']} compactions: {one[name]} facts {name.replace('_', ' ')}, goal {goal * share:.0f}"
                for name, goal in GOALS.items()
                if one[name] < goal * share
            ]
    return failures
