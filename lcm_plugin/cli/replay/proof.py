"""The proof: every message of the transcript is reached from the context, byte for byte, once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lcm_plugin.recall.library import Walked
from lcm_plugin.types import Message


@dataclass(frozen=True, slots=True)
class Proof:
    """``recovered`` of ``expected`` messages; ``through_summaries`` of them lie below a summary."""

    expected: int
    recovered: int
    through_summaries: int
    extra: int
    first_missing: int | None = None

    @property
    def complete(self) -> bool:
        """All there, and nothing else."""
        return self.recovered == self.expected and self.extra == 0


def prove(expected: Sequence[Message], walked: Iterable[Walked]) -> Proof:
    """Compares what a walk reached with the transcript, in order.

    A message counts only when its bytes are equal and the ones before it came before it.
    """
    reached = list(walked)
    place = recovered = below = 0
    missing: int | None = None
    for position, message in enumerate(expected):
        if place < len(reached) and as_bytes(reached[place].message) == as_bytes(message):
            recovered += 1
            below += bool(reached[place].by_way_of)
            place += 1
        elif missing is None:
            missing = position
    return Proof(len(expected), recovered, below, len(reached) - place, missing)


def as_bytes(message: Message) -> bytes:
    """A message as JSON, key order kept; lone surrogates survive as escapes."""
    return json.dumps(message).encode()
