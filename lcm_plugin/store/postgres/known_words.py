"""What one process remembers of the words that searches asked a database for.

How the index writes a word never changes. That many rows hold it changes only when very many are removed, and decides
no more than how hits are looked for and weighed, so it is believed for a while.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from lcm_plugin.lru import LruCache
from lcm_plugin.store.search import Filter, RowKind, WordQuery

# With fewer rows a count is cheap, and has to be right.
LEAST_FREQUENT = 1_000
BELIEVED_S = 600.0
_MOST_WORDS = 20_000


@dataclass(frozen=True, slots=True)
class _Counted:
    """At least so many rows up to an id (None: all) held some words at a moment."""

    rows: int
    up_to: int | None
    at: float


class KnownWords:
    """Thread-safe. For one database and schema."""

    def __init__(self) -> None:
        self._phrases: LruCache[str, str] = LruCache(_MOST_WORDS)
        self._guesses: LruCache[tuple[RowKind, WordQuery], tuple[int, float]] = LruCache(_MOST_WORDS)
        self._frequent: LruCache[tuple[RowKind, WordQuery, tuple[int, ...] | None], _Counted] = LruCache(
            _MOST_WORDS
        )

    def guess(self, kind: RowKind, query: WordQuery) -> int | None:
        """How many rows the database's planner expects to hold the words; None when it is to be asked again."""
        known = self._guesses.get((kind, query))
        return known[0] if known is not None and time.monotonic() - known[1] <= BELIEVED_S else None

    def keep_guess(self, kind: RowKind, query: WordQuery, rows: int) -> None:
        """Remembers what the planner expects."""
        self._guesses.put((kind, query), (rows, time.monotonic()))

    def phrases(self, texts: Iterable[str]) -> dict[str, str]:
        """Texts in the index's own syntax, as far as they are known."""
        return self._phrases.get_all(texts)

    def keep_phrases(self, phrases: Iterable[tuple[str, str]]) -> None:
        """Remembers texts and how the index writes them."""
        for text, phrase in phrases:
            self._phrases.put(text, phrase)

    def is_frequent(self, kind: RowKind, query: WordQuery, rows: Filter, least: int) -> bool:
        """Whether at least so many rows are known to hold the words; false also when nothing is known."""
        if not _is_whole(rows):
            return False
        known = self._frequent.get((kind, query, rows.conversation_ids))
        if known is None or known.rows < least or time.monotonic() - known.at > BELIEVED_S:
            return False
        return rows.up_to_id is None or (known.up_to is not None and known.up_to <= rows.up_to_id)

    def keep_count(self, kind: RowKind, query: WordQuery, rows: Filter, counted: int) -> None:
        """Remembers that at least so many rows hold the words."""
        if counted >= LEAST_FREQUENT and _is_whole(rows):
            key = (kind, query, rows.conversation_ids)
            self._frequent.put(key, _Counted(counted, rows.up_to_id, time.monotonic()))


def _is_whole(rows: Filter) -> bool:
    """Whether all rows of some conversations may be found, as far as an id."""
    return rows == Filter(rows.conversation_ids, up_to_id=rows.up_to_id)
