"""What an import found and did, for people and programs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from lcm_plugin.interchange.importers.records import Broken, Lane

_MOST_BROKEN = 100
_MOST_NOTES = 50


@dataclass(slots=True)
class LaneReport:
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
    def of(cls, lane: Lane, key: str, parent: str = "") -> LaneReport:
        """An empty report about a lane."""
        kind = "branch" if lane.branch else "sub-agent" if lane.sub or lane.parent else "session"
        return cls(key, lane.source_id, kind, lane.name, lane.title, parent)

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
    lanes: list[LaneReport] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    broken_count: int = 0
    repeats: Counter[str] = field(default_factory=Counter)

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
        """The sum of a count over all lanes."""
        return sum(getattr(lane, name) for lane in self.lanes)

    @property
    def records(self) -> int:
        """Rows of all lanes, new and known."""
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
            "sessions": [lane.as_dict() for lane in self.lanes],
        }
