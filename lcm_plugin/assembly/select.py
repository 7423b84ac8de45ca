"""Which messages go into one model call when not all fit.

The newest request and all after it come first, then the fresh tail by groups, then summaries from new to
old, then older raw groups. What is bulky is shortened before a neighbour is dropped, and one group that
does not fit does not end the search for smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from lcm_plugin.assembly.render import Rendered

_LIVE_SHARE = 3 / 4

Unit = list[Rendered]
Stub = Callable[[Rendered], Rendered]


@dataclass(frozen=True, slots=True)
class Selection:
    """What goes in and what was left out, both in context order. ``stubbed`` are refs that were cut."""

    chosen: tuple[Rendered, ...]
    left_out: tuple[Rendered, ...] = ()
    stubbed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """How to choose: ``budget`` in tokens; ``relevance`` orders what is optional, else newest first."""

    budget: int
    tail_messages: int
    relevance: Callable[[Rendered], float] | None = None


def select(
    items: Sequence[Rendered], wanted: Wanted, stub: Stub, words_only: Callable[[Rendered], Rendered]
) -> Selection:
    """The items that fit. The newest request is always in it, alone if it must be."""
    units = _units(items)
    request = next((item for item in reversed(items) if item.is_request), None)
    start = _start_of(units, request) if request else 1 << 62
    live = [unit for unit in units if unit[0].ordinal >= start and unit[0].kind != "summary"]
    taken = _Taken(wanted.budget, stub)
    if request is not None:
        taken.live(live, request, words_only)
    summaries = [unit for unit in units if unit[0].kind == "summary"]
    older = [unit for unit in units if unit[0].ordinal < start and unit[0].kind != "summary"]
    tail, rest = _split_tail(older, wanted.tail_messages - sum(map(len, live)))
    taken.tail(tail)
    taken.optional(summaries, wanted.relevance)
    taken.optional(rest, wanted.relevance)
    return taken.selection(items)


class _Taken:
    def __init__(self, budget: int, stub: Stub) -> None:
        self._room = budget
        self._stub = stub
        self._chosen: dict[str, Rendered] = {}

    def live(
        self, units: Sequence[Unit], request: Rendered, words_only: Callable[[Rendered], Rendered]
    ) -> None:
        """The newest request with all that follows it, or as much of that as fits, newest first."""
        cap = int(self._room * _LIVE_SHARE)
        whole = list(chain.from_iterable(units))
        if _cost(whole) > cap:
            whole = self._shrunk(whole, cap, sorted(whole, key=lambda item: (-item.tokens, item.ordinal)))
        if _cost(whole) <= self._room:
            self._take(whole)
            return
        first = next(unit for unit in units if any(item is request for item in unit))
        if len(first) > 1 and _cost(fitting := [self._stub(item) for item in first]) <= self._room:
            self._take(fitting)
        else:
            self._take([words_only(request) if request.with_words else request])
        for unit in sorted((unit for unit in units if unit is not first), key=_newest, reverse=True):
            self._take_if_fits(unit)

    def tail(self, units: Sequence[Unit]) -> None:
        """The fresh tail: whole, or with its bulky messages cut from the oldest on, or group by group."""
        whole = list(chain.from_iterable(units))
        if _cost(whole) > self._room:
            whole = self._shrunk(whole, self._room, whole)
        if _cost(whole) <= self._room:
            self._take(whole)
            return
        self.optional(units, None)

    def optional(self, units: Sequence[Unit], relevance: Callable[[Rendered], float] | None) -> None:
        """Group by group while there is room, newest first, or what has most to do with the prompt."""
        ordered = sorted(units, key=_newest, reverse=True)
        if relevance is not None:
            ordered.sort(key=lambda unit: -max(relevance(item) for item in unit))
        if _cost(chain.from_iterable(ordered)) <= self._room:
            self._take(chain.from_iterable(ordered))
            return
        for unit in ordered:
            self._take_if_fits(unit)

    def selection(self, items: Sequence[Rendered]) -> Selection:
        chosen = [self._chosen[item.ref] for item in items if item.ref in self._chosen]
        left = [item for item in items if item.ref not in self._chosen]
        stubbed = [item.ref for item in items if self._chosen.get(item.ref, item).message is not item.message]
        return Selection(tuple(chosen), tuple(left), tuple(stubbed))

    def _shrunk(self, whole: Sequence[Rendered], room: int, order: Iterable[Rendered]) -> list[Rendered]:
        excess, shorter = _cost(whole) - room, {item.ref: item for item in whole}
        for item in order:
            if excess <= 0:
                break
            shorter[item.ref] = self._stub(item)
            excess -= item.tokens - shorter[item.ref].tokens
        return [shorter[item.ref] for item in whole]

    def _take_if_fits(self, unit: Unit) -> None:
        shorter = [self._stub(item) for item in unit]
        if _cost(shorter) <= self._room:
            self._take(shorter)

    def _take(self, items: Iterable[Rendered]) -> None:
        for item in items:
            self._chosen[item.ref] = item
            self._room -= item.tokens


def _units(items: Sequence[Rendered]) -> list[Unit]:
    """Messages of one group together, summaries each alone, in the order of their first message."""
    units: dict[tuple[bool, int], Unit] = {}
    for item in items:
        units.setdefault((item.kind == "summary", item.group), []).append(item)
    return list(units.values())


def _start_of(units: Sequence[Unit], request: Rendered) -> int:
    return next(unit[0].ordinal for unit in units if any(item is request for item in unit))


def _split_tail(units: Sequence[Unit], messages: int) -> tuple[Sequence[Unit], Sequence[Unit]]:
    ordered, count = sorted(units, key=_newest), 0
    index = len(ordered)
    while index > 0 and count + len(ordered[index - 1]) <= messages:
        index -= 1
        count += len(ordered[index])
    return ordered[index:], ordered[:index]


def _newest(unit: Unit) -> int:
    return unit[-1].ordinal


def _cost(items: Iterable[Rendered]) -> int:
    return sum(item.tokens for item in items)
