"""Closeness of meaning as a second opinion on what the words found.

Vectors are computed off the turn and stored beside the messages; they are derived, optional, and can be thrown away. A
search that has them lifts the rows that mean what was asked. It never hides a row that holds the words: on its
own a small sentence model finds less than words do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from itertools import chain

from lcm_plugin.errors import ConfigError, StoreError
from lcm_plugin.events import EventBus
from lcm_plugin.recall.embeddings import Embedder, find_model
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.search import SearchRow

BATCH = 16
MOST_SEARCHED = 200_000


class Semantics:
    """The vectors of one database. Thread-safe; does nothing unless switched on."""

    def __init__(self, store: Store, events: EventBus, *, enabled: bool, folder: str = "") -> None:
        self._store = store
        self._events = events
        self._enabled = enabled
        self._folder = folder
        self._embedder: Embedder | None = None
        self._missing = ""

    @property
    def missing(self) -> str:
        """What keeps it from working although it is switched on; empty when nothing does."""
        self._ready()
        return self._missing

    def catch_up(self, stop: Callable[[], bool] = lambda: False, limit: int | None = None) -> int:
        """Computes the vectors that are missing, in small batches; returns of how many messages.

        Stops quietly when another process writes or the database is read-only.
        """
        embedder = self._ready()
        done = 0
        while embedder is not None and not stop() and (limit is None or done < limit):
            with self._store.read() as reader:
                ids = reader.messages_without_vectors(embedder.name, BATCH)
                rows = reader.search_rows("message", ids)
            if not ids:
                break
            texts = [spoken(rows[row_id]) if row_id in rows else "" for row_id in ids]
            made = dict(zip(ids, embedder.embed(texts), strict=True))
            try:
                with self._store.write() as writer:
                    writer.store_vectors(embedder.name, made)
            except StoreError as error:
                self._events.emit("search.vectors_wait", level=logging.DEBUG, reason=str(error))
                break
            done += len(ids)
        return done

    def closeness(self, reader: Reader, question: str, row_ids: Sequence[int]) -> Mapping[int, float]:
        """How close messages come to a question, 0 to 1; without those that have no vector yet."""
        embedder = self._usable(reader)
        if embedder is None or not row_ids:
            return {}
        return dict(embedder.question(question).similarities(list(reader.vectors(row_ids).items())))

    def nearest(
        self, reader: Reader, question: str, conversation_ids: Sequence[int] | None, limit: int
    ) -> list[int]:
        """The messages that come closest to a question, best first; none in more than `MOST_SEARCHED` vectors."""
        embedder = self._usable(reader)
        if embedder is None:
            return []
        asked, seen = embedder.question(question), 0
        best: list[tuple[float, int]] = []
        for batch in reader.vectors_within(conversation_ids):
            seen += len(batch)
            if seen > MOST_SEARCHED:
                return []
            found = ((near, row_id) for row_id, near in asked.similarities(batch, limit))
            best = nlargest(limit, chain(best, found))
        return [row_id for _, row_id in best]

    def _usable(self, reader: Reader) -> Embedder | None:
        embedder = self._ready()
        return embedder if embedder is not None and reader.vector_model() == embedder.name else None

    def _ready(self) -> Embedder | None:
        if self._enabled and self._embedder is None and not self._missing:
            try:
                self._embedder = Embedder(find_model(self._folder or None))
            except ConfigError as error:
                self._missing = str(error)
                self._events.emit("search.semantic_missing", level=logging.WARNING, reason=self._missing)
        return self._embedder


def spoken(row: SearchRow) -> str:
    """A message's text with its speaker's name, which a question may ask for."""
    return f"{row.sender}: {row.text}" if row.sender and row.text else row.text
