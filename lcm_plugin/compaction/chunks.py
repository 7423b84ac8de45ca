"""What to summarise next: runs of raw messages, runs of summaries of one depth. Nothing here writes.

A leaf chunk is the oldest contiguous run of raw messages outside the tail, cut at a group's boundary.
`groups` and `tail` own these boundaries. What a choice costs does not depend on how much waits behind it.
Summaries are read once for a series of passes and kept up to date as it publishes, so that a series costs as
much as there are summaries, not the square of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lcm_plugin.compaction.tail import Tail
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.groups import MAX_SPAN, legal_cut, next_legal_cut
from lcm_plugin.store.protocol import Reader, iterate_items
from lcm_plugin.store.records import Item

_PAGE, _SUMMARY_PAGE = 64, 1_000
_REST_MS = 1_800_000
_GROWTH = 1.5
_MOST = 4_096


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
    for item in iterate_items(reader, conversation_id, after=first[0].ordinal - 1, page=_PAGE):
        if item.message is None or tail.protects(item.ordinal):
            break
        run.append(item)
        tokens += item.tokens
        if tokens > chunk_tokens and len(run) > min_fanout:
            break
    return run


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


@dataclass(frozen=True, slots=True)
class CondensationRule:
    """What makes summaries worth condensing. Amounts are tokens of their context items.

    Summaries written because a model failed are left alone until they are rewritten, unless
    ``with_fallbacks``: a context that is too large cannot wait for that.
    """

    chunk_tokens: int
    min_tokens: int
    min_fanout: int
    with_fallbacks: bool = False


class Frontier:
    """Same-depth runs of one context's summaries, shallowest depth first, oldest run first.

    A condensation never makes anything shallower eligible, so a search goes on where the last one found
    something.
    """

    def __init__(self, items: Sequence[Item], follow_raw: set[int]) -> None:
        self._items = list(items)
        self._follow_raw = follow_raw
        self._depth = 0
        self._position = 0

    @classmethod
    def read(cls, reader: Reader, conversation_id: int, tail: Tail) -> Frontier:
        """The summaries outside the tail as they stand now."""
        items: list[Item] = []
        after = 0
        while page := reader.summary_items(conversation_id, after=after, limit=_SUMMARY_PAGE):
            items += [item for item in page if not tail.protects(item.ordinal)]
            after = page[-1].ordinal
        return cls(items, reader.follow_raw(conversation_id, [item.ordinal for item in items]))

    @property
    def tokens(self) -> int:
        """What the summaries cost in the context."""
        return sum(item.tokens for item in self._items)

    def next_chunk(self, rule: CondensationRule) -> Chunk | None:
        """The oldest eligible run of the shallowest depth that has one; an own run of at most a chunk."""
        deepest = max((item.depth for item in self._items), default=-1)
        while self._depth <= deepest:
            found = self.chunk_at(self._depth, rule)
            if found is not None:
                return found
            self._depth, self._position = self._depth + 1, 0
        return None

    def chunk_at(self, depth: int, rule: CondensationRule) -> Chunk | None:
        """The oldest eligible run of one depth, from where the last search ended."""
        if depth != self._depth:
            self._depth, self._position = depth, 0
        while self._position < len(self._items):
            run = self._run(self._position, depth, rule)
            if len(run) >= rule.min_fanout and sum(item.tokens for item in run) >= rule.min_tokens:
                return Chunk(tuple(run), depth + 1)
            self._position += max(1, len(run))
        return None

    def replace(self, chunk: Chunk, node: Item) -> None:
        """Takes note of a published condensation."""
        start = self._position
        if self._items[start].ordinal != chunk.start:
            start = next(n for n, item in enumerate(self._items) if item.ordinal == chunk.start)
        self._items[start : start + len(chunk.items)] = [node]
        self._position = start + 1

    def _run(self, start: int, depth: int, rule: CondensationRule) -> list[Item]:
        """The usable summaries of one depth from a position on with nothing between them: as many as fit
        into a chunk, but never fewer than the fan-out if there are that many."""
        run: list[Item] = []
        tokens = 0
        for index in range(start, len(self._items)):
            item = self._items[index]
            usable = item.depth == depth and (rule.with_fallbacks or not item.fallback)
            tokens += item.tokens
            full = tokens > rule.chunk_tokens and len(run) >= rule.min_fanout
            if not usable or full or (run and item.ordinal in self._follow_raw):
                break
            run.append(item)
        return run


class IncompressibleChunks:
    """Remembers vain chunks for half an hour, or until they have grown by half. Thread-safe."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._until: LruCache[tuple[int, int, int], tuple[int, int]] = LruCache(_MOST)

    def add(self, conversation_id: int, chunk: Chunk) -> None:
        """A pass over this chunk was in vain."""
        self._until.put(_key(conversation_id, chunk), (chunk.tokens, self._clock() + _REST_MS))

    def holds(self, conversation_id: int, chunk: Chunk) -> bool:
        """Whether a pass over this chunk would be in vain again."""
        tokens, until = self._until.get(_key(conversation_id, chunk), (0, 0))
        return chunk.tokens < tokens * _GROWTH and self._clock() < until


def _key(conversation_id: int, chunk: Chunk) -> tuple[int, int, int]:
    return conversation_id, chunk.start, chunk.depth
