"""Reads source blocks once: their units with facts, cues and worth, and the units that hold each fact."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from lcm_plugin.summarize.base import SourceBlock
from lcm_plugin.summarize.cues import DECISION, ERROR, OUTCOME, REQUEST
from lcm_plugin.summarize.extraction.selection import UNIT_COST, Scored
from lcm_plugin.summarize.facts import NAME, TERM, Vocabulary
from lcm_plugin.summarize.focus import Focus
from lcm_plugin.summarize.units import Unit, units

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


class Reading(NamedTuple):
    """Units in source order, their distinct words, and the indexes of the units that hold each fact."""

    scored: list[Scored]
    words: set[str]
    holders: dict[str, list[int]]


def read(blocks: Sequence[SourceBlock], vocabulary: Vocabulary, focus: Focus) -> Reading:
    """The blocks' units. What has words of the ``focus`` is worth more than all else."""
    scored: list[Scored] = []
    words: set[str] = set()
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for index, unit in enumerate(units(blocks)):
        said = unit.text.split()
        words.update(said)
        facts, cues = vocabulary.facts(said)
        item = _score(unit, facts, cues, focus)
        scored.append(item)
        for fact in item.facts:
            holders[fact].append(index)
    return Reading(scored, words, dict(holders))


def _score(unit: Unit, facts: dict[str, int], cues: int, focus: Focus) -> Scored:
    role, text = unit.role, unit.text
    if role == "user" and text[-1] in "?？؟":
        cues |= REQUEST
    if unit.is_personal:
        facts = _of_people(text, facts)
    worth = _CUE_WORTH[cues]
    if facts:
        worth += _ROLE_WORTH.get(role, 0)
        if unit.edge:
            worth += _EDGE_WORTH
        if cues & ERROR and role not in _ROLE_WORTH:
            worth += _TOOL_ERROR_WORTH
    if focus and (wanted := focus.count(text)):
        worth += _FOCUS_WORTH * wanted
        facts[f"\x00{unit.order}"] = _FOCUS_FACT
    return Scored(unit, facts, worth, estimate(text) + UNIT_COST, cues, (unit.block, unit.who))


def _of_people(text: str, facts: dict[str, int]) -> dict[str, int]:
    """The facts of what somebody says: plain words count, a cheer with nothing but names in it says nothing."""
    if len(text) <= _CHEER_CHARS and all(weight == NAME for weight in facts.values()):
        return {}
    return {fact: weight * _TERM_FACTOR if weight <= TERM else weight for fact, weight in facts.items()}


def estimate(text: str) -> int:
    """About the tokens of a short text, from a fit over four corpora; the result is counted exactly."""
    data = text.encode("utf-8", "replace")
    digits = len(data) - len(data.translate(None, _DIGITS))
    return (20 * len(text) + 68 * digits + 40 * (len(data) - len(text))) // 100 + 2
