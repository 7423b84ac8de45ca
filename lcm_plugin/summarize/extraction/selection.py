"""Selects the units that a summary keeps.

Greedy budgeted maximum coverage (Lin and Bilmes, 2010) with lazy evaluation (Minoux, 1978): the next
unit is the one that adds most per token. A unit adds the facts that no kept unit holds, and what it is
worth as part of the talk.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lcm_plugin.summarize.units import Unit

UNIT_COST, LINE_COST = 4, 7
TALK_WORTH = 12
_SCALE = 1_000
_NEW_GAIN = 4
_TALK_GAIN = 40
_FACTS_SHARE = 4


@dataclass(slots=True)
class Scored:
    """A unit with its facts' weights, its worth beyond them, its approximate tokens, and its cues.

    Units of one ``line`` of the result share the cost of its head.
    """

    unit: Unit
    facts: dict[str, int]
    worth: int
    cost: int
    cues: int
    line: tuple[int, str]


class Choice:
    """The units kept so far and the facts they hold. ``holders`` are the indexes of the units that hold a fact."""

    def __init__(self, scored: Sequence[Scored], holders: Mapping[str, Sequence[int]]) -> None:
        self._scored = scored
        self._holders = holders
        self._sums = [sum(item.facts.values()) for item in scored]
        self._first = [
            (-((facts + 2 * item.worth) * _SCALE // item.cost), index)
            for index, (item, facts) in enumerate(zip(scored, self._sums, strict=True))
            if not item.unit.index
        ]
        self.spent = 0
        self.exhausted = False
        self._talk = False
        self._forget()

    def _forget(self) -> None:
        self._picked: list[int] = []
        self.covered: set[str] = set()
        self._texts: set[str] = set()
        self._lines: set[tuple[int, str]] = set()
        # What each unit would add: the weights of its facts that no kept unit holds.
        self._gains = self._sums.copy()

    @property
    def picked(self) -> list[int]:
        """Indexes of the kept units, in source order."""
        return sorted(self._picked)

    def first(self) -> Unit | None:
        """The unit worth most of all."""
        return self._scored[min(self._first)[1]].unit if self._first else None

    def fill(self, limit: int, talk_only: bool = False, block: int | None = None) -> None:
        """Keeps the units worth most until about ``limit`` tokens are spent in all.

        ``talk_only``: only units of the talk, at their full worth; else what counts is mostly facts.
        ``block``: only units of that block.
        """
        scored, heap = self._scored, self._first.copy()
        self._talk = talk_only
        if talk_only:
            heap = [entry for entry in heap if scored[entry[1]].worth >= TALK_WORTH]
        if block is not None:
            heap = [entry for entry in heap if scored[entry[1]].unit.block == block]
        heapq.heapify(heap)
        self.exhausted = True
        while heap and heap[0][0]:
            stale, index = heap[0]
            item = scored[index]
            if item.unit.text in self._texts:
                heapq.heappop(heap)
                continue
            room = limit - self.spent
            if item.cost > room:
                self.exhausted = False
                heap = [entry for entry in heap if scored[entry[1]].cost <= room]
                heapq.heapify(heap)
                continue
            current = -self._priority(index, item)
            if current > stale:
                heapq.heapreplace(heap, (current, index))
                continue
            heapq.heappop(heap)
            self._take(index, item)

    def keep(self, indexes: Iterable[int], limit: int) -> None:
        """Keeps some units, each if it fits into ``limit`` tokens in all."""
        for index in indexes:
            item = self._scored[index]
            if self.spent + self._cost(item) <= limit and item.unit.text not in self._texts:
                self._take(index, item)

    def shrink(self, tokens: int) -> None:
        """Gives up the units kept last, of at least that many tokens, but never the first one."""
        goal = self.spent - tokens
        picked = self._picked
        while len(picked) > 1 and self.spent > goal:
            self.spent -= self._scored[picked[-1]].cost
            picked.pop()
        kept = self.spent
        self._forget()
        for index in picked:
            self._take(index, self._scored[index])
        self.spent = kept

    def _take(self, index: int, item: Scored) -> None:
        self.spent += self._cost(item)
        self._picked.append(index)
        self._texts.add(item.unit.text)
        self._lines.add(item.line)
        scored, gains = self._scored, self._gains
        for fact in item.facts.keys() - self.covered:
            for holder in self._holders[fact]:
                gains[holder] -= scored[holder].facts[fact]
        self.covered.update(item.facts)

    def _cost(self, item: Scored) -> int:
        return item.cost if item.line in self._lines else item.cost + LINE_COST

    def _priority(self, index: int, item: Scored) -> int:
        """The gain per token, as an integer; 0 when it adds no fact."""
        gain = self._gains[index]
        if self._talk:
            worth = min(gain, _TALK_GAIN) + 2 * item.worth if gain >= _NEW_GAIN else gain
        else:
            worth = gain + item.worth // _FACTS_SHARE if gain else 0
        return worth * _SCALE // self._cost(item)
