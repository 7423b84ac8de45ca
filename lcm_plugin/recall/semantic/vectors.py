"""All stored vectors in memory, so that a question is compared with a hundred thousand of them in some ten milliseconds."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lcm_plugin.store.protocol import Reader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]
    Cosines = NDArray[np.float32]
    Vector = NDArray[np.float32]
    Packed = NDArray[np.int8]

# Above so many messages there is no room for all; 384 bytes for each piece of a text.
MOST_CACHED = 200_000
# Rows that are turned into floats at once: they stay in the processor's cache.
_CHUNK = 1_024
# Smaller blocks are joined with those that follow.
_FULL_BLOCK = 8_192


@dataclass(frozen=True, slots=True)
class _Block:
    """Some messages: their ids and conversations, and where each one's vectors begin among the packed ones."""

    ids: Ids
    conversations: Ids
    starts: Ids
    packed: Packed


@dataclass(slots=True)
class VectorCache:
    """The vectors of one database, read once and then only what is new. Thread-safe."""

    _blocks: list[_Block] = field(default_factory=list)
    _state: tuple[str | None, int, int] = (None, 0, 0)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def cosines(
        self, reader: Reader, vector: Vector, conversation_ids: Sequence[int] | None
    ) -> tuple[Ids, Cosines] | None:
        """The messages of some conversations and how close each comes; None where they are too many to keep."""
        import numpy as np

        with self._lock:
            if not self._refresh(reader, len(vector)):
                return None
            blocks = list(self._blocks)
        ids: list[Ids] = [np.zeros(0, dtype=np.int64)]
        cosines: list[Cosines] = [np.zeros(0, dtype=np.float32)]
        allowed = None if conversation_ids is None else np.array(conversation_ids, dtype=np.int64)
        for block in blocks:
            if allowed is None:
                inside = np.ones(len(block.ids), dtype=bool)
            else:
                inside = np.isin(block.conversations, allowed)
                if not inside.any():
                    continue
            ids.append(block.ids[inside])
            cosines.append(_of_messages(block.packed, block.starts, vector)[inside])
        return np.concatenate(ids), np.concatenate(cosines)

    def forget(self, message_ids: Sequence[int]) -> None:
        """Reads all again if one of these, whose vectors were stored again, is known."""
        with self._lock:
            if min(message_ids) <= self._state[2]:
                self._blocks, self._state = [], (None, 0, 0)

    def _refresh(self, reader: Reader, width: int) -> bool:
        """Reads what is new, or all when anything else changed; False when there are too many."""
        model, count = reader.vector_model(), reader.vector_count()
        if count > MOST_CACHED:
            self._blocks, self._state = [], (None, 0, 0)
            return False
        known_model, known_count, newest = self._state
        if (model, count) == (known_model, known_count):
            return True
        if model == known_model and count > known_count:
            self._read(reader, newest, width)
        if model != known_model or self._state[1] != count:
            self._blocks, self._state = [], (model, 0, 0)
            self._read(reader, 0, width)
        return True

    def _read(self, reader: Reader, after: int, width: int) -> None:
        model, count, newest = self._state
        for batch in reader.vectors_after(after):
            self._add(_block(batch, width))
            count, newest = count + len(batch), max(newest, batch[-1][0])
        self._state = (model, count, newest)

    def _add(self, block: _Block) -> None:
        import numpy as np

        if self._blocks and len(self._blocks[-1].ids) < _FULL_BLOCK:
            last = self._blocks.pop()
            block = _Block(
                np.concatenate((last.ids, block.ids)),
                np.concatenate((last.conversations, block.conversations)),
                np.concatenate((last.starts, block.starts + len(last.packed))),
                np.concatenate((last.packed, block.packed)),
            )
        self._blocks.append(block)


def largest_cosines(stored: Sequence[tuple[int, bytes]], vector: Vector) -> tuple[Ids, Cosines]:
    """Messages with their stored vectors, and how close each comes: the largest cosine of its pieces."""
    block = _block([(message_id, 0, data) for message_id, data in stored], len(vector))
    return block.ids, _of_messages(block.packed, block.starts, vector)


def _block(stored: Sequence[tuple[int, int, bytes]], width: int) -> _Block:
    """Rows of message, conversation and vectors; messages without text have none and are left out."""
    import numpy as np

    kept = [row for row in stored if row[2]]
    counts = [len(data) // width for _, _, data in kept]
    return _Block(
        np.array([row[0] for row in kept], dtype=np.int64),
        np.array([row[1] for row in kept], dtype=np.int64),
        np.cumsum([0, *counts], dtype=np.int64)[:-1],
        np.frombuffer(b"".join([data for _, _, data in kept]), dtype=np.int8).reshape(-1, width),
    )


def _of_messages(packed: Packed, starts: Ids, vector: Vector) -> Cosines:
    import numpy as np

    cosines = np.empty(len(packed), dtype=np.float32)
    floats = np.empty((min(_CHUNK, len(packed)), packed.shape[1]), dtype=np.float32)
    for start in range(0, len(packed), _CHUNK):
        piece = packed[start : start + _CHUNK]
        floats[: len(piece)] = piece
        np.dot(floats[: len(piece)], vector, out=cosines[start : start + len(piece)])
    if len(starts) == len(cosines):
        return cosines
    largest: Cosines = np.maximum.reduceat(cosines, starts)
    return largest
