"""Selects the units that a summary keeps.

Greedy budgeted maximum coverage (Lin and Bilmes, 2010) with lazy evaluation (Minoux, 1978): the next
unit is the one that adds most per token. A unit adds the facts that no kept unit holds, and what it is
worth as part of the talk.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from lcm_plugin.summarize.extraction.reading import Scored

LINE_COST = 7
TALK_WORTH = 12
_SCALE = 1_000
_NEW_GAIN = 4
_TALK_GAIN = 40
_FACTS_SHARE = 4


class Choice:
    """The units kept so far and the facts they hold. Units of one passage share the cost of its line's head."""

    def __init__(self, scored: Scored) -> None:
        self._scored = scored
        self._first = [
            (-((weight + 2 * worth) * _SCALE // cost), index)
            for index, (weight, worth, cost, passage) in enumerate(
                zip(scored.weights, scored.worths, scored.costs, scored.passages, strict=True)
            )
            if not passage.index
        ]
        self.spent = 0
        self.exhausted = False
        self._forget()

    def _forget(self) -> None:
        self._picked: list[int] = []
        self.covered: set[str] = set()
        self._texts: set[str] = set()
        self._lines: set[tuple[int, str]] = set()

    @property
    def picked(self) -> list[int]:
        """Indexes of the kept units, in source order."""
        return sorted(self._picked)

    def first(self) -> int | None:
        """The unit worth most of all."""
        return min(self._first)[1] if self._first else None

    def fill(self, limit: int, talk_only: bool = False, block: int | None = None) -> None:
        """Keeps the units worth most until about ``limit`` tokens are spent in all.

        ``talk_only``: only units of the talk, at their full worth; else what counts is mostly facts.
        ``block``: only units of that block.
        """
        scored, heap = self._scored, self._first.copy()
        texts, costs, passages = scored.texts, scored.costs, scored.passages
        if talk_only:
            worths = scored.worths
            heap = [entry for entry in heap if worths[entry[1]] >= TALK_WORTH]
        if block is not None:
            heap = [entry for entry in heap if passages[entry[1]].block == block]
        heapq.heapify(heap)
        self.exhausted = True
        room, kept = limit - self.spent, self._texts
        # The units looked at since the last one was kept: what they are worth is what stands in the heap.
        looked_at: set[int] = set()
        while heap and heap[0][0]:
            stale, index = heap[0]
            if texts[index] in kept:
                heapq.heappop(heap)
                continue
            if costs[index] > room:
                self.exhausted = False
                heap = [entry for entry in heap if costs[entry[1]] <= room]
                heapq.heapify(heap)
                continue
            if index not in looked_at:
                current = -self._priority(index, talk_only)
                if current > stale:
                    looked_at.add(index)
                    heapq.heapreplace(heap, (current, index))
                    continue
            heapq.heappop(heap)
            self._take(index)
            looked_at.clear()
            room = limit - self.spent

    def keep(self, indexes: Iterable[int], limit: int) -> None:
        """Keeps some units, each if it fits into ``limit`` tokens in all."""
        for index in indexes:
            if self.spent + self._cost(index) <= limit and self._scored.texts[index] not in self._texts:
                self._take(index)

    def shrink(self, tokens: int) -> None:
        """Gives up the units kept last, of at least that many tokens, but never the first one."""
        goal = self.spent - tokens
        picked = self._picked
        while len(picked) > 1 and self.spent > goal:
            self.spent -= self._scored.costs[picked[-1]]
            picked.pop()
        kept = self.spent
        self._forget()
        for index in picked:
            self._take(index)
        self.spent = kept

    def _take(self, index: int) -> None:
        scored = self._scored
        self.spent += self._cost(index)
        self._picked.append(index)
        self._texts.add(scored.texts[index])
        self._lines.add(scored.passages[index].line)
        self.covered.update(scored.facts[index])

    def _cost(self, index: int) -> int:
        cost = self._scored.costs[index]
        return cost if self._scored.passages[index].line in self._lines else cost + LINE_COST

    def _priority(self, index: int, talk: bool) -> int:
        """The gain per token, as an integer; 0 when it adds no fact. The gain is the weights of the unit's facts that no
        kept unit holds."""
        scored, covered = self._scored, self.covered
        gain = sum([weight for fact, weight in scored.facts[index].items() if fact not in covered])
        if talk:
            own = 2 * scored.worths[index]
            worth = min(gain, _TALK_GAIN) + own if gain >= _NEW_GAIN else gain
        else:
            worth = gain + scored.worths[index] // _FACTS_SHARE if gain else 0
        return worth * _SCALE // self._cost(index)
