"""Reads source blocks once: their units, what each is worth, and the facts in it.

What belongs to a unit stands in lists under its index: a chunk has some thousand units, and as many objects would keep
the collector of garbage busy, which holds up every thread of the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lcm_plugin.summarize.base import SourceBlock
from lcm_plugin.summarize.cues import DECISION, ERROR, OUTCOME, REQUEST
from lcm_plugin.summarize.facts import NAME, TERM, Vocabulary
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


@dataclass(slots=True)
class Reading:
    """Units in source order: the text of each, the passage it is from, and its facts with their weights.

    ``words`` are the distinct words of all.
    """

    texts: list[str] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    facts: list[dict[str, int]] = field(default_factory=list)
    words: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Scored(Reading):
    """And of each unit its cues, its worth beyond its facts, their weights' sum, and its approximate tokens."""

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
    scored.weights = [sum(facts.values()) for facts in scored.facts]
    scored.costs = [cost + UNIT_COST for cost in _estimates(scored.texts)]
    return scored


def read_names(blocks: Sequence[SourceBlock], vocabulary: Vocabulary) -> Reading:
    """The blocks' units with those of their facts that weigh as much as a name or more."""
    reading = Reading()
    see, hold = reading.words.update, reading.facts.append
    for passage, pieces in passages(blocks):
        reading.texts += pieces
        reading.passages += [passage] * len(pieces)
        for text in pieces:
            sentence = text.split()
            see(sentence)
            names = vocabulary.names(sentence)
            is_cheer = names and passage.is_personal and _is_cheer(text, vocabulary.facts(sentence)[0])
            hold({} if is_cheer else names)
    return reading


def _score(
    scored: Scored, passage: Passage, pieces: Sequence[str], vocabulary: Vocabulary, focus: Focus | None
) -> None:
    """Adds the facts, cues and worth of a passage's units."""
    role, personal = passage.role, passage.is_personal
    of_role = _ROLE_WORTH.get(role, 0)
    of_error = 0 if role in _ROLE_WORTH else _TOOL_ERROR_WORTH
    see, facts_of, first = scored.words.update, vocabulary.facts, len(scored.facts)
    for text in pieces:
        sentence = text.split()
        see(sentence)
        facts, cues = facts_of(sentence)
        if role == "user" and text[-1] in "?？؟":
            cues |= REQUEST
        if personal:
            facts = _of_people(text, facts)
        worth = of_role if facts else 0
        if cues:
            worth += _CUE_WORTH[cues]
            if facts and cues & ERROR:
                worth += of_error
        if focus and (count := focus.count(text)):
            worth += _FOCUS_WORTH * count
            facts[f"\x00{len(scored.facts)}"] = _FOCUS_FACT
        scored.facts.append(facts)
        scored.cues.append(cues)
        scored.worths.append(worth)
    if pieces and passage.is_message:
        for edge in {first, len(scored.facts) - 1}:
            if _has_facts(scored.facts[edge]):
                scored.worths[edge] += _EDGE_WORTH


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
    data = text.encode("utf-8", "replace")
    return _fit(len(text), len(data), len(data.translate(None, _DIGITS)))


def _estimates(texts: Sequence[str]) -> list[int]:
    """The same of all units at once. None of them has a line break in it."""
    data = "\n".join(texts).encode("utf-8", "replace")
    sizes = map(len, data.split(b"\n"))
    without_digits = map(len, data.translate(None, _DIGITS).split(b"\n"))
    return list(map(_fit, map(len, texts), sizes, without_digits))


def _fit(chars: int, size: int, without_digits: int) -> int:
    return (20 * chars + 68 * (size - without_digits) + 40 * (size - chars)) // 100 + 2
