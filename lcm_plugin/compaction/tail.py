"""The fresh tail: the newest messages, which compaction leaves alone and an assembly shows before summaries.

This module owns the rule. The tail holds whole groups, as many as count and tokens allow, and everything
from the newest user message on. Under pressure it *yields*: then that message protects nothing after it,
so that one very long turn cannot make a session die. A context still shows it word for word
(`assembly.opening`), which is why a yielding tail leaves room for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from lcm_plugin.lru import LruCache
from lcm_plugin.messages.groups import MAX_SPAN, next_legal_cut
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation, Item, MessageHead

PAGE = 96
_END = 1 << 62
_REMEMBERED = 64
_MOST_KEPT = 8 * PAGE


@dataclass(frozen=True, slots=True)
class TailBounds:
    """How much the tail may hold: ``count`` messages and ``tokens``, but at least the newest ``least`` tokens."""

    count: int
    tokens: int = _END
    least: int = 0


_Key = tuple[int, int, int, int, TailBounds]


@dataclass(frozen=True, slots=True)
class Tail:
    """What is protected: every item from ordinal ``start`` on. Hidden messages are not counted."""

    start: int = _END
    tokens: int = 0
    messages: int = 0

    def protects(self, ordinal: int) -> bool:
        """Whether an item must be left alone."""
        return ordinal >= self.start


def fresh_tail(
    reader: Reader,
    conversation_id: int,
    bounds: TailBounds,
    *,
    yields: bool = False,
    newest: list[Item] | None = None,
    speaker: tuple[MessageHead | None, bool] | None = None,
) -> Tail:
    """The tail of a conversation, found by walking back from its newest item.

    Without ``yields`` the newest user message and all after it belong to it whatever they cost; with ``yields``
    only the newest group does. ``newest`` are the newest items, oldest first, as far as they are known; what is
    older is read, and put in front of them. ``speaker`` is what `newest_speaker` gives, where that is known.
    """
    user, stands = speaker or newest_speaker(reader, conversation_id)
    must = _END
    if user is not None and yields:
        bounds = replace(bounds, tokens=bounds.tokens - user.tokens)
    elif user is not None and stands:
        must = user.seq
    known = [] if newest is None else newest
    return tail_of(_newest_first(reader, conversation_id, known), bounds, must)


def tail_of(newest_first: Iterable[Item], bounds: TailBounds, must: int = _END) -> Tail:
    """The tail of a context's items, which come newest first.

    Everything from the ordinal ``must`` on belongs to it whatever the bounds. It ends at a summary.
    """
    taken, rest, for_tokens = _take(iter(newest_first), bounds, must)
    if not taken:
        return Tail()
    whole = (_without_broken_group(taken, must) if for_tokens else None) or _with_whole_groups(taken, rest)
    return Tail(
        start=whole[-1].ordinal,
        tokens=sum(item.tokens for item in whole),
        messages=sum(1 for item in whole if item.message and not item.message.hidden),
    )


def _take(items: Iterator[Item], bounds: TailBounds, must: int) -> tuple[list[Item], Iterator[Item], bool]:
    """What belongs to the tail, newest first; what is older; and whether tokens ended it, not the count."""
    taken: list[Item] = []
    messages = tokens = 0
    for item in items:
        if item.message is None:
            if must == _END or item.ordinal < must:
                break
            continue
        messages += not item.message.hidden
        tokens += item.tokens
        over = tokens > bounds.least and (messages > bounds.count or tokens > bounds.tokens)
        if taken and item.ordinal < must and over:
            return taken, chain((item,), items), bounds.least > 0 or messages <= bounds.count
        taken.append(item)
    return taken, iter(()), False


def _without_broken_group(taken: list[Item], must: int) -> list[Item] | None:
    """The tail from its oldest whole group on; None when nothing or too little would be left."""
    heads = [item.message for item in reversed(taken) if item.message]
    cut = next_legal_cut(heads, 0)
    if cut == len(heads) or heads[cut].seq > must:
        return None
    return taken[: len(taken) - cut]


def _with_whole_groups(taken: list[Item], rest: Iterator[Item]) -> list[Item]:
    """The tail with as much of what is older as its oldest group needs.

    A call that was compacted, or stands too far away, is not waited for: its late result stands for
    itself.
    """
    items = list(taken)
    reach = min(_group(item) for item in items)
    for item in rest:
        if item.message is None or items[-1].ordinal <= reach or len(items) - len(taken) >= MAX_SPAN:
            break
        items.append(item)
        reach = min(reach, _group(item))
    oldest, lowest = items[-1].ordinal, _END
    for size, item in enumerate(items, start=1):
        group = _group(item)
        lowest = min(lowest, group if group >= oldest else item.ordinal)
        if size >= len(taken) and lowest >= item.ordinal:
            return items[:size]
    return items


def _group(item: Item) -> int:
    return item.message.group_seq if item.message else item.ordinal


def newest_speaker(reader: Reader, conversation_id: int) -> tuple[MessageHead | None, bool]:
    """The newest user message, and whether it is itself in the context, not covered by a summary or taken out."""
    message = reader.newest_user(conversation_id)
    if message is None:
        return None, False
    found = reader.newest_items(conversation_id, before=message.seq + 1, limit=1)
    return message, bool(found) and found[0].ordinal == message.seq and found[0].message is not None


def _newest_first(reader: Reader, conversation_id: int, known: list[Item]) -> Iterator[Item]:
    if not known:
        known += reader.newest_items(conversation_id, limit=PAGE)
    page = known.copy()
    while page:
        yield from reversed(page)
        page = reader.newest_items(conversation_id, before=page[0].ordinal, limit=PAGE)
        if len(known) < _MOST_KEPT:
            known[:0] = page


@dataclass(frozen=True, slots=True)
class _Newest:
    """A conversation and its newest items at one time, oldest first, and who spoke last (`newest_speaker`)."""

    conversation: Conversation
    items: Sequence[Item]
    speaker: tuple[MessageHead | None, bool]


class RecentTails:
    """Finds a tail once for all the looks of a turn, and reads only what came since the last one. Thread-safe.

    A tail changes with a new message, a structural change, or a message that is hidden. Each shows in the
    conversation's row, so what another process did is noticed too.
    """

    def __init__(self) -> None:
        self._tails: LruCache[_Key, Tail] = LruCache(_REMEMBERED)
        self._newest: LruCache[int, _Newest] = LruCache(_REMEMBERED)

    def of(self, reader: Reader, conversation: Conversation, bounds: TailBounds) -> Tail:
        """The tail of a conversation that was read in the same transaction."""
        conversation_id = conversation.conversation_id
        key = (
            conversation_id,
            conversation.next_seq,
            conversation.revision,
            conversation.raw_tokens,
            bounds,
        )
        tail = self._tails.get(key)
        if tail is None:
            known = self._newest.get(conversation_id)
            since = _continued(reader, conversation, known) if known else None
            newest, speaker = since or ([], newest_speaker(reader, conversation_id))
            tail = fresh_tail(reader, conversation_id, bounds, newest=newest, speaker=speaker)
            self._newest.put(conversation_id, _Newest(conversation, newest, speaker))
            self._tails.put(key, tail)
        return tail


def _continued(
    reader: Reader, conversation: Conversation, known: _Newest
) -> tuple[list[Item], tuple[MessageHead | None, bool]] | None:
    """Items and speaker with what was appended since; None when more than that has happened."""
    before = known.conversation
    added = conversation.next_seq - before.next_seq
    if conversation.revision != before.revision or not 0 <= added <= PAGE:
        return None
    read = reader.newest_items(conversation.conversation_id, limit=added) if added else []
    fresh = [item for item in read if item.ordinal >= before.next_seq]
    if before.raw_tokens + sum(item.tokens for item in fresh) != conversation.raw_tokens:
        return None
    speaker = known.speaker
    if len(fresh) < added:
        speaker = newest_speaker(reader, conversation.conversation_id)
    else:
        said = [one.message for one in fresh if one.message and one.message.speaks and not one.message.hidden]
        speaker = (said[-1], True) if said else speaker
    return [*known.items, *fresh][-_MOST_KEPT:], speaker
