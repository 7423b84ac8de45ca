"""The live branch of an edited chat in the context, and no other, from one import to the next.

What a later look at the source shows as turned away leaves the context for a snapshot; its rows stay. What is live
again comes back, as long as nothing else changed the context since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lcm_plugin.store.protocol import Reader, Writer
from lcm_plugin.store.records import Item

CAUSE = "turned away at the source"
_PAGE = 500


def has_turned_away(reader: Reader, conversation_id: int) -> bool:
    """Whether an import took something out of a context that was not put back."""
    snapshot = reader.snapshot(conversation_id)
    return snapshot is not None and snapshot.cause == CAUSE


def turn_away(writer: Writer, conversation_id: int, seqs: set[int], now: int) -> int:
    """Takes messages out of a context as far as they stand in it raw; returns how many."""
    raw = _raw_items(writer, conversation_id, after=min(seqs) - 1, through=max(seqs))
    ordinals = [item.ordinal for item in raw if item.ordinal in seqs]
    if ordinals:
        writer.remove_items(conversation_id, ordinals, CAUSE, now)
    return len(ordinals)


def bring_back(writer: Writer, conversation_id: int, live: Sequence[int], now: int) -> int:
    """Puts back what imports took out, when any of the ``live`` messages is missing; returns how many still are.

    All of it comes back, the newest first; what is not live is turned away again afterwards.
    """
    while missing := _outside(writer, conversation_id, live):
        if not has_turned_away(writer, conversation_id) or not writer.restore_snapshot(conversation_id, now):
            return missing
    return 0


def _outside(reader: Reader, conversation_id: int, message_ids: Sequence[int]) -> int:
    """How many of some messages are neither in a context nor under a summary."""
    wanted = set(message_ids)
    for item in _raw_items(reader, conversation_id):
        if item.message:
            wanted.discard(item.message.message_id)
    rest = sorted(wanted)
    covered = sum(
        len(reader.covering_leaf(rest[start : start + _PAGE])) for start in range(0, len(rest), _PAGE)
    )
    return len(rest) - covered


def _raw_items(
    reader: Reader, conversation_id: int, after: int = 0, through: int = 1 << 62
) -> Iterator[Item]:
    while after < through and (page := reader.oldest_raw_items(conversation_id, after=after, limit=_PAGE)):
        yield from page
        after = page[-1].ordinal
