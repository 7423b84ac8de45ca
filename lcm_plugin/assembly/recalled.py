"""Old passages beside the talk: what the assembly asks of recall, and where the answer goes.

Recall looks for passages that fit the newest request and are not in view. They become one message of ours right before
that request. It is decided once a turn, so that the context only grows while the turn runs; with the next turn
the message is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lcm_plugin.assembly.render import Rendered
from lcm_plugin.assembly.request import Choice
from lcm_plugin.messages.blocks import text_of
from lcm_plugin.messages.markup import found_ids_of
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation
from lcm_plugin.types import Message

# So many requests that were taken back one after the other are seen.
_MOST_UNDONE = 8


@dataclass(frozen=True, slots=True)
class Quote:
    """What is quoted of a message beside earlier requests, and the place among the quotes where that stands last."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class InView:
    """What a context shows: messages that stand in it whole, what they say, and other texts that quote messages.

    ``quoted_before``: messages that stand there only as quotes beside earlier requests; ``quotes``: the same with the
    quotes, where their order is known. ``places``: where messages that an answer of a recall tool shows are read last, on
    the scale of the quotes, beside the places of the context's own messages where these are known. ``room`` is how many
    tokens the context may have, ``free`` how many of them it leaves. ``left_out``: some of what was never compacted has
    no room in it. ``taken_back``: from this message on nothing is quoted, since the host took it back.
    """

    refs: frozenset[str] = frozenset()
    said: frozenset[str] = frozenset()
    quoted: str = ""
    left_out: bool = False
    room: int = 0
    free: int = 0
    quoted_before: frozenset[str] = frozenset()
    quotes: Mapping[str, Quote] = field(default_factory=dict[str, Quote])
    places: Mapping[str, int] = field(default_factory=dict[str, int])
    taken_back: int | None = None

    def holds(self, ref: str, text: str) -> bool:
        """Whether a stored message can be read in it."""
        return ref in self.refs or text in self.said or text in self.quoted

    def read_last(self, ref: str) -> int:
        """The last place where a message, or a part of it, is read; 0 where it is unknown, which is before all others."""
        quote = self.quotes.get(ref)
        return max(self.places.get(ref, 0), quote.at if quote else 0)


@dataclass(frozen=True, slots=True)
class Recalled:
    """Passages as one message, its tokens, and the ids of the messages quoted."""

    message: Message
    tokens: int
    refs: tuple[str, ...]


class Recaller(Protocol):
    """Finds passages for a turn. ``place`` is the seq of the turn's request, ``version`` of its text."""

    def wants(self, conversation: Conversation) -> bool:
        """Whether anything of the conversation's history may be out of view."""
        ...

    def kept(
        self, reader: Reader, conversation: Conversation, ref: str, version: int
    ) -> tuple[bool, Recalled | None]:
        """Whether a turn was decided already, and what for it."""
        ...

    def decide(
        self, reader: Reader, conversation: Conversation, request: Rendered, view: InView
    ) -> Recalled | None:
        """Decides for a turn; what it returns fits what the view leaves free."""
        ...

    def for_text(
        self, reader: Reader, conversation: Conversation, asked: str, view: InView
    ) -> Recalled | None:
        """The passages for a request that is not stored yet."""
        ...

    def lags(self, conversation_id: int) -> bool:
        """Whether the last request was not looked for, since too much is not indexed."""
        ...

    def taken_out(self, conversation_id: int, place: int) -> int:
        """The seq of the newest request before a place that had passages, which are gone since; 0 for none."""
        ...


def taken_back_from(reader: Reader, conversation_id: int, listing: Sequence[Message]) -> int | None:
    """The id of the request from which on a host took back what is stored, without having handed over its list yet.

    Its list ends right before that request, as after an undo or a retry. None where the list ends with what was stored
    last, and where no such place is found.
    """
    end = text_of(listing[-1]) if listing else ""
    if not end or _text_before(reader, conversation_id, None) == end:
        return None
    before = None
    for _ in range(_MOST_UNDONE):
        request = reader.newest_user(conversation_id, before=before)
        if request is None:
            break
        before = request.seq
        if _text_before(reader, conversation_id, before) == end:
            return request.message_id
    return None


def _text_before(reader: Reader, conversation_id: int, seq: int | None) -> str:
    """The text of the newest message that stands (before a seq)."""
    heads = reader.heads(conversation_id, before_seq=seq, limit=1, standing=True)
    rows = reader.search_rows("message", [head.message_id for head in heads])
    return next((row.text for row in rows.values()), "")


def in_view(choice: Choice, room: int, free: int) -> InView:
    """What a choice of items shows. Of what was cut, and of summaries, the words count that are left."""
    shown = choice.chosen
    whole = [one for one in shown if one.kind != "summary" and not one.cuts]
    rest = [one for one in shown if one.kind == "summary" or one.cuts]
    return InView(
        frozenset(one.ref for one in whole),
        frozenset(text_of(one.message) for one in whole),
        "\n".join(text_of(one.message) for one in rest),
        choice.missing is not None,
        room,
        free,
        places=_places(shown),
    )


def _places(shown: Sequence[Rendered]) -> dict[str, int]:
    """Where each message is read last, as itself or in a tool's answer; nothing where no such answer is shown."""
    found = [(one, found_ids_of(text_of(one.message)) if one.answers else ()) for one in shown]
    if not any(ids for _, ids in found):
        return {}
    read = [ref for one, ids in found for ref in (one.ref, *ids)]
    return {ref: place for place, ref in enumerate(read, 1)}


def worth_caching(messages: Sequence[Message], settled: int, beside: Sequence[Message]) -> int | None:
    """The index of the last message worth a cache breakpoint, of which the first ``settled`` stay as they are.

    What stands ``beside`` the newest request is gone with the next turn, so a turn's first call ends what is worth
    keeping before that; its later calls begin with all of it.
    """
    if settled >= len(messages):
        at = len(messages) - 1
        while at > 0 and any(messages[at - 1] is one for one in beside):
            at -= 1
        settled = settled if at == len(messages) - 1 else at
    return settled - 1 if settled > 0 else None


def with_recalled(items: Sequence[Rendered], recalled: Recalled, request: str) -> list[Rendered]:
    """The items with the passages right before the request with that id, and before the call that it also answers."""
    place = next((one for one in items if one.ref == request), None)
    if place is None:
        return list(items)
    at = next(
        n for n, one in enumerate(items) if one is place or (place.answers and one.group == place.group)
    )
    passages = Rendered(place.ordinal, recalled.message, recalled.tokens, "recalled", place.ordinal, "other")
    return [*items[:at], passages, *items[at:]]
