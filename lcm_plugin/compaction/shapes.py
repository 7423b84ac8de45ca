"""What a policy scales with the window: how much talk stays word for word, and how much one compaction takes.

Every value is a function of the room and of the other *values*, never of who set them. A value that is
written down as it is shown therefore changes nothing.

`balanced` and `faithful` go by steps of the room, each twice the last. Within one step all windows share the
amounts of a compaction, so they cut the same talk at the same places. Between steps, the least that the larger
window keeps is at least the most that the smaller one holds. So a larger window never shows less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

LEAF_TRIGGER_TOKENS = 8_000
"""Economy: raw tokens outside the tail that start a pass. The optimum is flat between 6,000 and 14,000."""
PREFIX_TOKENS = 6_000
"""Economy: most tokens that summaries should take in the context, in windows of 24,000 tokens and more."""
LEAF_CHUNK, LEAF_TARGET, CONDENSED_TARGET = 20_000, 1_200, 2_000
TAIL_SHARE_OF_SOFT = 2 / 3
LEAST_TARGET = 96
MOST_PASSES = 10
"""Leaf passes of one compaction: within `maxSweepPasses`, with room for condensations."""
MOST_SOURCE = 36 * CONDENSED_TARGET
"""Most source tokens of one summary where a host's list is replaced: more would leave too little of each."""
PUBLISHED_NODES, PUBLISHED_PREFIX = 4, 1.5
"""There a context has fewer and longer summaries: each takes up to a quarter of the prefix, all of them half as much
again, so that they are condensed every few compactions."""
PUBLISHED_TAIL = 1 / 4
"""Most that a fresh tail of the policy's own holds there, of the soft limit: with two thirds the list would soon be
full again."""

_PREFIX_SHARE = 1 / 4
# A tree keeps some eight nodes in the context; together they should take no more than the prefix.
_NODES = 8
_SOURCE_PER_TARGET = 16
_LEAST_CHUNK = 4 * LEAST_TARGET


@dataclass(frozen=True, slots=True)
class Room:
    """Tokens of the whole budget, and of talk up to the threshold and up to the hard limit."""

    total: int
    soft: int
    hard: int


@dataclass(frozen=True, slots=True)
class Wishes:
    """The values that were set; None for those that the policy chooses. All amounts are tokens."""

    verbatim: int | None = None
    tail: int | None = None
    chunk: int | None = None
    trigger: int | None = None
    prefix: int | None = None
    leaf_target: int | None = None
    condensed_target: int | None = None


