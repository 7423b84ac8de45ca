"""Which context items go into one model call.

The newest user message and all after it come first, then the fresh tail by groups, then summaries from
new to old, then older raw groups. A bulky tool result is shortened before a neighbour is dropped, and
one group that does not fit does not end the search for smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lcm_plugin.assembly.render import Rendered

Stub = Callable[[Rendered], Rendered]


@dataclass(frozen=True, slots=True)
class Selection:
    """What goes in, in context order, and what was left out."""

    chosen: tuple[Rendered, ...]
    left_out: tuple[Rendered, ...] = ()
    over_budget: bool = False

    @property
    def tokens(self) -> int:
        """What the chosen messages cost."""
        return sum(item.tokens for item in self.chosen)


def select(
    items: Sequence[Rendered],
    budget: int,
    *,
    tail_messages: int,
    stub: Stub,
    relevance: Callable[[Rendered], float] | None = None,
) -> Selection:
    """The items that fit into ``budget`` tokens.

    ``relevance`` orders what is optional (summaries and old groups) instead of newest first.
    """
    if sum(item.tokens for item in items) <= budget:
        return Selection(tuple(items))
    user = next((index for index in range(len(items) - 1, -1, -1) if items[index].role == "user"), None)
    split = len(items) if user is None else user
    live = _fit_live_turn(items[split:], budget, stub)
    if live.over_budget:
        return Selection(live.chosen, tuple(items[:split]) + live.left_out, True)
    taken = _Taken(live, budget)
    older = _groups([item for item in items[:split] if item.role != "summary"])
    tail, rest = _split_tail(older, tail_messages - len(items[split:]))
    summaries = [[item] for item in items if item.role == "summary" and item.ordinal not in taken.seen]
    for groups in (tail, summaries, rest):
        _take_groups(taken, groups, stub, relevance if groups is not tail else None)
    return taken.selection()


class _Taken:
    def __init__(self, live: Selection, budget: int) -> None:
        self.chosen = list(live.chosen)
        self.left_out = list(live.left_out)
        self.room = budget - live.tokens
        self.seen = {item.ordinal for item in (*live.chosen, *live.left_out)}

    def take(self, group: Sequence[Rendered]) -> None:
        self.chosen += group
        self.room -= sum(item.tokens for item in group)

    def selection(self) -> Selection:
        order = sorted(self.chosen, key=lambda item: item.ordinal)
        left = sorted(self.left_out, key=lambda item: item.ordinal)
        return Selection(tuple(order), tuple(left))


def _take_groups(
    taken: _Taken,
    groups: Sequence[Sequence[Rendered]],
    stub: Stub,
    relevance: Callable[[Rendered], float] | None,
) -> None:
    ordered = list(reversed(groups))
    if relevance is not None:
        ordered.sort(key=lambda group: -max(relevance(item) for item in group))
    for group in ordered:
        fitting = _shrink(group, taken.room, stub)
        if fitting is None:
            taken.left_out += group
        else:
            taken.take(fitting)


def _fit_live_turn(items: Sequence[Rendered], budget: int, stub: Stub) -> Selection:
    """The newest user message with as much of what follows as fits, newest groups first."""
    if not items:
        return Selection(())
    fitting = _shrink(items, budget, stub)
    if fitting is not None:
        return Selection(tuple(fitting))
    first, rest = items[0], items[1:]
    if first.tokens > budget:
        return Selection((first,), tuple(rest), True)
    room, chosen, left_out = budget - first.tokens, [first], []
    for group in reversed(_groups([item for item in rest if item.role != "summary"])):
        shrunk = _shrink(group, room, stub)
        if shrunk is None:
            left_out += group
            continue
        chosen += shrunk
        room -= sum(item.tokens for item in shrunk)
    chosen.sort(key=lambda item: item.ordinal)
    return Selection(tuple(chosen), tuple(left_out))


def _shrink(group: Sequence[Rendered], room: int, stub: Stub) -> Sequence[Rendered] | None:
    """The group if it fits, its bulkiest results shortened one by one; None when it still does not."""
    excess = sum(item.tokens for item in group) - room
    if excess <= 0:
        return group
    shrunk = list(group)
    for index in sorted(range(len(group)), key=lambda index: -group[index].tokens):
        shorter = stub(group[index])
        excess -= group[index].tokens - shorter.tokens
        shrunk[index] = shorter
        if excess <= 0:
            return shrunk
    return None


def _groups(items: Sequence[Rendered]) -> list[list[Rendered]]:
    """Messages that belong together, in order; a group that others interrupt takes them with it."""
    groups: list[list[Rendered]] = []
    for item in items:
        start = item.group
        merged = [item]
        while groups and groups[-1][-1].ordinal >= start:
            merged = groups.pop() + merged
        groups.append(merged)
    return groups


def _split_tail(
    groups: Sequence[list[Rendered]], messages: int
) -> tuple[list[list[Rendered]], list[list[Rendered]]]:
    count, index = 0, len(groups)
    while index > 0 and count + len(groups[index - 1]) <= messages:
        index -= 1
        count += len(groups[index])
    return list(groups[index:]), list(groups[:index])


def summaries_before_user(items: Sequence[Rendered]) -> list[Rendered]:
    """The items with every summary moved before the newest user message, which has the last word."""
    users = [item.ordinal for item in items if item.role == "user"]
    if not users:
        return list(items)
    newest = users[-1]
    late = [item for item in items if item.role == "summary" and item.ordinal > newest]
    if not late:
        return list(items)
    moved = {item.ordinal for item in late}
    out: list[Rendered] = []
    for item in items:
        if item.ordinal == newest:
            out += [replace(summary) for summary in late]
        if item.ordinal not in moved:
            out.append(item)
    return out
