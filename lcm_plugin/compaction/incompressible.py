"""Chunks that no summary made smaller, so that the same vain pass is not paid for again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from lcm_plugin.compaction.chunks import Chunk

_REST_MS = 1_800_000
_GROWTH = 1.5
_MOST = 4_096


class Unshrinkable:
    """Remembers vain chunks for half an hour, or until they have grown by half. Thread-safe."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until: OrderedDict[tuple[int, int, int], tuple[int, int]] = OrderedDict()

    def add(self, conversation_id: int, chunk: Chunk) -> None:
        """A pass over this chunk was in vain."""
        with self._lock:
            self._until[_key(conversation_id, chunk)] = (chunk.tokens, self._clock() + _REST_MS)
            while len(self._until) > _MOST:
                self._until.popitem(last=False)

    def holds(self, conversation_id: int, chunk: Chunk) -> bool:
        """Whether a pass over this chunk would be in vain again."""
        with self._lock:
            tokens, until = self._until.get(_key(conversation_id, chunk), (0, 0))
        return chunk.tokens < tokens * _GROWTH and self._clock() < until


def _key(conversation_id: int, chunk: Chunk) -> tuple[int, int, int]:
    return conversation_id, chunk.start, chunk.depth
