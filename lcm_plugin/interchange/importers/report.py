"""The report of an import, and the session keys under which its conversations are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.records import Broken, SourceConversation

ID = "{id}"
_MOST_BROKEN = 100
_MOST_NOTES = 50


@dataclass(slots=True)
class ConversationReport:
    """One conversation of the source. ``new`` and ``known`` count its rows, ``hidden`` those no model is shown."""

    key: str
    source_id: str
    kind: str
    session: str = ""
    title: str = ""
    parent: str = ""
    new: int = 0
    known: int = 0
    hidden: int = 0
    tokens: int = 0
    summaries: int = 0
    earliest: int | None = None
    latest: int | None = None
    conversation_id: int | None = None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, source: SourceConversation, keys: Keys) -> ConversationReport:
        """An empty report about a conversation."""
        kind = "branch" if source.branch else "sub-agent" if source.sub or source.parent else "session"
        key, parent = keys.of(source), keys.of_parent(source)
        return cls(key, source.source_id, kind, source.name, source.title, parent)

    @property
    def records(self) -> int:
        """Rows, new and known."""
        return self.new + self.known

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
    """One file of the source. ``broken`` are the first places that cannot be read, ``broken_count`` all."""

    path: str
    format: str
    conversations: list[ConversationReport] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    broken_count: int = 0
    repeats: Counter[str] = field(default_factory=Counter)

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

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "path": self.path,
            "format": self.format,
            "new": self.total("new"),
            "known": self.total("known"),
            "hidden": self.total("hidden"),
            "tokens": self.total("tokens"),
            "summaries": self.total("summaries"),
            "broken": [self.place(one) for one in self.broken],
            "broken_count": self.broken_count,
            "repeats": dict(self.repeats),
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

    def of_parent(self, source: SourceConversation) -> str:
        """The key of the session for which a sub-agent worked; empty when it is none."""
        return self._base(source.parent, source.parent if source.key else "") if source.parent else ""

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
