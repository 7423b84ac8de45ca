"""The report of an import, and the session keys under which its conversations are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.ingest.rows import shows_nothing
from lcm_plugin.interchange.importers.records import Broken, SourceConversation
from lcm_plugin.messages.blocks import blocks_of, calls_answered, calls_made, kind_of, text_of
from lcm_plugin.messages.table import Kind
from lcm_plugin.types import Message

ID = "{id}"
_MOST_BROKEN = 100
_MOST_NOTES = 50


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a message: calls, results of others' calls, images and files; ``blank`` when no model is shown it."""

    calls: int = 0
    results: int = 0
    images: int = 0
    blank: bool = False

    @classmethod
    def of(cls, message: Message) -> Contents:
        """The contents of a message."""
        blocks = blocks_of(message)
        if not blocks and "tool_calls" not in message and message.get("role") != "tool":
            return cls(blank=shows_nothing(message, text_of(message), False))
        calls, results = len(calls_made(message)), len(calls_answered(message))
        images = sum(kind_of(block) is Kind.MEDIA for block in blocks)
        linked = bool(calls or results)
        return cls(calls, results, images, not linked and shows_nothing(message, text_of(message), False))


@dataclass(slots=True)
class ConversationReport:
    """One conversation of the source.

    ``new`` and ``known`` count its rows; ``hidden`` are the new ones that are records and no messages, ``said`` the
    messages, new and known. ``calls``, ``results`` and ``images`` are those in new messages. ``parent`` is the key of
    the session that a sub-agent worked for, ``forked_from`` holds those of the sessions that it begins as.
    """

    key: str
    source_id: str
    kind: str
    session: str = ""
    title: str = ""
    parent: str = ""
    forked_from: tuple[str, ...] = ()
    new: int = 0
    known: int = 0
    hidden: int = 0
    said: int = 0
    calls: int = 0
    results: int = 0
    images: int = 0
    tokens: int = 0
    summaries: int = 0
    earliest: int | None = None
    latest: int | None = None
    conversation_id: int | None = None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, source: SourceConversation, keys: Keys) -> ConversationReport:
        """An empty report about a conversation."""
        key, parent = keys.of(source), keys.of_other(source, source.parent)
        origins = tuple(keys.of_other(source, name) for name in source.forked_from)
        return cls(key, source.source_id, source.kind, source.name, source.title, parent, origins)

    @property
    def records(self) -> int:
        """Rows, new and known."""
        return self.new + self.known

    @property
    def messages(self) -> int:
        """New rows that are messages."""
        return self.new - self.hidden

    def add(self, contents: Contents, *, hidden: bool) -> None:
        """Counts a new row."""
        self.new += 1
        if hidden:
            self.hidden += 1
            return
        self.said += 1
        self.calls += contents.calls
        self.results += contents.results
        self.images += contents.images

    def add_known(self, *, hidden: bool) -> None:
        """Counts a row that is stored already."""
        self.known += 1
        self.said += not hidden

    def seen_at(self, at: int | None) -> None:
        """Widens the time range."""
        if at is not None:
            self.earliest = at if self.earliest is None else min(self.earliest, at)
            self.latest = at if self.latest is None else max(self.latest, at)

    def note(self, text: str) -> None:
        """Keeps a remark, once and up to a bound."""
        if text not in self.notes and len(self.notes) < _MOST_NOTES:
            self.notes.append(text)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class FileReport:
    """One file of the source. ``broken`` are the first places that cannot be read, ``broken_count`` all.

    ``repeats`` counts what repeats other records and ``dropped`` what hosts write in bulk, both left out, by kind.
    ``unfinished`` is the number of a last line that is still being written; 0 when there is none.
    """

    path: str
    format: str
    conversations: list[ConversationReport] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    broken_count: int = 0
    repeats: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    unfinished: int = 0

    def begin(self, source: SourceConversation, keys: Keys) -> ConversationReport:
        """Adds an empty report about a conversation."""
        one = ConversationReport.of(source, keys)
        self.conversations.append(one)
        return one

    def add_broken(self, broken: Broken) -> None:
        """Notes a place that cannot be read."""
        self.broken_count += 1
        if len(self.broken) < _MOST_BROKEN:
            self.broken.append(broken)

    def place(self, broken: Broken) -> str:
        """``chat.jsonl, line 7: …``"""
        where = f"{self.path}, line {broken.line}" if broken.line else self.path
        return f"{where}: {broken.reason}"

    def total(self, name: str) -> int:
        """The sum of a count over all conversations."""
        return sum(getattr(one, name) for one in self.conversations)

    @property
    def records(self) -> int:
        """Rows of all conversations, new and known."""
        return self.total("records")

    @property
    def has_talk(self) -> bool:
        """Whether there is anything to store: a message, or in a file that is read with another one nothing at all."""
        return any(one.said or one.summaries for one in self.conversations) or not self.conversations

    @property
    def why_left_out(self) -> str:
        """Why a file without talk is not stored."""
        return f"read as {self.format}, none of its {self.records:,} records is a message"

    @property
    def names(self) -> set[str]:
        """The source's sessions."""
        return {one.session for one in self.conversations}

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "path": self.path,
            "format": self.format,
            "new": self.total("new"),
            "known": self.total("known"),
            "messages": self.total("messages"),
            "hidden": self.total("hidden"),
            "calls": self.total("calls"),
            "results": self.total("results"),
            "images": self.total("images"),
            "tokens": self.total("tokens"),
            "summaries": self.total("summaries"),
            "broken": [self.place(one) for one in self.broken],
            "broken_count": self.broken_count,
            "repeats": dict(self.repeats),
            "dropped": dict(self.dropped),
            "unfinished_line": self.unfinished or None,
            "sessions": [one.as_dict() for one in self.conversations],
        }


@dataclass(frozen=True, slots=True)
class Keys:
    """Makes session keys. ``{id}`` in the ``template`` that a person gave is the source's session id."""

    format: str
    template: str = ""

    def of(self, source: SourceConversation) -> str:
        """A conversation's key: as asked for, else the source's own, else one of the format and its id."""
        base = self._base(source.name, source.key)
        return f"{base}:sub:{source.sub}" if source.sub else base

    def of_other(self, source: SourceConversation, name: str) -> str:
        """The key of a session that a conversation names; empty when it names none."""
        return self._base(name, name if source.key else "") if name else ""

    def check(self, names: Iterable[str]) -> None:
        """Raises `InputError` when one key is asked for and there is more than one session."""
        count = len(set(names))
        if self.template and ID not in self.template and count > 1:
            raise InputError(
                f"--session {self.template!r} is one key, and there are {count} sessions to import: "
                f"put {ID} into it, or leave it out"
            )

    def _base(self, name: str, own: str) -> str:
        if self.template:
            return self.template.replace(ID, name)
        return own or f"agent:{self.format}:{name}"
