"""The fresh tails of the conversations that were looked at last."""

from __future__ import annotations

from collections import OrderedDict

from lcm_plugin.store.base import Reader
from lcm_plugin.store.records import Conversation
from lcm_plugin.tail import Tail, fresh_tail

_REMEMBERED = 64
_Key = tuple[int, int, int, int, int, int | None]


class RecentTails:
    """Finds a tail once for all the looks of a turn. Thread-safe.

    A tail changes with a new message, a structural change, or a message that is hidden. Each shows in the
    conversation's row, so what another process did is noticed too.
    """

    def __init__(self) -> None:
        self._tails: OrderedDict[_Key, Tail] = OrderedDict()

    def of(self, reader: Reader, conversation: Conversation, count: int, max_tokens: int | None) -> Tail:
        """The tail of a conversation that was read in the same transaction."""
        key = (
            conversation.conversation_id,
            conversation.next_seq,
            conversation.revision,
            conversation.raw_tokens,
            count,
            max_tokens,
        )
        tail = self._tails.get(key)
        if tail is None:
            tail = fresh_tail(reader, conversation.conversation_id, count=count, max_tokens=max_tokens)
            self._tails[key] = tail
            while len(self._tails) > _REMEMBERED:
                self._tails.pop(next(iter(self._tails), key), None)
        return tail