@dataclass(frozen=True, slots=True)
class Amounts:
    """The values in force. ``soft`` is the size of the context above which compaction is owed.

    ``verbatim`` are the newest raw tokens that a compaction below the threshold leaves alone, ``tail`` is the most
    that the fresh tail may hold, ``trigger`` how many raw tokens beyond both start a compaction. One compaction
    takes ``passes`` chunks.
    """

    soft: int
    verbatim: int
    tail: int
    chunk: int
    passes: int
    trigger: int
    prefix: int
    leaf_target: int
    condensed_target: int

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Of chunks, of all summaries together, and of a summary."""
        return self.chunk, self.prefix, self.leaf_target, self.condensed_target


@dataclass(frozen=True, slots=True)
class _Steps:
    """Shares of a step: what stays, what one compaction takes, what summaries may take.

    ``base`` is where a step begins, in tokens. A step is the base times a power of two, at most the room.
    """

    base: int
    batch: float
    prefix: float
    keep: float = 0.0

    def __post_init__(self) -> None:
        assert self.batch <= self.keep or not self.keep

    def of(self, soft: int) -> float:
        return self.base * 2.0 ** math.floor(math.log2(max(1, soft) / self.base))


# The usual windows lie above the beginning of a step by what a system prompt and tools take, and not by much more.
BALANCED = _Steps(base=5_400, keep=0.42, batch=0.42, prefix=0.16)
# Here those windows lie clear of the stretch above a step in which the threshold is raised, by at most a quarter.
FAITHFUL = _Steps(base=3_600, batch=0.16, prefix=0.1)


def economy(room: Room, given: Wishes) -> Amounts:
    """The cheapest at an equal fresh tail (`benchmarks/cost.py`): little raw talk outside the tail, short summaries."""
    prefix = given.prefix or max(1, min(PREFIX_TOKENS, int(room.total * _PREFIX_SHARE)))
    leaf, condensed = _targets(room, given, prefix)
    own = min(LEAF_CHUNK, _SOURCE_PER_TARGET * leaf)
    chunk = given.chunk or own
    return Amounts(
        soft=room.soft,
        verbatim=given.verbatim or 0,
        tail=given.tail or max(1, int(room.soft * TAIL_SHARE_OF_SOFT)),
        chunk=chunk,
        passes=1,
        trigger=given.trigger or (LEAF_TRIGGER_TOKENS if chunk == own else chunk),
        prefix=prefix,
        leaf_target=leaf,
        condensed_target=condensed,
    )


def balanced(room: Room, given: Wishes) -> Amounts:
    """Keeps a fixed share of the step word for word and summarises what is older, a batch at a time.

    With a chunk or a trigger of somebody's own, the fresh tail alone is kept, as long as ``verbatim`` is not set.
    """
    step = BALANCED.of(room.soft)
    prefix, chunk, passes = _stepped(BALANCED, step, given)
    leaf, condensed = _targets(room, given, prefix)
    _, own, own_passes = _stepped(BALANCED, step, Wishes())
    trigger = given.trigger or chunk * passes
    kept = int(BALANCED.keep * step) if (chunk, trigger) == (own, own * own_passes) else 0
    return Amounts(
        soft=room.soft,
        verbatim=kept if given.verbatim is None else given.verbatim,
        tail=given.tail or max(1, int(BALANCED.keep * step)),
        chunk=chunk,
        passes=passes,
        trigger=trigger,
        prefix=prefix,
        leaf_target=leaf,
        condensed_target=condensed,
    )


def faithful(room: Room, given: Wishes) -> Amounts:
    """Compacts nothing below the threshold, and above it no more than brings the context below it again.

    In the lowest part of a step the threshold is raised, so that what is left after a compaction is as much as
    the step below can hold.
    """
    step = FAITHFUL.of(room.soft)
    least = math.ceil(step * (1 + FAITHFUL.prefix + FAITHFUL.batch))
    soft = max(room.soft, min(room.hard, least))
    prefix, chunk, passes = _stepped(FAITHFUL, step, given)
    leaf, condensed = _targets(room, given, prefix)
    return Amounts(
        soft=soft,
        verbatim=soft if given.verbatim is None else given.verbatim,
        tail=given.tail or max(1, int(soft * TAIL_SHARE_OF_SOFT)),
        chunk=chunk,
        passes=passes,
        trigger=given.trigger or chunk * passes,
        prefix=prefix,
        leaf_target=leaf,
        condensed_target=condensed,
    )


POLICIES: dict[str, Callable[[Room, Wishes], Amounts]] = {
    "economy": economy,
    "balanced": balanced,
    "faithful": faithful,
}


def _stepped(steps: _Steps, step: float, given: Wishes) -> tuple[int, int, int]:
    """Most tokens of summaries, source tokens of one pass, passes of one compaction."""
    passes = min(MOST_PASSES, math.ceil(steps.batch * step / LEAF_CHUNK))
    own = max(_LEAST_CHUNK, min(LEAF_CHUNK, int(steps.batch * step / passes)))
    chunk = given.chunk or own
    if chunk != own:
        passes = 1
    prefix = given.prefix or max(1, min(_NODES * CONDENSED_TARGET, int(steps.prefix * step)))
    return prefix, chunk, passes


def _targets(room: Room, given: Wishes, prefix: int) -> tuple[int, int]:
    """Sizes of a leaf and of a condensed summary: what lets a whole tree's nodes fit into the prefix."""
    leaf = given.leaf_target or min(LEAF_TARGET, prefix // _NODES)
    condensed = given.condensed_target or min(CONDENSED_TARGET, prefix // _NODES)
    return _bounded(leaf, given.leaf_target, room), _bounded(condensed, given.condensed_target, room)


def _bounded(value: int, given: int | None, room: Room) -> int:
    """A target within the window's eighth; the least target holds unless a smaller one was set."""
    least = LEAST_TARGET if given is None else min(given, LEAST_TARGET)
    return max(least, min(value, room.total // _NODES))
