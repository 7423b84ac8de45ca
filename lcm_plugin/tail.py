"""The fresh tail: the newest messages, which compaction leaves alone.

This module owns the rule. The tail holds whole groups, at least everything from the newest user
message on, and else as much as count and tokens allow. Under pressure it yields: only the newest
groups that fit stay protected, and the newest user message is *pinned* where it stands, so that one
very long turn cannot make a session die.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lcm_plugin.store.base import Reader
from lcm_plugin.store.records import Item

_PAGE = 96
_END = 1 << 62


@dataclass(frozen=True, slots=True)
class Tail:
    """What is protected: every item from ordinal ``start`` on, and the ``pinned`` one before it."""

    start: int
    tokens: int = 0
    messages: int = 0
    pinned: int | None = None

    def protects(self, ordinal: int) -> bool:
        """Whether an item must be left alone."""
        return ordinal >= self.start or ordinal == self.pinned


def fresh_tail(
    reader: Reader, conversation_id: int, *, count: int, max_tokens: int | None = None, yields: bool = False
) -> Tail:
    """The tail of a conversation, found by walking back from its newest item."""
    walk = _Walk(count, max_tokens, yields)
    for item in _newest_first(reader, conversation_id):
        if not walk.take(item):
            break
    return walk.tail()


class _Walk:
    def __init__(self, count: int, max_tokens: int | None, yields: bool) -> None:
        self._count = count
        self._max_tokens = _END if max_tokens is None else max_tokens
        self._yields = yields
        self._start = _END
        self._reach = _END
        self._messages = 0
        self._tokens = 0
        self._user: int | None = None
        self._closed = False

    def take(self, item: Item) -> bool:
        """Looks at the next older item; False when there is nothing more to look for."""
        if item.message is None:
            return not (self._closed and self._user is not None)
        if self._user is None and item.message.role == "user" and not item.message.hidden:
            self._user = item.ordinal
        if self._must_take(item) or (not self._closed and self._fits(item)):
            self._start = item.ordinal
            self._reach = min(self._reach, item.message.group_seq)
            self._messages += 0 if item.message.hidden else 1
            self._tokens += item.tokens
            return True
        self._closed = True
        return self._user is None

    def _must_take(self, item: Item) -> bool:
        inside_group = item.ordinal >= self._reach
        in_turn = not self._yields and (self._user is None or item.ordinal == self._user)
        return self._start == _END or inside_group or in_turn

    def _fits(self, item: Item) -> bool:
        return self._messages < self._count and self._tokens + item.tokens <= self._max_tokens

    def tail(self) -> Tail:
        pinned = self._user if self._user is not None and self._user < self._start else None
        return Tail(self._start, self._tokens, self._messages, pinned)


def _newest_first(reader: Reader, conversation_id: int) -> Iterator[Item]:
    before: int | None = None
    while page := reader.newest_items(conversation_id, before=before, limit=_PAGE):
        yield from reversed(page)
        before = page[0].ordinal
