"""Reading a whole database: its conversations, their messages, and the DAG from the context down.

This is what people and proofs look at (the ``lcm`` command, exports, the replay's check). It only reads,
in pages, so that memory stays flat whatever the history's length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from lcm_plugin.errors import InputError, NotFound
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.sessions.names import fits, named
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import (
    Conversation,
    Item,
    MessageHead,
    Part,
    StoredMessage,
    StoreStatus,
    Summary,
    message_ref,
)
from lcm_plugin.types import Message

PAGE = 500
EVERYTHING = "**"


@dataclass(frozen=True, slots=True)
class Node:
    """A place in the DAG: a summary with its sources, or a raw message (then ``summary`` is None)."""

    ordinal: int
    summary: Summary | None = None
    message: MessageHead | None = None
    sources: tuple[Node, ...] = ()
    message_ids: tuple[int, ...] = ()

    @property
    def height(self) -> int:
        """Steps down to the raw messages; 0 for a raw message."""
        return 0 if self.summary is None else self.summary.depth + 1


@dataclass(frozen=True, slots=True)
class Walked:
    """A message reached from the context; ``by_way_of`` are the summaries above it, outermost first."""

    ref: str
    message: Message
    by_way_of: tuple[str, ...] = ()


class Library:
    """Read access to a store. ``read_file`` gives a part's value when its text was moved to a file."""

    def __init__(self, store: Store, read_file: Callable[[Part], Any] | None = None) -> None:
        self._store = store
        self._read_file = read_file

    def status(self) -> StoreStatus:
        """Totals of the whole database."""
        with self._store.read() as reader:
            return reader.status()

    def conversation(self, selector: str) -> Conversation:
        """The conversation that a person means: a number, a session key or id, a title, a project, or a glob of these.

        Of several with one key the active one, else the newest. Raises `NotFound`, and `InputError` where the words
        fit more than one key.
        """
        found = self.matching(selector)
        keys = {row.session_key for row in found}
        if len(keys) > 1:
            some = ", ".join(sorted(keys)[:5])
            raise InputError(
                f"{selector!r} matches {len(keys)} session keys ({some}{', …' if len(keys) > 5 else ''})"
            )
        chosen = _newest(found)
        assert chosen is not None
        return chosen

    def matching(self, selector: str) -> list[Conversation]:
        """The conversations that a person means, see `conversation`: one by number, else all that fit.

        Raises `NotFound` when there is none.
        """
        if "*" not in selector:
            with self._store.read() as reader:
                if (one := self._by_number(reader, selector)) is not None:
                    return [one]
                key = selector if reader.lane(selector) else reader.session_key_of(selector)
                if key is not None and (lane := reader.lane(key)):
                    # Conversations without a key have nothing to do with each other.
                    return lane if key else lane[-1:]
        found = self._that_fit(selector)
        if not found:
            raise NotFound(
                f"no conversation {selector!r}: no number, session key or id, title or project of this database"
            )
        return found

    def conversations(self, *, after_id: int = 0, active_only: bool = False) -> Iterator[Conversation]:
        """All conversations after an id, in id order."""
        while True:
            with self._store.read() as reader:
                rows = reader.conversations(after_id=after_id, limit=PAGE, active_only=active_only)
            if not rows:
                return
            yield from rows
            after_id = rows[-1].conversation_id

    def messages(self, conversation_id: int, *, after_seq: int = 0) -> Iterator[StoredMessage]:
        """All messages of a conversation after a seq, in order."""
        while True:
            with self._store.read() as reader:
                rows = reader.messages(conversation_id, after_seq=after_seq, limit=PAGE)
            if not rows:
                return
            yield from rows
            after_seq = rows[-1].head.seq

    def message(self, message_id: int) -> StoredMessage:
        """One message. Raises `NotFound`."""
        with self._store.read() as reader:
            found = reader.messages_by_id([message_id]).get(message_id)
        if found is None:
            raise NotFound(f"no message {message_ref(message_id)}")
        return found

    def whole(self, stored: StoredMessage) -> Message:
        """The message as it came in."""
        return rebuild(stored, self._read_file)

    def in_full(self, stored: StoredMessage) -> StoredMessage:
        """The message with the texts that moved to files in their places."""
        if self._read_file is None:
            return stored
        parts = [
            replace(part, text=str(self._read_file(part))) if part.file_id and part.type != "file" else part
            for part in stored.parts
        ]
        return replace(stored, parts=tuple(parts))

    def summaries(
        self, conversation_id: int, *, after: str | None = None, depth: int | None = None
    ) -> Iterator[Summary]:
        """A conversation's summaries after an id, in the order in which they were made."""
        while True:
            with self._store.read() as reader:
                rows = reader.list_summaries(conversation_id, after=after, limit=PAGE, depth=depth)
            if not rows:
                return
            yield from rows
            after = rows[-1].summary_id

    def summary(self, summary_id: str) -> Summary:
        """One summary. Raises `NotFound`."""
        with self._store.read() as reader:
            found = reader.summaries([summary_id]).get(summary_id)
        if found is None:
            raise NotFound(f"no summary {summary_id}")
        return found

    def items(self, conversation_id: int, *, after: int = 0) -> Iterator[Item]:
        """The active context after an ordinal, in order."""
        while True:
            with self._store.read() as reader:
                rows = reader.oldest_items(conversation_id, after=after, limit=PAGE)
            if not rows:
                return
            yield from rows
            after = rows[-1].ordinal

    def summary_counts(self, conversation_id: int) -> dict[int, int]:
        """Summaries by depth."""
        with self._store.read() as reader:
            return dict(sorted(reader.summary_counts(conversation_id).items()))

    def outline(self, conversation_id: int) -> list[Node]:
        """The context as a forest: its items in order, each summary with all that is below it."""
        return [self._node(item) for item in self.items(conversation_id)]

    def node(self, summary_id: str) -> Node:
        """One summary with all that is below it. Raises `NotFound`."""
        return self._below(self.summary(summary_id), 0)

    def walk(self, conversation_id: int) -> Iterator[Walked]:
        """Every message that the context reaches, in order, each as it came in."""
        for item in self.items(conversation_id):
            if item.message is not None:
                yield from self._read([item.message.message_id], ())
            else:
                yield from self._walk_down(str(item.summary_id), ())

    def _that_fit(self, selector: str) -> list[Conversation]:
        rows = self.conversations()
        found: list[Conversation] = []
        while page := list(islice(rows, PAGE)):
            with self._store.read() as reader:
                found += [one.row for one in named(reader, page) if fits(selector, one)]
        return found

    def _walk_down(self, summary_id: str, way: Sequence[str]) -> Iterator[Walked]:
        with self._store.read() as reader:
            inner = reader.source_summaries(summary_id)
            leaves = [] if inner else reader.source_messages(summary_id)
        below = (*way, summary_id)
        for source in inner:
            yield from self._walk_down(source, below)
        yield from self._read(leaves, below)

    def _read(self, message_ids: Sequence[int], way: tuple[str, ...]) -> Iterator[Walked]:
        with self._store.read() as reader:
            found = reader.messages_by_id(message_ids)
        for message_id in message_ids:
            if message_id in found:
                yield Walked(message_ref(message_id), self.whole(found[message_id]), way)

    def _node(self, item: Item) -> Node:
        if item.message is not None:
            return Node(item.ordinal, message=item.message)
        return self._below(self.summary(str(item.summary_id)), item.ordinal)

    def _below(self, summary: Summary, ordinal: int) -> Node:
        with self._store.read() as reader:
            ids = reader.source_summaries(summary.summary_id)
            found = reader.summaries(ids)
            leaves = () if ids else tuple(reader.source_messages(summary.summary_id))
        sources = tuple(self._below(found[source], 0) for source in ids if source in found)
        return Node(ordinal, summary=summary, sources=sources, message_ids=leaves)

    @staticmethod
    def _by_number(reader: Reader, selector: str) -> Conversation | None:
        return reader.conversation(int(selector)) if selector.isascii() and selector.isdigit() else None


def place_of(reader: Reader, ref: str) -> tuple[int, int] | None:
    """The conversation and the place of ``msg_…`` or ``sum_…``; None when it is not there."""
    if ref.startswith("sum_"):
        summary = reader.summaries([ref]).get(ref)
        return (summary.conversation_id, summary.first_seq) if summary else None
    digits = ref.removeprefix("msg_")
    if not ref.startswith("msg_") or not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        return None
    stored = reader.messages_by_id([int(digits)]).get(int(digits))
    return (stored.head.conversation_id, stored.head.seq) if stored else None


def _newest(lane: Sequence[Conversation]) -> Conversation | None:
    active = [conversation for conversation in lane if conversation.active]
    candidates = active or lane
    return candidates[-1] if candidates else None
