"""The records that an importer reads from a file of another tool, as one stream.

It yields conversations one after the other; what follows a `SourceConversation` belongs to it until the next one.
Times are milliseconds since the epoch, None where the source gives none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, TypeAlias

from lcm_plugin.characters import storable
from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.json_files import Line
from lcm_plugin.store.lineage import depths_from_lineage
from lcm_plugin.store.records import PART_TYPES
from lcm_plugin.types import Message


@dataclass(frozen=True, slots=True)
class SourceConversation:
    """A session of the source, a sub-agent's session (``sub``), or an abandoned ``branch`` of one.

    ``name`` is the source's own id of the session and ``key`` the session key, where the source has one.
    ``parent`` is the session that a sub-agent worked for, as name or key. ``forked_from`` names the session that it
    began as a copy of, or all that begin as it does where the source does not say which is the copy. ``formerly`` are
    the names of earlier forms of this session, of which it holds all. ``since`` is the record behind which a person had
    the same session begin anew. Only one conversation of a key is ``live``.
    ``whole`` asks for one transaction, since summaries with their sources follow.
    ``project`` is the folder or repository that it is about, ``version`` that of the tool.
    """

    name: str
    sub: str = ""
    branch: str = ""
    key: str = ""
    title: str = ""
    project: str = ""
    version: str = ""
    started_at: int | None = None
    parent: str = ""
    forked_from: tuple[str, ...] = ()
    formerly: tuple[str, ...] = ()
    since: str = ""
    live: bool = True
    whole: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """``session``, ``branch``, ``sub-agent`` or ``fork``."""
        if self.branch:
            return "branch"
        return "sub-agent" if self.sub or self.parent else "fork" if self.forked_from else "session"

    @property
    def source_id(self) -> str:
        """The id of this conversation in its source, the same in every run."""
        parts = (("/", self.sub), ("@", self.since), ("#", self.branch))
        return self.name + "".join(f"{mark}{part}" for mark, part in parts if part)


@dataclass(frozen=True, slots=True)
class Entry:
    """A message, or with ``hidden`` a record that no model is shown.

    ``id`` is stable over runs. ``extras`` are the record's other data, by part type; ``place`` says where
    it stood. ``bulk`` names a record that the host could write again at any time, such as a copy of a request; an
    import leaves it out unless it is asked to keep it. ``inherited`` marks what a fork copied: under its first id, and
    stored only where no session holds it that the fork descends from. ``former_id`` is what earlier imports called it.
    """

    id: str
    message: Message
    at: int | None = None
    hidden: bool = False
    sender: str | None = None
    extras: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    place: str = ""
    bulk: str = ""
    inherited: bool = False
    former_id: str = ""

    @property
    def host_id(self) -> str:
        """The id under which the row is stored: as `messages.identity.host_id_of` makes it."""
        return storable(f"{self.message['role']}:{self.id}")

    @property
    def host_ids(self) -> tuple[str, ...]:
        """All ids under which it may be stored already."""
        former = storable(f"{self.message['role']}:{self.former_id}")
        return (self.host_id, former) if self.former_id else (self.host_id,)

    def is_in(self, known: Set[str]) -> bool:
        """Whether it is stored, by the ids that are."""
        return not known.isdisjoint(self.host_ids)


@dataclass(frozen=True, slots=True)
class ImportedCompaction:
    """A summary that a compaction of the source made of all before it, up to and with ``through``.

    ``entry`` is the source's record; it is stored as it is when there is nothing to replace.
    """

    text: str
    through: str
    entry: Entry


@dataclass(frozen=True, slots=True)
class SummaryNode:
    """A summary of a source that keeps a DAG. ``sources`` are stored ids of messages, or ids of nodes.

    ``fallback`` marks a text that was written because a model failed.
    """

    id: str
    depth: int
    text: str
    sources: tuple[str, ...]
    at: int | None = None
    model: str = ""
    fallback: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ActiveContext:
    """The source's own context, as stored ids and node ids; other items were pruned there."""

    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Broken:
    """A place that cannot be read. ``line`` counts from 1; 0 where lines mean nothing."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The last line of a log that somebody is writing: it is left for the next import."""

    line: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """A record that repeats another one and is left out."""

    kind: str


ConversationRecord: TypeAlias = Entry | ImportedCompaction | SummaryNode | ActiveContext
Record: TypeAlias = SourceConversation | ConversationRecord | Broken | Unfinished | Repeat


def fault_of(line: Line) -> Broken | Unfinished:
    """What is wrong with a line of a log that its program appends to."""
    return Unfinished(line.number) if line.unfinished else Broken(line.number, line.error)


def aside(
    source_id: str, part_type: str, record: Mapping[str, Any], at: int | None = None, place: str = ""
) -> Entry:
    """A record that is no message, as a hidden row with one typed part."""
    block = {"type": part_type if part_type in PART_TYPES else "agent", "record": dict(record)}
    return Entry(source_id, {"role": "assistant", "content": [block]}, at, hidden=True, place=place)


def content_id(place: int | str, value: Any) -> str:
    """An id for a record without one: its place in an append-only file and a hash of its content."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return f"{place}:{blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


def rest_of(record: Mapping[str, Any], *used: str) -> dict[str, Any]:
    """A record without the keys that a message was made of, and without empty values."""
    return {
        key: value for key, value in record.items() if key not in used and value not in (None, "", [], {})
    }


def node_depths(
    lineage: Mapping[str, Sequence[str]], leaves: Set[str], rows: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, int], str]:
    """Each node's depth by the nodes that it was made from; where these form a loop the stored depths, and why."""
    try:
        return depths_from_lineage(lineage, frozenset(leaves)), ""
    except InputError as error:
        return {key: int(row["depth"] or 0) for key, row in rows.items()}, str(error)
