"""Reads source blocks once: their units, the facts of each, and the units that hold each fact."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
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
    """Units in source order with their facts, their distinct words, and the indexes of the units that hold each fact."""

    units: list[Unit]
    facts: list[dict[str, int]]
    words: set[str]
    holders: dict[str, list[int]]


def read(blocks: Sequence[SourceBlock], vocabulary: Vocabulary, focus: Focus) -> tuple[Reading, list[Scored]]:
    """The blocks' units, and their cues and worth. What has words of the ``focus`` is worth more than all else."""
    found, sentences = _sentences(blocks)
    wanted = focus if focus else None
    scored = [
        _score(unit, *vocabulary.facts(sentence), cost + UNIT_COST, wanted)
        for unit, sentence, cost in zip(found, sentences, _estimates(found), strict=True)
    ]
    return _reading(found, sentences, [item.facts for item in scored]), scored


def read_names(blocks: Sequence[SourceBlock], vocabulary: Vocabulary) -> Reading:
    """The blocks' units with those of their facts that weigh as much as a name or more."""
    found, sentences = _sentences(blocks)
    facts = []
    for unit, sentence in zip(found, sentences, strict=True):
        names = vocabulary.names(sentence)
        is_cheer = names and unit.is_personal and _is_cheer(unit.text, vocabulary.facts(sentence)[0])
        facts.append({} if is_cheer else names)
    return _reading(found, sentences, facts)


def _sentences(blocks: Sequence[SourceBlock]) -> tuple[list[Unit], list[list[str]]]:
    """The units, and the words of each."""
    found = units(blocks)
    return found, [unit.text.split() for unit in found]


def _reading(found: list[Unit], sentences: Sequence[Sequence[str]], facts: list[dict[str, int]]) -> Reading:
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for index, held in enumerate(facts):
        for fact in held:
            holders[fact].append(index)
    return Reading(found, facts, set(chain.from_iterable(sentences)), dict(holders))


def _score(unit: Unit, facts: dict[str, int], cues: int, cost: int, focus: Focus | None) -> Scored:
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
    return Scored(unit, facts, worth, cost, cues, (unit.block, unit.who))


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
    data = text.encode("utf-8", "replace")
    return _fit(len(text), len(data), len(data.translate(None, _DIGITS)))


def _estimates(found: Sequence[Unit]) -> list[int]:
    """The same of all units at once. None of them has a line break in it."""
    texts = [unit.text for unit in found]
    data = "\n".join(texts).encode("utf-8", "replace")
    sizes = map(len, data.split(b"\n"))
    without_digits = map(len, data.translate(None, _DIGITS).split(b"\n"))
    return list(map(_fit, map(len, texts), sizes, without_digits))


def _fit(chars: int, size: int, without_digits: int) -> int:
    return (20 * chars + 68 * (size - without_digits) + 40 * (size - chars)) // 100 + 2
