"""Which messages go into one model call when not all fit, and how far each is cut.

The newest request and the group that the model must answer now are always in it, then the rest of the
running turn, the fresh tail, summaries from new to old, and older raw groups. What is bulky is cut to a
common length before a neighbour is left out: short results stay whole, long ones get equal shares. One
group that does not fit does not end the search for smaller ones. Room that is left goes back to what was
cut, in the same order, and then to what was left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from lcm_plugin.assembly.render import Rendered
from lcm_plugin.messages.stubs import LEAST_TOKENS, STUB_TOKENS

_EARLIER_SHARE = 1 / 4
_NEWEST_SHARE = 1 / 2
_ROUNDS = 8
_FULL = 1 / 128
_LEAST_FILLED = 32
_WORD = re.compile(r"\w+")

Unit = list[Rendered]


class Cutting(Protocol):
    """Cuts what is bulky in a message to about ``keep`` tokens each, with ``words`` also what is said."""

    def __call__(self, item: Rendered, keep: int, *, words: bool = False) -> Rendered: ...


@dataclass(frozen=True, slots=True)
class Selection:
    """What goes in and what was left out, both in context order.

    ``cut`` names what was shortened, with its tokens. ``fits`` is false when even the least form of the
    newest request and the group to answer is more than the budget.
    """

    chosen: tuple[Rendered, ...]
    left_out: tuple[Rendered, ...] = ()
    cut: tuple[tuple[str, int], ...] = ()
    fits: bool = True


@dataclass(frozen=True, slots=True)
class Wanted:
    """How to choose: ``budget`` in tokens; ``relevance`` orders what is optional, else newest first.

    ``tail_start`` is the ordinal at which the fresh tail begins.
    """

    budget: int
    tail_start: int
    relevance: Callable[[Rendered], float] | None = None


def select(
    items: Sequence[Rendered], wanted: Wanted, cut: Cutting, words_only: Callable[[Rendered], Rendered]
) -> Selection:
    """The items that fit, cut where they must be."""
    units = _units([item for item in items if item.kind not in ("summary", "instruction")])
    request = next((item for item in reversed(items) if item.is_request), None)
    start = next(
        (unit[0].ordinal for unit in units if any(item is request for item in unit)), _begin_of_last(units)
    )
    live = sorted((unit for unit in units if unit[0].ordinal >= start), key=_newest)
    older = [unit for unit in units if unit[0].ordinal < start]
    summaries = [[item] for item in items if item.kind == "summary"]
    tail = [unit for unit in older if unit[0].ordinal >= wanted.tail_start]
    rest = [unit for unit in older if unit[0].ordinal < wanted.tail_start]
    filler = _BudgetFiller(wanted.budget, cut, request)
    filler.instructions([item for item in items if item.kind == "instruction"])
    earlier = sum(item.tokens for unit in (*older, *summaries) for item in unit)
    fits = filler.running_turn(live, words_only, earlier)
    filler.tail(tail, sum(unit[0].tokens for unit in summaries))
    filler.optional(summaries, wanted.relevance)
    filler.optional(rest, wanted.relevance)
    for tier in (live[-1:], live, tail, rest):
        filler.lengthen(tier)
    for tier in (live, tail, rest):
        filler.fill(tier)
    return filler.selection(items, fits=fits)


class _BudgetFiller:
    """Takes messages while there is room. What was taken may be replaced by a longer or shorter form."""

    def __init__(self, budget: int, cut: Cutting, request: Rendered | None) -> None:
        self._budget = budget
        self._room = budget
        self._cut = cut
        self._request = request
        self._chosen: dict[str, Rendered] = {}

    def instructions(self, items: Sequence[Rendered]) -> None:
        """Instructions at their place in the talk, the newest first, up to half of the budget."""
        for item in reversed(items):
            if item.tokens <= self._room - self._budget // 2:
                self._take([item])

    def running_turn(
        self, units: Sequence[Unit], words_only: Callable[[Rendered], Rendered], earlier: int
    ) -> bool:
        """The newest request, the newest group, and of the rest as much as fits, newest first.

        What was said before, ``earlier`` tokens, gets a quarter of the budget if cutting makes room for it.
        Returns false when not even the least form of what must be there fits.
        """
        if not units:
            return True
        cap = self._budget - min(earlier, int(self._budget * _EARLIER_SHARE))
        whole = list(chain.from_iterable(units))
        if _cost(whole) <= cap:
            self._take(whole)
            return True
        newest = units[-1]
        asked = next((unit for unit in units if any(item is self._request for item in unit)), newest)
        if asked is not newest and self._request is not None:
            request = words_only(self._request) if self._request.with_words else self._request
            self._take([request] if request.tokens <= self._room // 2 else [self._cut(request, LEAST_TOKENS)])
        self._take(
            self._fitted(newest, int(self._room * _NEWEST_SHARE))
            or self._fitted(newest, self._room, LEAST_TOKENS)
            or self._all_cut(newest, LEAST_TOKENS)
        )
        if asked is not newest and len(asked) > 1:
            self._replace_if_fits(asked)
        rest = [unit for unit in units if unit is not newest and unit is not asked]
        self._take_all_or_newest(rest, self._room - (self._budget - cap))
        return self._room >= 0

    def tail(self, units: Sequence[Unit], summaries: int) -> None:
        """The fresh tail: whole, or with what is bulky in it cut, or group by group.

        Cutting leaves room for ``summaries`` tokens up to a quarter of the budget.
        """
        self._take_all_or_newest(units, self._room - min(summaries, int(self._budget * _EARLIER_SHARE)))

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

    def _take_all_or_newest(self, units: Sequence[Unit], room: int) -> None:
        """All units, cut so that they fill ``room`` or, if they must, more; else the newest of them."""
        whole = list(chain.from_iterable(units))
        fitting = self._fitted(whole, room) or self._fitted(whole, self._room)
        if fitting:
            self._take(fitting)
        else:
            self.optional(units, None)

    def lengthen(self, units: Sequence[Unit]) -> None:
        """Gives the room that is left to what was cut of some units, to a common length."""
        whole = [item for unit in units for item in unit if item.ref in self._chosen]
        whole = [item for item in whole if self._chosen[item.ref].cuts]
        taken = [self._chosen[item.ref] for item in whole]
        if whole and self._room > self._budget * _FULL:
            longer = self._fitted(whole, _cost(taken) + self._room, LEAST_TOKENS)
            if _cost(longer) > _cost(taken):
                self._take(longer)

    def fill(self, units: Sequence[Unit]) -> None:
        """Gives the room that is left to units that were left out, even if what is said in them must be cut."""
        for unit in sorted(units, key=_newest, reverse=True):
            if self._room < _LEAST_FILLED:
                return
            if unit[0].ref not in self._chosen:
                self._take(self._fitted(unit, self._room, LEAST_TOKENS, words=True))

    def selection(self, items: Sequence[Rendered], *, fits: bool) -> Selection:
        chosen = [self._chosen[item.ref] for item in items if item.ref in self._chosen]
        left = [item for item in items if item.ref not in self._chosen]
        cut = [(item.ref, item.tokens) for item in chosen if item.cuts]
        return Selection(tuple(chosen), tuple(left), tuple(cut), fits)

    def _fitted(
        self, whole: Sequence[Rendered], room: int, least: int = STUB_TOKENS, *, words: bool = False
    ) -> list[Rendered]:
        """The messages, cut to the greatest common length at which they fit; empty when ``least`` is too long.

        A bit more length costs at most that much for each place that is cut; so each round goes as far as
        is safe, until the room is full or nothing is cut any more.
        """
        if _cost(whole) <= room:
            return list(whole)
        best = self._all_cut(whole, least, words=words)
        if _cost(best) > room:
            return []
        keep, stride = least, 1.0
        for _ in range(_ROUNDS):
            places, free = sum(item.cuts for item in best), room - _cost(best)
            further = int(stride * free / max(1, places))
            if further < 1 or free <= room * _FULL:
                break
            longer = self._all_cut(whole, keep + further, words=words)
            if _cost(longer) <= room:
                best, keep = longer, keep + further
            else:
                stride /= 2
        return best

    def _all_cut(self, items: Sequence[Rendered], keep: int, *, words: bool = False) -> list[Rendered]:
        return [self._cut(item, keep, words=words and not self._is_verbatim(item)) for item in items]

    def _is_verbatim(self, item: Rendered) -> bool:
        return self._request is not None and item.ref == self._request.ref

    def _replace_if_fits(self, unit: Unit) -> None:
        """Takes a unit of which a part was taken already."""
        taken = [self._chosen[item.ref] for item in unit if item.ref in self._chosen]
        if fitting := self._fitted(unit, self._room + _cost(taken)):
            self._take(fitting)

    def _take_if_fits(self, unit: Unit) -> None:
        """Takes a unit with what is bulky in it cut, as far as it must be."""
        shorter = self._all_cut(unit, STUB_TOKENS)
        if _cost(shorter) > self._room:
            shorter = self._all_cut(unit, LEAST_TOKENS)
        if _cost(shorter) <= self._room:
            self._take(shorter)

    def _take(self, items: Iterable[Rendered]) -> None:
        for item in items:
            before = self._chosen.get(item.ref)
            self._chosen[item.ref] = item
            self._room -= item.tokens - (before.tokens if before else 0)


def scorer(prompt: str) -> Callable[[Rendered], float] | None:
    """The share of the prompt's words that occur in an item (promptAwareEviction); None for a prompt without words."""
    wanted = {word for word in _WORD.findall(prompt.lower()) if len(word) > 2 or not word.isascii()}
    if not wanted:
        return None

    def score(item: Rendered) -> float:
        content = item.message.get("content")
        words = set(_WORD.findall(content.lower())) if isinstance(content, str) else set()
        return len(wanted & words) / len(wanted)

    return score


def _units(items: Sequence[Rendered]) -> list[Unit]:
    """Messages of one group together, in the order of their first message."""
    units: dict[int, Unit] = {}
    for item in items:
        units.setdefault(item.group, []).append(item)
    return list(units.values())


def _begin_of_last(units: Sequence[Unit]) -> int:
    """Where the newest group begins that a model has to answer; beyond the end when there is none."""
    newest = max(units, key=_newest, default=None)
    return newest[0].ordinal if newest and newest[0].kind in ("call", "result") else 1 << 62


def _newest(unit: Unit) -> int:
    return unit[-1].ordinal


def _cost(items: Iterable[Rendered]) -> int:
    return sum(item.tokens for item in items)
