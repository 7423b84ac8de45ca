"""A provider refused a context as too long: compact at once, but not again and again.

A host reports it with ``Turn.metadata["overflow"]``: true, or the provider's error text, which counts only
when it speaks of the context's length.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

MOST_TRIES = 3
"""Tries without a good turn between them."""

_TOO_LONG = re.compile(
    r"context[ _-]?(?:length|window|size)|maximum context|(?:prompt|input|request|message|conversation) is too long"
    r"|too many (?:input |total )?tokens|tokens? (?:limit|count) (?:was |is )?exceed|exceeds? the (?:maximum|max|limit)"
    r"[^.\n]{0,40}tokens?|input length and .?max_tokens.? exceed|reduce the length",
    re.IGNORECASE,
)


def overflow_reported(metadata: Mapping[str, Any]) -> bool:
    """Whether a turn's metadata says that the provider refused its context as too long."""
    reported = metadata.get("overflow")
    if isinstance(reported, str):
        return _TOO_LONG.search(reported) is not None
    return reported is True


class OverflowTries:
    """Counts tries per conversation until a turn goes well. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tries: dict[int, int] = {}

    @property
    def any(self) -> bool:
        """Whether tries of some conversation are counted."""
        return bool(self._tries)

    def another(self, conversation_id: int) -> bool:
        """Counts a try; False when there were too many."""
        with self._lock:
            tries = self._tries.get(conversation_id, 0) + 1
            self._tries[conversation_id] = tries
            return tries <= MOST_TRIES

    def went_well(self, conversation_id: int) -> None:
        """A turn was answered: the next overflow is a new one."""
        with self._lock:
            self._tries.pop(conversation_id, None)
