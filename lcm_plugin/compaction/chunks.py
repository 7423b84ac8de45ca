"""Choosing what to summarise next. Nothing here writes.

A leaf chunk is the oldest contiguous run of raw messages outside the tail; a condensation chunk the
oldest contiguous run of summaries of one depth. Both end at group and tail boundaries, which
`groups` and `tail` own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lcm_plugin.groups import MAX_SPAN, legal_cut, next_legal_cut
from lcm_plugin.store.base import Reader
from lcm_plugin.store.records import Item
from lcm_plugin.tail import Tail

_PAGE = 128
_MOST_SUMMARIES = 10_000


@dataclass(frozen=True, slots=True)
class Chunk:
    """Context items to be replaced by one summary of ``depth``."""

    items: tuple[Item, ...]
    depth: int

    @property
    def tokens(self) -> int:
        """Tokens that the items cost in the context."""
        return sum(item.tokens for item in self.items)

    @property
    def end(self) -> int:
        """The ordinal of the last item."""
        return self.items[-1].ordinal


def leaf_chunk(
    reader: Reader,
    conversation_id: int,
    tail: Tail,
    *,
    chunk_tokens: int,
    min_fanout: int,
    after: int = 0,
) -> Chunk | None:
    """The next chunk for a leaf pass after an ordinal.

    A run is eligible with ``min_fanout`` messages, or with fewer that fill a chunk. Runs that are not
    are passed over.
    """
    while True:
        run = _raw_run(reader, conversation_id, tail, after, chunk_tokens, min_fanout)
        if not run:
            return None
        if len(run) >= min_fanout or sum(item.tokens for item in run) >= chunk_tokens:
            return Chunk(tuple(_whole_groups(reader, conversation_id, run, chunk_tokens)), 0)
        after = run[-1].ordinal


def condensation_chunk(
    reader: Reader,
    conversation_id: int,
    tail: Tail,
    *,
    chunk_tokens: int,
    min_tokens: int,
    min_fanout: int,
    depths: range | None = None,
    with_fallbacks: bool = False,
) -> Chunk | None:
    """The next chunk for a condensation: the shallowest depth first, its oldest eligible run.

    ``depths`` limits the depth of the sources. Summaries written because a model failed are left out
    until they are rewritten, unless ``with_fallbacks``.
    """
    runs = [
        run
        for run in _summary_runs(reader, conversation_id, tail, with_fallbacks)
        if len(run) >= min_fanout and sum(item.tokens for item in run) >= min_tokens
    ]
    if depths is not None:
        runs = [run for run in runs if run[0].depth in depths]
    if not runs:
        return None
    run = min(runs, key=lambda candidate: (candidate[0].depth, candidate[0].ordinal))
    return Chunk(tuple(_within(run, chunk_tokens, min_fanout)), run[0].depth + 1)


def raw_tokens_outside(raw_tokens: int, tail: Tail, pinned_tokens: int = 0) -> int:
    """Tokens of raw messages that compaction may touch, from the conversation's running total."""
    return max(0, raw_tokens - tail.tokens - pinned_tokens)


def _raw_run(
    reader: Reader, conversation_id: int, tail: Tail, after: int, chunk_tokens: int, min_fanout: int
) -> list[Item]:
    """The oldest run of raw items after an ordinal, long enough to fill a chunk."""
    first = next(
        (
            item
            for item in reader.oldest_raw_items(conversation_id, after=after, limit=2)
            if item.ordinal != tail.pinned
        ),
        None,
    )
    if first is None or tail.protects(first.ordinal):
        return []
    run: list[Item] = []
    tokens = 0
    for item in _from(reader, conversation_id, first.ordinal - 1):
        if item.message is None or tail.protects(item.ordinal):
            break
        if _belongs_before_pin(item, tail):
            continue
        run.append(item)
        tokens += item.tokens
        if tokens > chunk_tokens and len(run) > min_fanout:
            break
    return run


def _belongs_before_pin(item: Item, tail: Tail) -> bool:
    """Whether an item is part of a group that began before the pinned message."""
    if tail.pinned is None or item.message is None:
        return False
    return item.message.group_seq < tail.pinned < item.ordinal


def _from(reader: Reader, conversation_id: int, after: int) -> Iterator[Item]:
    while page := reader.oldest_items(conversation_id, after=after, limit=_PAGE):
        yield from page
        after = page[-1].ordinal


def _whole_groups(
    reader: Reader, conversation_id: int, run: Sequence[Item], chunk_tokens: int
) -> Sequence[Item]:
    """As much of a run as fits, cut where no group is split; at least one group."""
    size = _fitting(run, chunk_tokens)
    floor = run[0].ordinal
    cut = run[size].ordinal if size < len(run) else run[-1].ordinal + 1

    def lowest_group(seq: int) -> int | None:
        return reader.lowest_group(conversation_id, seq, MAX_SPAN, floor)

    legal = legal_cut(cut, lowest_group)
    if legal > floor:
        return [item for item in run if item.ordinal < legal]
    return _first_group(reader, conversation_id, run)


def _first_group(reader: Reader, conversation_id: int, run: Sequence[Item]) -> Sequence[Item]:
    items = reader.oldest_items(conversation_id, after=run[0].ordinal - 1, limit=2 * MAX_SPAN)
    heads = []
    for item in items:
        if item.message is None:
            break
        heads.append(item.message)
    return items[: next_legal_cut(heads, 1)]


def _fitting(run: Sequence[Item], chunk_tokens: int) -> int:
    total = 0
    for index, item in enumerate(run):
        total += item.tokens
        if total > chunk_tokens and index > 0:
            return index
    return len(run)


def _summary_runs(
    reader: Reader, conversation_id: int, tail: Tail, with_fallbacks: bool
) -> Iterator[list[Item]]:
    """Runs of summaries of one depth with nothing between them, oldest first."""
    items = [
        item
        for item in reader.summary_items(conversation_id, limit=_MOST_SUMMARIES)
        if not tail.protects(item.ordinal)
    ]
    if not items:
        return
    breaks = reader.raw_ordinals(conversation_id, items[0].ordinal, items[-1].ordinal, limit=_MOST_SUMMARIES)
    position = 0
    run: list[Item] = []
    for item in items:
        broken = False
        while position < len(breaks) and breaks[position] < item.ordinal:
            position, broken = position + 1, True
        usable = with_fallbacks or not item.fallback
        if run and (broken or not usable or item.depth != run[-1].depth):
            yield run
            run = []
        if usable:
            run.append(item)
    if run:
        yield run


def _within(run: Sequence[Item], chunk_tokens: int, min_fanout: int) -> Sequence[Item]:
    total = 0
    for index, item in enumerate(run):
        total += item.tokens
        if total > chunk_tokens and index >= min_fanout:
            return run[:index]
    return run
