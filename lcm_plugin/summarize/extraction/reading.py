"""Reads source blocks once: their units, what each is worth, and the facts in it.

What belongs to a unit stands in lists under its index: a chunk has some thousand units, and as many objects would keep
the collector of garbage busy, which holds up every thread of the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import cast

from lcm_plugin.summarize.base import SourceBlock
from lcm_plugin.summarize.cues import DECISION, ERROR, OUTCOME, REQUEST
from lcm_plugin.summarize.facts import NAME, TERM, Unit, Vocabulary
from lcm_plugin.summarize.focus import Focus
from lcm_plugin.summarize.units import Passage, passages

UNIT_COST = 4
_CHEER_CHARS, _TERM_FACTOR = 40, 2
_ROLE_WORTH = {"user": 12, "assistant": 5, "summary": 5}
_FOCUS_WORTH, _FOCUS_FACT = 120, 6
_EDGE_WORTH, _TOOL_ERROR_WORTH = 5, 12
_CUE_WORTH = [
    10 * bool(cues & REQUEST)
    + 12 * bool(cues & DECISION)
    + 14 * bool(cues & ERROR)
    + 9 * bool(cues & OUTCOME)
    for cues in range(16)
]
_DIGITS = b"0123456789"
_MOST_KNOWN = 8_192


@dataclass(slots=True)
class Scored:
    """Units in source order: of each its text, the passage it is from, its facts that weigh a name's weight or more, all
    facts with their weights, its cues, its worth beyond its facts, their weights' sum, and its approximate tokens."""

    texts: list[str] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    names: list[dict[str, int]] = field(default_factory=list)
    facts: list[dict[str, int]] = field(default_factory=list)
    cues: list[int] = field(default_factory=list)
    worths: list[int] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)
    costs: list[int] = field(default_factory=list)


def read(blocks: Sequence[SourceBlock], vocabulary: Vocabulary, focus: Focus) -> Scored:
    """The blocks' units with all that decides which are kept. What has words of the ``focus`` is worth more than all
    else."""
    scored = Scored()
    wanted = focus if focus else None
    for passage, pieces in passages(blocks):
        scored.texts += pieces
        scored.passages += [passage] * len(pieces)
        _score(scored, passage, pieces, vocabulary, wanted)
    return scored


def known(texts: Sequence[str], vocabulary: Vocabulary) -> list[Unit]:
    """What each text holds. Tools give the same lines again and again, and a summary's are those of its source: what the
    newest texts held is looked up."""
    units = vocabulary.units
    found = list(map(units.get, texts))
    if None in found:
        older = vocabulary.older_units
        for index, unit in enumerate(found):
            if unit is None:
                text = texts[index]
                found[index] = units[text] = units.get(text) or older.get(text) or _learned(text, vocabulary)
        if len(units) > _MOST_KNOWN:
            # What was not seen since the last time goes.
            vocabulary.units, vocabulary.older_units = {}, units
    return cast("list[Unit]", found)


def _learned(text: str, vocabulary: Vocabulary) -> Unit:
    facts, cues = vocabulary.facts(text.split())
    names = {fact: weight for fact, weight in facts.items() if weight >= NAME}
    return facts, cues, sum(facts.values()), estimate(text) + UNIT_COST, names


def _score(
    scored: Scored, passage: Passage, pieces: Sequence[str], vocabulary: Vocabulary, focus: Focus | None
) -> None:
    """Adds the facts, cues and worth of a passage's units."""
    role, personal, first = passage.role, passage.is_personal, len(scored.facts)
    asking = role == "user"
    # By the cues and whether there are facts.
    worths = _worths(role)
    for text, (facts, cues, weight, cost, names) in zip(pieces, known(pieces, vocabulary), strict=True):
        if asking and text[-1] in "?？؟":
            cues |= REQUEST
        if personal:
            facts = _of_people(text, facts)
            names = names if facts else {}
            weight = sum(facts.values())
        worth = worths[cues][bool(facts)]
        if focus and (count := focus.count(text)):
            worth += _FOCUS_WORTH * count
            facts = {**facts, f"\x00{len(scored.facts)}": _FOCUS_FACT}
            weight += _FOCUS_FACT
        scored.facts.append(facts)
        scored.cues.append(cues)
        scored.worths.append(worth)
        scored.weights.append(weight)
        scored.costs.append(cost)
        scored.names.append(names)
    if pieces and passage.is_message:
        for edge in {first, len(scored.facts) - 1}:
            if _has_facts(scored.facts[edge]):
                scored.worths[edge] += _EDGE_WORTH


@cache
def _worths(role: str) -> list[tuple[int, int]]:
    """What a unit of a role is worth, by its cues: without and with facts."""
    of_role = _ROLE_WORTH.get(role, 0)
    of_error = 0 if role in _ROLE_WORTH else _TOOL_ERROR_WORTH
    return [
        (worth, worth + of_role + (of_error if cues & ERROR else 0)) for cues, worth in enumerate(_CUE_WORTH)
    ]


def _has_facts(facts: dict[str, int]) -> bool:
    """Whether there is a fact but that of a focus, which stands last."""
    return any(not fact.startswith("\x00") for fact in facts)


def _of_people(text: str, facts: dict[str, int]) -> dict[str, int]:
    """The facts of what somebody says: plain words count."""
    if _is_cheer(text, facts):
        return {}
    return {fact: weight * _TERM_FACTOR if weight <= TERM else weight for fact, weight in facts.items()}


def _is_cheer(text: str, facts: dict[str, int]) -> bool:
    """Whether what somebody says has nothing but names in it, which says nothing."""
    return len(text) <= _CHEER_CHARS and all(weight == NAME for weight in facts.values())


def estimate(text: str) -> int:
    """About the tokens of a short text, from a fit over four corpora; the result is counted exactly."""
    chars = len(text)
    data = text.encode("utf-8", "replace")
    size = len(data)
    return (20 * chars + 68 * (size - len(data.translate(None, _DIGITS))) + 40 * (size - chars)) // 100 + 2
