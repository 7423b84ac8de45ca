"""The summaries that stand in a context, and which of them to condense next.

They are read once for a series of passes and kept up to date as it publishes, so that a series costs as
much as there are summaries, not the square of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lcm_plugin.compaction.chunks import Chunk
from lcm_plugin.compaction.tail import Tail
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Item

_PAGE = 1_000


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
        while page := reader.summary_items(conversation_id, after=after, limit=_PAGE):
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
