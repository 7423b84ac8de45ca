"""The embedded summariser: picks sentences, calls no model, gives the same bytes everywhere.

Greedy budgeted maximum coverage (Lin and Bilmes, 2010; lazy evaluation after Minoux, 1978): the
next unit is the one that adds most per token. A first round spends half the room on the talk
itself, units that ask, decide, fail or conclude; a second one covers as many facts as it can. What
no unit was kept for is named in the last line.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from lcm_plugin.summarize.base import SourceBlock
from lcm_plugin.summarize.cues import DECISION, ERROR, OUTCOME, REQUEST
from lcm_plugin.summarize.facts import NAME, Vocabulary
from lcm_plugin.summarize.units import EXPAND_PREFIX, Unit, units
from lcm_plugin.tokens import TokenCounter

_ATTEMPTS = 6
_SCALE = 1_000
_UNIT_COST, _LINE_COST = 3, 10
_TALK_SHARE, _EXPAND_SHARE = 0.5, 0.2
_TALK_WORTH = 12
_ROLE_WORTH = {"user": 12, "assistant": 5, "summary": 5}
_EDGE_WORTH = 5
_CUE_WORTH = [
    10 * bool(bits & REQUEST)
    + 12 * bool(bits & DECISION)
    + 14 * bool(bits & ERROR)
    + 9 * bool(bits & OUTCOME)
    for bits in range(16)
]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING_DROPPED = "the exact wording"


@dataclass(slots=True)
class _Scored:
    """A unit with its facts' weights, what it is worth beyond them, and about its tokens."""

    unit: Unit
    facts: dict[str, int]
    worth: int
    cost: int


