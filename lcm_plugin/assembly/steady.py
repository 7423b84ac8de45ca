"""The beginning of a list in which nothing is unusual: what is put out for it never changes, so it is paired once.

Most of a talk is messages without calls, and calls with their results directly behind them. As long as a list holds
nothing else, what comes later decides nothing about it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from operator import is_

from lcm_plugin.assembly.entries import Answer, Placed
from lcm_plugin.assembly.ids import UniqueIds
from lcm_plugin.assembly.render import Rendered


class Steady:
    """Such a beginning, kept from one pairing of a growing list to the next. For one thread at a time."""

    def __init__(self) -> None:
        self.items: list[Rendered] = []
        self.placed: list[Placed] = []
        self.direct: dict[str, tuple[Rendered, Answer]] = {}
        self.unique = UniqueIds()
        self._sizes: list[int] = []

    def follow(self, items: Sequence[Rendered]) -> None:
        """Becomes the beginning of this list; what it shares with the last one is not looked at again."""
        shared = _shared(self.items, items)
        while len(self.items) > shared:
            self._drop(self._sizes.pop())
        while len(self.items) < len(items) and self._takes(items, len(self.items)):
            pass

    def _takes(self, items: Sequence[Rendered], position: int) -> bool:
        item = items[position]
        if item.calls:
            results = direct_results(items, position, self.direct)
            if results is None or not self.unique.are_new(item.calls):
                return False
            for result in results:
                self.direct[result.answers[0]] = (item, Answer(result, 0))
            taken = [item, *results]
            self.placed += [Placed(one.message, one.tokens) for one in taken]
        elif item.answers or item.with_words:
            return False
        else:
            taken = [item]
            self.placed.append(Placed(item.message, item.tokens, item.kind == "reply"))
        self.items += taken
        self._sizes.append(len(taken))
        return True

    def _drop(self, size: int) -> None:
        """Forgets the newest message without calls, or the newest exchange."""
        item, *results = self.items[-size:]
        self.unique.release(item.calls)
        for result in results:
            del self.direct[result.answers[0]]
        del self.items[-size:], self.placed[-size:]


def direct_results(
    items: Sequence[Rendered], position: int, known: Container[str]
) -> Sequence[Rendered] | None:
    """The results behind a call when nothing about them is unusual, so that they are put out as they are; else None.

    ``known`` are the ids of earlier calls.
    """
    item = items[position]
    if item.kind != "call" or any(call in known for call in item.calls):
        return None
    results = items[position + 1 : position + 1 + len(item.calls)]
    wanted = set(item.calls)
    if len(results) < len(item.calls) or len(wanted) < len(item.calls) or "" in wanted:
        return None
    for result in results:
        if len(result.answers) != 1 or result.with_words or result.group != item.group:
            return None
        if result.answers[0] not in wanted or Answer(result, 0).is_synthetic:
            return None
        wanted.discard(result.answers[0])
    return results


def _shared(before: Sequence[Rendered], now: Sequence[Rendered]) -> int:
    """How many items two lists begin with alike."""
    if len(now) >= len(before) and all(map(is_, before, now)):
        return len(before)
    pairs = zip(before, now, strict=False)
    return next((n for n, (one, other) in enumerate(pairs) if one is not other), min(len(before), len(now)))
