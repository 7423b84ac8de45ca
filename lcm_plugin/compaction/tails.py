"""The fresh tails of the conversations that were looked at last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from lcm_plugin.compaction.tail import PAGE, Tail, fresh_tail
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation, Item

_REMEMBERED = 64
_Key = tuple[int, int, int, int, int, int | None, int]
_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class _Newest:
    """A conversation and its newest items at one time, oldest first."""

    conversation: Conversation
    items: Sequence[Item]


class RecentTails:
    """Finds a tail once for all the looks of a turn, and reads only what came since the last one. Thread-safe.

    A tail changes with a new message, a structural change, or a message that is hidden. Each shows in the
    conversation's row, so what another process did is noticed too.
    """

    def __init__(self) -> None:
        self._tails: OrderedDict[_Key, Tail] = OrderedDict()
        self._newest: OrderedDict[int, _Newest] = OrderedDict()

    def of(
        self,
        reader: Reader,
        conversation: Conversation,
        count: int,
        max_tokens: int | None,
        least_tokens: int = 0,
    ) -> Tail:
        """The tail of a conversation that was read in the same transaction."""
        conversation_id = conversation.conversation_id
        key = (
            conversation_id,
            conversation.next_seq,
            conversation.revision,
            conversation.raw_tokens,
            count,
            max_tokens,
            least_tokens,
        )
        tail = self._tails.get(key)
        if tail is None:
            newest = self._newest_of(reader, conversation)
            tail = fresh_tail(
                reader,
                conversation_id,
                count=count,
                max_tokens=max_tokens,
                least_tokens=least_tokens,
                newest=newest,
            )
            _remember(self._tails, key, tail)
        return tail

    def _newest_of(self, reader: Reader, conversation: Conversation) -> Sequence[Item]:
        conversation_id = conversation.conversation_id
        known = self._newest.get(conversation_id)
        items = _continued(reader, conversation, known) if known else None
        if items is None:
            items = reader.newest_items(conversation_id, limit=PAGE)
        _remember(self._newest, conversation_id, _Newest(conversation, items))
        return items


def _continued(reader: Reader, conversation: Conversation, known: _Newest) -> Sequence[Item] | None:
    """The items with those that were appended since; None when more than that has happened."""
    before = known.conversation
    added = conversation.next_seq - before.next_seq
    if conversation.revision != before.revision or not 0 <= added <= PAGE:
        return None
    read = reader.newest_items(conversation.conversation_id, limit=added) if added else []
    fresh = [item for item in read if item.ordinal >= before.next_seq]
    if before.raw_tokens + sum(item.tokens for item in fresh) != conversation.raw_tokens:
        return None
    return [*known.items, *fresh][-PAGE:]


def _remember(into: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    into[key] = value
    while len(into) > _REMEMBERED:
        into.pop(next(iter(into), key), None)
