"""The proof: every message of the transcript is reached from the context, byte for byte, once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lcm_plugin.messages.blocks import is_instruction
from lcm_plugin.sessions.library import Walked
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
    """Compares the messages that a walk reached with the transcript, in order.

    A message counts only when its bytes are equal and the ones before it came before it.
    """
    reached = list(walked)
    found = list(places(expected, [each.message for each in reached]))
    recovered = [place for place in found if place is not None]
    return Proof(
        len(expected),
        len(recovered),
        sum(bool(reached[place].by_way_of) for place in recovered),
        len(reached) - len(set(recovered)),
        found.index(None) if None in found else None,
    )


def places(expected: Sequence[Message], stored: Sequence[Message]) -> Iterator[int | None]:
    """The position of each message of a transcript among the stored ones; None for a missing one.

    An instruction that a host hands over again is stored once: its place is then the earlier one's.
    """
    following = 0
    instructions: dict[bytes, int] = {}
    for message in expected:
        mine = as_bytes(message)
        if following == len(stored) or as_bytes(stored[following]) != mine:
            yield instructions.get(mine)
            continue
        if is_instruction(message["role"]):
            instructions[mine] = following
        yield following
        following += 1


def as_bytes(message: Message) -> bytes:
    """A message as JSON, key order kept; lone surrogates survive as escapes."""
    return json.dumps(message).encode()