class ExtractiveSummarizer:
    """Deterministic summaries by selection. Thread-safe."""

    def __init__(
        self, counter: TokenCounter, timezone: str = "UTC", vocabulary: Vocabulary | None = None
    ) -> None:
        self._counter = counter
        self._zone = ZoneInfo(timezone)
        self._vocabulary = Vocabulary() if vocabulary is None else vocabulary

    def summarize(self, blocks: tuple[SourceBlock, ...], limit: int) -> tuple[str, int] | None:
        """A summary of at most ``limit`` tokens with its tokens, or None when nothing useful fits."""
        scored = [self._score(unit) for unit in units(blocks)]
        room = limit
        for _ in range(_ATTEMPTS):
            choice = _Choice(scored)
            choice.fill(int(room * _TALK_SHARE), talk_only=True)
            choice.fill(int(room * (1 - _EXPAND_SHARE)))
            if not choice.picked:
                return None
            text = self._render(blocks, scored, choice, int(room * _EXPAND_SHARE))
            tokens = self._counter.text(text)
            if tokens <= limit:
                return text, tokens
            room = min(room - 2, room * limit // tokens - 2)
        return None

    def expand_line(self, blocks: tuple[SourceBlock, ...], text: str, room: int) -> str:
        """The closing line for a summary of another hand: what of the blocks it leaves out."""
        choice = _Choice([self._score(unit) for unit in units(blocks)])
        choice.cover(self._facts(text)[0])
        return f"{EXPAND_PREFIX} {choice.dropped(room)}"

    def _score(self, unit: Unit) -> _Scored:
        facts, cues = self._facts(unit.text)
        if unit.role == "user" and unit.text[-1] in "?？؟":
            cues |= REQUEST
        worth = _CUE_WORTH[cues]
        if facts:
            worth += _ROLE_WORTH.get(unit.role, 0) + (_EDGE_WORTH if unit.edge else 0)
        return _Scored(unit, facts, worth, _estimate(unit.text) + _UNIT_COST)

    def _facts(self, text: str) -> tuple[dict[str, int], int]:
        """The weights of the facts in a sentence, and its cues."""
        facts: dict[str, int] = {}
        cues = 0
        words = list(map(self._vocabulary.__getitem__, text.split()))
        if words and words[0] is not None and words[0].plain:
            cues = words[0].cue
            words[0] = None
        for word in filter(None, words):
            cues |= word.cue
            facts.update(word.facts)
        return facts, cues

    def _render(
        self, blocks: tuple[SourceBlock, ...], scored: list[_Scored], choice: _Choice, expand_room: int
    ) -> str:
        lines: list[str] = []
        date = clock = ""
        last = -2
        for index in sorted(choice.picked):
            unit = scored[index].unit
            day, minute = self._when(unit, blocks)
            if last >= 0 and scored[last].unit.line == unit.line and (day, minute) == (date, clock):
                lines[-1] += (" " if index == last + 1 else " … ") + unit.text
            else:
                stamp = minute if day == date else f"{day} {minute}".strip()
                head = "" if stamp == clock and day == date else f"[{stamp}] "
                lines.append(f"{head}{unit.who}: {unit.text}")
            date, clock, last = day, minute, index
        lines.append(f"{EXPAND_PREFIX} {choice.dropped(expand_room)}")
        return "\n".join(lines)

    def _when(self, unit: Unit, blocks: tuple[SourceBlock, ...]) -> tuple[str, str]:
        if unit.date:
            return unit.date, unit.time
        moment = (_EPOCH + timedelta(milliseconds=blocks[unit.block].at)).astimezone(self._zone)
        return f"{moment:%Y-%m-%d}", f"{moment:%H:%M}"


class _Choice:
    """The units kept so far and the facts they hold."""

    def __init__(self, scored: list[_Scored]) -> None:
        self.picked: list[int] = []
        self._scored = scored
        self._covered: set[str] = set()
        self._texts: set[str] = set()
        self._lines: set[tuple[int, str]] = set()
        self._spent = 0

    def fill(self, limit: int, talk_only: bool = False) -> None:
        """Keeps the units worth most until about ``limit`` tokens are spent in all."""
        heap = [
            (-self._priority(item), index)
            for index, item in enumerate(self._scored)
            if not talk_only or item.worth >= _TALK_WORTH
        ]
        heapq.heapify(heap)
        while heap and limit - self._spent > _UNIT_COST:
            stale, index = heap[0]
            item = self._scored[index]
            if stale == 0 or item.unit.text in self._texts or self._spent + self._cost(item) > limit:
                heapq.heappop(heap)
                continue
            current = -self._priority(item)
            if current > stale:
                heapq.heapreplace(heap, (current, index))
                continue
            heapq.heappop(heap)
            self._take(index, item)

    def cover(self, facts: Iterable[str]) -> None:
        """Counts facts as held by the result already."""
        self._covered.update(facts)

    def dropped(self, room: int) -> str:
        """The weightiest facts that no kept unit holds, in source order, in about ``room`` tokens."""
        weights: dict[str, int] = {}
        for item in self._scored:
            for text, weight in item.facts.items():
                if weight >= NAME and text not in self._covered:
                    weights[text] = min(weights.get(text, 0) + weight, 3 * weight)
        chosen: set[str] = set()
        for text in sorted(weights, key=lambda text: (-weights[text], text)):
            cost = _estimate(text) + 1
            if cost > room:
                break
            chosen.add(text)
            room -= cost
        return ", ".join(text for text in weights if text in chosen) or _NOTHING_DROPPED

    def _take(self, index: int, item: _Scored) -> None:
        self._spent += self._cost(item)
        self.picked.append(index)
        self._covered.update(item.facts)
        self._texts.add(item.unit.text)
        self._lines.add(item.unit.line)

    def _cost(self, item: _Scored) -> int:
        return item.cost + (0 if item.unit.line in self._lines else _LINE_COST)

    def _priority(self, item: _Scored) -> int:
        """Worth per token as an integer; a unit that adds no fact is worth a third of itself."""
        covered = self._covered
        gain = sum([weight for text, weight in item.facts.items() if text not in covered])
        return (gain + (item.worth if gain > 2 else item.worth // 3)) * _SCALE // self._cost(item)


def _estimate(text: str) -> int:
    """About the tokens of a short text; the whole result is counted exactly."""
    if text.isascii():
        return len(text) * 2 // 7 + 1
    return len(text.encode("utf-8", "replace")) * 2 // 5 + 1
