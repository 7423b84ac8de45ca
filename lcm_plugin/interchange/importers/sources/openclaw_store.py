"""The sessions in a database of OpenClaw: their records, what stands beside them, and which are copies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lcm_plugin.interchange.importers.json_files import Line, decode_object
from lcm_plugin.interchange.importers.packed import unpacked_bytes
from lcm_plugin.interchange.importers.records import content_id
from lcm_plugin.store.foreign import ForeignDatabase

_WINDOW = ("session_id", "session_key", "created_at", "display_name", "spawned_by")
_NODE = (
    *("session_key", "current_session_id", "display_name", "label"),
    *("fork_source_session_key", "fork_source_session_id", "fork_source_entry_id"),
)
_OWN_COPY = re.compile(r"agent:[^:]+:internal-session-effects:")


class Events(Protocol):
    """The events of a session, in order, and one of them by its place."""

    def __iter__(self) -> Iterator[Line]: ...

    def at(self, offset: int) -> dict[str, Any]:
        """The event at an offset that iterating gave."""


@dataclass(frozen=True, slots=True)
class About:
    """What stands beside a session's events. ``copied_until`` is the last entry that a fork copied."""

    key: str = ""
    title: str = ""
    parent: str = ""
    forked_from: str = ""
    copied_until: str = ""
    copied: frozenset[str] = frozenset()
    formerly: tuple[str, ...] = ()
    live: bool = True


def stored_sessions(database: ForeignDatabase) -> Iterator[tuple[StoredEvents, About | str]]:
    """Each session, a fork behind what it left, and what is known of it; what it is when it is but a copy."""
    windows = list(database.rows("session_windows", _WINDOW, order=("created_at",)))
    nodes = {row["session_key"]: row for row in database.rows("session_nodes", _NODE, order=("session_key",))}
    known = {row["session_id"] for row in windows}
    first = database.rows("transcript_events", ("session_id",), order=("session_id",), where={"seq": 0})
    windows += [{"session_id": row["session_id"]} for row in first if row["session_id"] not in known]
    formerly = _earlier_forms(database, windows, nodes)
    earlier = {name for names in formerly.values() for name in names}
    # A rewind makes what a fork left newer than the fork.
    for window in sorted(windows, key=lambda one: _forks_before(one.get("session_key"), nodes)):
        events = StoredEvents(database, str(window["session_id"]))
        if is_own_copy(str(window.get("session_key") or "")):
            yield events, "copy that OpenClaw made for itself"
        elif events.session in earlier:
            yield events, "copy from before a rewind"
        else:
            node = nodes.get(window.get("session_key"), {})
            yield events, _about(database, window, node, formerly.get(events.session, ()))


def _forks_before(key: Any, nodes: Mapping[Any, Mapping[str, Any]]) -> int:
    """How many sessions a session goes back to, fork by fork."""
    seen: list[Any] = []
    while key and key not in seen:
        seen.append(key)
        key = nodes.get(key, {}).get("fork_source_session_key")
    return len(seen)


def is_own_copy(session_key: str) -> bool:
    """Whether OpenClaw runs something of its own on a copy of a session under this key, and deletes it then."""
    return _OWN_COPY.match(session_key) is not None


def _earlier_forms(
    database: ForeignDatabase, windows: Iterable[Mapping[str, Any]], nodes: Mapping[Any, Mapping[str, Any]]
) -> dict[str, tuple[str, ...]]:
    """For a session those of the same key of which it holds every record: a rewind begins a session with copies."""
    of_key: dict[str, list[str]] = {}
    for window in windows:
        of_key.setdefault(str(window.get("session_key") or ""), []).append(str(window["session_id"]))
    found: dict[str, tuple[str, ...]] = {}
    for key, sessions in of_key.items():
        if not key or len(sessions) == 1:
            continue
        current = str(nodes.get(key, {}).get("current_session_id"))
        # The newest one last, which may be an earlier one that a person went back to.
        sessions.sort(key=lambda one: one == current)
        ids = {one: set(StoredEvents(database, one).ids()) for one in sessions}
        for place, one in enumerate(sessions):
            heir = next((later for later in sessions[:place:-1] if ids[one] <= ids[later]), None)
            if heir is not None:
                found[heir] = (*found.get(heir, ()), one)
    return found


class StoredEvents:
    """The events of a session in a database; larger ones are compressed there."""

    def __init__(self, database: ForeignDatabase, session: str) -> None:
        self._database = database
        self.session = session

    def __iter__(self) -> Iterator[Line]:
        for number, row in enumerate(self._rows({}), 1):
            value, error = decode_object(self._text(row))
            yield Line(number, row["seq"], value, error)

    def ids(self) -> Iterator[str]:
        """The ids of all records, the header apart."""
        return entry_ids(self)

    def at(self, offset: int) -> dict[str, Any]:
        """The event with a ``seq``."""
        return next((decode_object(self._text(row))[0] for row in self._rows({"seq": offset})), {})

    def _rows(self, where: dict[str, Any]) -> Iterator[dict[str, Any]]:
        columns = ("seq", "event_json", "event_zstd")
        here = {"session_id": self.session, **where}
        return self._database.rows("transcript_events", columns, order=("seq",), where=here)

    def _text(self, row: Mapping[str, Any]) -> bytes:
        if row["event_json"] is not None:
            return str(row["event_json"]).encode("utf-8", "surrogatepass")
        packed = row["event_zstd"]
        return unpacked_bytes(packed, self._database.path) if isinstance(packed, bytes) else b""


def _about(
    database: ForeignDatabase, window: Mapping[str, Any], node: Mapping[str, Any], formerly: tuple[str, ...]
) -> About:
    current, origin = node.get("current_session_id"), str(node.get("fork_source_session_id") or "")
    return About(
        key=str(window.get("session_key") or ""),
        title=str(window.get("display_name") or node.get("display_name") or node.get("label") or ""),
        parent=str(window.get("spawned_by") or ""),
        forked_from=str(node.get("fork_source_session_key") or ""),
        copied_until=str(node.get("fork_source_entry_id") or ""),
        copied=frozenset(StoredEvents(database, origin).ids()) if origin else frozenset(),
        formerly=formerly,
        live=current in (None, window["session_id"]),
    )


def entry_ids(lines: Events) -> Iterator[str]:
    """The ids of the records, the header apart."""
    for line in lines:
        if not line.error and line.value.get("type") != "session":
            yield links_of(line.value, line.number, None)[0]


def links_of(record: Mapping[str, Any], number: int, previous: str | None) -> tuple[str, str | None]:
    """A record's id and its parent's; first versions have none and form one line."""
    own = record.get("id")
    if isinstance(own, str) and own:
        parent = record.get("parentId")
        return own, parent if isinstance(parent, str) else None
    return content_id(number, record), previous
