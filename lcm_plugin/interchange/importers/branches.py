"""Keeps the live branch of an edited chat in the context, and no other, from one import to the next.

Messages that a later import finds abandoned leave the context for a snapshot; their rows stay. Messages that are live
again come back, as long as nothing else changed the context since.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from lcm_plugin.store.protocol import Reader, Writer, iterate_items

# Stored with the snapshot, by which a later import knows its own.
_CAUSE = "turned away at the source"
_PAGE = 500


def has_hidden_branch(reader: Reader, conversation_id: int) -> bool:
    """Whether an import took something out of a context that was not put back."""
    snapshot = reader.snapshot(conversation_id)
    return snapshot is not None and snapshot.cause == _CAUSE


def hide_branch(writer: Writer, conversation_id: int, seqs: set[int], now: int) -> int:
    """Takes messages out of a context as far as they stand in it raw; returns how many."""
    raw = iterate_items(writer, conversation_id, after=min(seqs) - 1, raw=True)
    within = takewhile(lambda item: item.ordinal <= max(seqs), raw)
    ordinals = [item.ordinal for item in within if item.ordinal in seqs]
    if ordinals:
        writer.remove_items(conversation_id, ordinals, _CAUSE, now)
    return len(ordinals)


def restore_branch(writer: Writer, conversation_id: int, live: Sequence[int], now: int) -> int:
    """Restores the messages that imports hid, when any of the ``live`` messages is missing; returns how many still are.

    All of it comes back, the newest first; what is not live is hidden again afterwards.
    """
    while missing := _outside(writer, conversation_id, live):
        if not has_hidden_branch(writer, conversation_id) or not writer.restore_snapshot(
            conversation_id, now
        ):
            return missing
    return 0


def _outside(reader: Reader, conversation_id: int, message_ids: Sequence[int]) -> int:
    """How many of some messages are neither in a context nor under a summary."""
    raw = {
        item.message.message_id for item in iterate_items(reader, conversation_id, raw=True) if item.message
    }
    rest = sorted(set(message_ids) - raw)
    covered = sum(
        len(reader.covering_leaf(rest[start : start + _PAGE])) for start in range(0, len(rest), _PAGE)
    )
    return len(rest) - covered
