"""Messages of which it is not known whether they are stored: the server went away while they were committed.

They are handed over again, by whoever got that error, and are then looked for where they would stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lcm_plugin.ingest.matching import Incoming
from lcm_plugin.lru import LruCache
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation

_MOST_LANES = 1_024


@dataclass(frozen=True, slots=True)
class _Batch:
    """What was being stored, as identities in order, and where the first of them would stand."""

    conversation_id: int
    from_seq: int
    identities: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sighting:
    """Indices of messages that are handed over again, and whether they are stored."""

    places: frozenset[int] = frozenset()
    stored: bool = False


class UnsureMessages:
    """The newest such batch of every lane. Thread-safe."""

    def __init__(self) -> None:
        self._lanes: LruCache[str, _Batch] = LruCache(_MOST_LANES)

    def note(self, lane: str, conversation: Conversation, incoming: Sequence[Incoming]) -> None:
        """The commit that was to append these messages to a conversation was not answered."""
        identities = tuple(item.identity for item in incoming)
        self._lanes.put(lane, _Batch(conversation.conversation_id, conversation.next_seq, identities))

    def settled(self, lane: str) -> None:
        """The lane's messages were stored, or found."""
        self._lanes.pop(lane)

    def look(self, reader: Reader, lane: str, incoming: Sequence[Incoming]) -> Sighting:
        """Which messages are handed over again, and whether they turn out to be stored."""
        batch = self._lanes.get(lane)
        places = _places(batch.identities, incoming) if batch else frozenset()
        if batch is None or not places:
            return Sighting()
        count = len(batch.identities)
        heads = reader.heads(batch.conversation_id, before_seq=batch.from_seq + count, limit=count)
        standing = tuple(head.identity for head in heads if head.seq >= batch.from_seq)
        return Sighting(places, standing == batch.identities)


def _places(identities: Sequence[int], incoming: Sequence[Incoming]) -> frozenset[int]:
    """Where the identities are found, in order; nowhere unless all of them are."""
    found: list[int] = []
    for index, item in enumerate(incoming):
        if len(found) < len(identities) and item.identity == identities[len(found)]:
            found.append(index)
    return frozenset(found) if len(found) == len(identities) else frozenset()
