"""Choosing which raw messages to summarise next. Nothing here writes.

A leaf chunk is the oldest contiguous run of raw messages outside the tail, cut at a group's boundary.
`groups` and `tail` own these boundaries. What a choice costs does not depend on how much waits behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lcm_plugin.compaction.tail import Tail
from lcm_plugin.messages.groups import MAX_SPAN, legal_cut, next_legal_cut
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Item

_PAGE = 128


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
    def start(self) -> int:
        """The ordinal of the first item."""
        return self.items[0].ordinal

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
    rich_tokens: int | None = None,
    after: int = 0,
) -> Chunk | None:
    """The next chunk for a leaf pass after an ordinal.

    A run is eligible with ``min_fanout`` messages, or with fewer of ``rich_tokens`` together (a whole
    chunk, unless given). Runs that are not are passed over, and so is a chunk that is nothing but the newest
    user message: a context shows that one word for word anyway.
    """
    newest = reader.newest_user(conversation_id)
    rich = chunk_tokens if rich_tokens is None else min(rich_tokens, chunk_tokens)
    while run := _raw_run(reader, conversation_id, tail, after, chunk_tokens, min_fanout):
        after = run[-1].ordinal
        if len(run) < min_fanout and sum(item.tokens for item in run) < rich:
            continue
        chunk = Chunk(_whole_groups(reader, conversation_id, tail, run, chunk_tokens), 0)
        if len(chunk.items) > 1 or newest is None or chunk.start != newest.seq:
            return chunk
        after = chunk.end
    return None


def raw_tokens_outside(raw_tokens: int, tail: Tail) -> int:
    """Tokens of raw messages that compaction may touch, from the conversation's running total."""
    return max(0, raw_tokens - tail.tokens)


def _raw_run(
    reader: Reader, conversation_id: int, tail: Tail, after: int, chunk_tokens: int, min_fanout: int
) -> list[Item]:
    """The oldest run of raw items after an ordinal, long enough to fill a chunk."""
    first = reader.oldest_raw_items(conversation_id, after=after, limit=1)
    if not first or tail.protects(first[0].ordinal):
        return []
    run: list[Item] = []
    tokens = 0
    for item in _from(reader, conversation_id, first[0].ordinal - 1):
        if item.message is None or tail.protects(item.ordinal):
            break
        run.append(item)
        tokens += item.tokens
        if tokens > chunk_tokens and len(run) > min_fanout:
            break
    return run


def _from(reader: Reader, conversation_id: int, after: int) -> Iterator[Item]:
    while page := reader.oldest_items(conversation_id, after=after, limit=_PAGE):
        yield from page
        after = page[-1].ordinal


def _whole_groups(
    reader: Reader, conversation_id: int, tail: Tail, run: Sequence[Item], chunk_tokens: int
) -> tuple[Item, ...]:
    """As much of a run as fits, cut where no group is split; at least one group."""
    size = _fitting(run, chunk_tokens)
    floor = run[0].ordinal
    cut = run[size].ordinal if size < len(run) else run[-1].ordinal + 1

    def lowest_group(seq: int) -> int | None:
        return reader.lowest_group(conversation_id, seq, MAX_SPAN, floor)

    legal = legal_cut(cut, lowest_group)
    if legal > floor:
        return tuple(item for item in run if item.ordinal < legal)
    return _first_group(reader, conversation_id, tail, run)


def _first_group(reader: Reader, conversation_id: int, tail: Tail, run: Sequence[Item]) -> tuple[Item, ...]:
    """The group at a run's beginning, which is larger than a chunk."""
    items: list[Item] = []
    for item in reader.oldest_items(conversation_id, after=run[0].ordinal - 1, limit=2 * MAX_SPAN):
        if item.message is None or tail.protects(item.ordinal):
            break
        items.append(item)
    heads = [item.message for item in items if item.message]
    return tuple(items[: next_legal_cut(heads, 1)])


def _fitting(run: Sequence[Item], chunk_tokens: int) -> int:
    """How many items of a run a chunk holds; at least one."""
    total = 0
    for index, item in enumerate(run):
        total += item.tokens
        if total > chunk_tokens and index > 0:
            return index
    return len(run)
