"""Call ids that no provider takes for one another."""

from __future__ import annotations

import re
from collections.abc import Sequence

_LONGEST = 40
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


class UniqueIds:
    """Gives an id that was used before a new name.

    Ids that differ only in characters that a provider's adapter replaces count as the same, and a new
    name stays within OpenAI's 40 characters unless the id itself is longer.
    """

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._numbers: dict[str, int] = {}

    def copy(self) -> UniqueIds:
        """The same state, to go on from more than once."""
        twin = UniqueIds()
        twin._used, twin._numbers = set(self._used), dict(self._numbers)
        return twin

    def release(self, call_ids: Sequence[str]) -> None:
        """Forgets ids that `are_new` took."""
        self._used.difference_update(map(_reduced, call_ids))

    def are_new(self, call_ids: Sequence[str]) -> bool:
        """Takes ids as they are if none of them was used before; False, and nothing taken, otherwise."""
        reduced = {_reduced(call_id) for call_id in call_ids}
        if len(reduced) < len(call_ids) or reduced & self._used:
            return False
        self._used |= reduced
        return True

    def name(self, call_id: str, default: str) -> str:
        """The id itself the first time, a numbered one later; ``default`` for a call without an id."""
        call_id = call_id or default
        candidate, number = call_id, self._numbers.get(call_id, 2)
        while (reduced := _reduced(candidate)) in self._used:
            suffix = f"-{number}"
            candidate = call_id[: max(_LONGEST, len(call_id)) - len(suffix)] + suffix
            number += 1
        self._numbers[call_id] = number
        self._used.add(reduced)
        return candidate


def _reduced(call_id: str) -> str:
    return call_id if call_id.isascii() and call_id.isidentifier() else _FOREIGN.sub("_", call_id)
