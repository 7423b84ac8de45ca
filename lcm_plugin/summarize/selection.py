"""Selects the units that a summary keeps.

Greedy budgeted maximum coverage (Lin and Bilmes, 2010) with lazy evaluation (Minoux, 1978): the next
unit is the one that adds most per token. A unit adds the facts that no kept unit holds, and what it is
worth as part of the talk.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from lcm_plugin.summarize.facts import NAME
from lcm_plugin.summarize.units import Unit

UNIT_COST, LINE_COST = 4, 7
TALK_WORTH = 12
_SCALE = 1_000
_REPEATED = 3
_NEW_GAIN = 4
_TALK_GAIN = 40
_FACTS_SHARE = 4


@dataclass(slots=True)
class Scored:
    """A unit with its facts' weights, its worth beyond them, its approximate tokens, and its cues."""

    unit: Unit
    facts: dict[str, int]
    worth: int
    cost: int
    cues: int = 0


class Choice:
    """The units kept so far and the facts they hold."""

    def __init__(self, scored: Sequence[Scored]) -> None:
        self._scored = scored
        self._first = [
            (-((sum(item.facts.values()) + 2 * item.worth) * _SCALE // item.cost), index)
            for index, item in enumerate(scored)
            if not item.unit.index
        ]
        self._picked: list[int] = []
        self._covered: set[str] = set()
        self._texts: set[str] = set()
        self._lines: set[tuple[int, str]] = set()
        self._talk = False
        self.spent = 0
        self.exhausted = False

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
        while heap:
            stale, index = heap[0]
            item = scored[index]
            if stale == 0 or item.unit.text in self._texts:
                heapq.heappop(heap)
                continue
            if self.spent + item.cost > limit:
                self.exhausted = False
                heapq.heappop(heap)
                continue
            current = -self._priority(item)
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
        self._covered, self._texts, self._lines, kept = set(), set(), set(), self.spent
        self._picked = []
        for index in picked:
            self._take(index, self._scored[index])
        self.spent = kept

    def cover(self, facts: Iterable[str]) -> None:
        """Counts facts as held by the result already."""
        self._covered.update(facts)

    def left_out(self) -> list[tuple[str, int]]:
        """The facts worth naming that no kept unit holds, in source order, with their weights."""
        covered = self._covered
        return [(text, weight) for text, weight in self._nameable.items() if text not in covered]

    def stand_together(self, first: str, second: str) -> bool:
        """Whether two names follow each other in a unit, as a first and a last name do."""
        if not (first.istitle() and second.istitle()):
            return False
        pair = f"{first} {second}"
        return any(first in item.facts and pair in item.unit.text for item in self._scored)

    @cached_property
    def _nameable(self) -> dict[str, int]:
        weights: dict[str, int] = {}
        words = set(chain.from_iterable(item.unit.text.split() for item in self._scored))
        speakers = set(chain.from_iterable(who.split() for who in {item.unit.who for item in self._scored}))
        for item in self._scored:
            for text, weight in item.facts.items():
                # A word that also stands in small letters is no name, and who speaks is in every line.
                if weight > NAME or (weight == NAME and text.lower() not in words and text not in speakers):
                    weights[text] = min(weights.get(text, 0) + weight, _REPEATED * weight)
        return weights

    def _take(self, index: int, item: Scored) -> None:
        self.spent += self._cost(item)
        self._picked.append(index)
        self._covered.update(item.facts)
        self._texts.add(item.unit.text)
        self._lines.add(item.unit.line)

    def _cost(self, item: Scored) -> int:
        return item.cost if item.unit.line in self._lines else item.cost + LINE_COST

    def _priority(self, item: Scored) -> int:
        """The gain per token, as an integer; 0 when it adds no fact."""
        covered = self._covered
        gain = sum([weight for text, weight in item.facts.items() if text not in covered])
        if self._talk:
            worth = min(gain, _TALK_GAIN) + 2 * item.worth if gain >= _NEW_GAIN else gain
        else:
            worth = gain + item.worth // _FACTS_SHARE if gain else 0
        return worth * _SCALE // self._cost(item)
