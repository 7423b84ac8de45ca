"""Call ids that no provider takes for one another."""

from __future__ import annotations

import re

_LONGEST = 40
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


class UniqueIds:
    """Gives an id that was used before a new name.

    Ids that differ only in characters that a provider's adapter replaces count as the same, and a new
    name stays within OpenAI's 40 characters unless the id itself is longer.
    """

    def __init__(self) -> None:
        self._used: set[str] = set()

    def name(self, call_id: str, default: str) -> str:
        """The id itself the first time, a numbered one later; ``default`` for a call without an id."""
        call_id = call_id or default
        candidate, number = call_id, 2
        while (reduced := _FOREIGN.sub("_", candidate)) in self._used:
            suffix = f"-{number}"
            candidate = call_id[: max(_LONGEST, len(call_id)) - len(suffix)] + suffix
            number += 1
        self._used.add(reduced)
        return candidate
