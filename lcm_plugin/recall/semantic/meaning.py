"""Closeness of meaning, added to what the words found.

Vectors are computed off the turn and stored beside the messages; they are derived, optional, and can be thrown away. A
question is compared with all of them in its scope: the closest rows become candidates beside those that hold words, and
a row's closeness is added to the score of its words. So it never hides a row that holds the words.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lcm_plugin.errors import ConfigError, StoreError
from lcm_plugin.events import EventBus
from lcm_plugin.recall.semantic.models import BATCH, Embedder, ModelName, embedder_of
from lcm_plugin.recall.semantic.vectors import VectorCache, largest_cosines
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.search import SearchRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]
    Cosines = NDArray[np.float32]

# In standard deviations above the mean of all rows: from where on a row may mean what is asked, and what counts in full.
LEAST_NEAR, FULLY_NEAR = 1.0, 6.0


@dataclass(frozen=True, slots=True)
class Meaning:
    """How close rows come to a question: their cosines, and the mean and deviation of all of them."""

    ids: Ids
    cosines: Cosines

    def nearest(self, limit: int) -> list[int]:
        """The rows that come closest, best first."""
        import numpy as np

        if limit < len(self.cosines):
            chosen = np.argpartition(self.cosines, -limit)[-limit:]
        else:
            chosen = np.arange(len(self.cosines))
        least = self._mean + LEAST_NEAR * self._deviation
        best = sorted((-float(self.cosines[at]), int(self.ids[at])) for at in chosen)
        return [row_id for cosine, row_id in best if -cosine >= least]

    def of(self, row_ids: Sequence[int]) -> dict[int, float]:
        """How close rows come, 0 (as any row does) to 1; without those that have no vector."""
        import numpy as np

        if not len(self.ids):
            return {}
        asked = np.array(row_ids, dtype=np.int64)
        order = np.argsort(self.ids, kind="stable")
        places = np.searchsorted(self.ids, asked, sorter=order).clip(max=len(order) - 1)
        found = order[places]
        known = self.ids[found] == asked
        near = (self.cosines[found] - self._mean) / (self._deviation * FULLY_NEAR)
        # Squared: what stands out far is far better evidence than what is a little closer than most.
        pairs = zip(row_ids, (near.clip(0.0, 1.0) ** 2).tolist(), known.tolist(), strict=True)
        return {row_id: value for row_id, value, is_known in pairs if is_known}

    @property
    def _mean(self) -> float:
        return float(self.cosines.mean()) if len(self.cosines) else 0.0

    @property
    def _deviation(self) -> float:
        return float(self.cosines.std()) or 1.0 if len(self.cosines) else 1.0


class Semantics:
    """The vectors of one database. Thread-safe; does nothing unless switched on."""

    def __init__(
        self, store: Store, events: EventBus, *, enabled: bool, model: ModelName = "minilm", folder: str = ""
    ) -> None:
        self._store = store
        self._events = events
        self._enabled = enabled
        self._model: ModelName = model
        self._folder = folder
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None
        self._missing = ""
        self._cache = VectorCache()

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
            self._cache.forget(ids)
            done += len(ids)
        return done

    def meaning(
        self, reader: Reader, question: str, conversation_ids: Sequence[int] | None, row_ids: Sequence[int]
    ) -> Meaning | None:
        """A question's closeness to all rows of some conversations; of ``row_ids`` alone where vectors are too many."""
        embedder = self._ready()
        if embedder is None or reader.vector_model() != embedder.name:
            return None
        vector = embedder.question(question)
        found = self._cache.cosines(reader, vector, conversation_ids)
        if found is None:
            found = largest_cosines(list(reader.vectors(row_ids).items()), vector)
        return Meaning(*found)

    def _ready(self) -> Embedder | None:
        if self._enabled and self._embedder is None and not self._missing:
            with self._lock:
                try:
                    self._embedder = self._embedder or embedder_of(self._model, self._folder)
                except ConfigError as error:
                    self._missing = str(error)
                    self._events.emit("search.semantic_missing", level=logging.WARNING, reason=self._missing)
        return self._embedder


def spoken(row: SearchRow) -> str:
    """A message's text with its speaker's name, which a question may ask for."""
    return f"{row.sender}: {row.text}" if row.sender and row.text else row.text
