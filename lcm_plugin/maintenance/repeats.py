"""Finds stretches of messages that are stored twice, after a host's replay that was not recognised.

Single messages may repeat honestly. A stretch counts when its messages are those of an earlier stretch in the same
order, and when it is too long and varied for an honest repeat.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lcm_plugin.lru import LruCache

SHORTEST = 12
FEWEST_DIFFERENT = 8
_REMEMBERED = 200_000


@dataclass(frozen=True, slots=True)
class Repeat:
    """The messages from ``first_seq`` to ``last_seq`` repeat those from ``earlier_seq`` on."""

    first_seq: int
    last_seq: int
    earlier_seq: int


@dataclass(slots=True)
class _Run:
    """A stretch that equals an earlier one so far; ``place`` is the current position in the earlier one."""

    first_seq: int
    last_seq: int
    earlier_seq: int
    place: int
    identities: set[int]
    length: int = 1

    def go_on(self, seq: int, identity: int) -> None:
        self.last_seq = seq
        self.place += 1
        self.length += 1
        self.identities.add(identity)

    def found(self) -> Iterator[Repeat]:
        if self.length >= SHORTEST and len(self.identities) >= FEWEST_DIFFERENT:
            yield Repeat(self.first_seq, self.last_seq, self.earlier_seq)


def find_repeats(messages: Iterable[tuple[int, int]]) -> Iterator[Repeat]:
    """Repeated stretches of one conversation, from (seq, identity) in order.

    Sixteen bytes a message, and a bounded table: a replay that follows more than `_REMEMBERED` different
    messages later is not noticed.
    """
    seqs, identities = array("q"), array("q")
    places: LruCache[int, int] = LruCache(_REMEMBERED)
    run: _Run | None = None
    for place, (seq, identity) in enumerate(messages):
        if run is not None and identities[run.place + 1] == identity:
            run.go_on(seq, identity)
        else:
            if run is not None:
                yield from run.found()
            earlier = places.get(identity)
            run = None if earlier is None else _Run(seq, seq, seqs[earlier], earlier, {identity})
        seqs.append(seq)
        identities.append(identity)
        places.put(identity, place)
    if run is not None:
        yield from run.found()
