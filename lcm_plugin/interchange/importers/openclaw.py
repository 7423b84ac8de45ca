"""OpenClaw's transcripts: ``~/.openclaw/agents/<agent>/sessions/<session>.jsonl``.

A header line names the session; each later line has an id and the id of the line before it. The file's last line
is the newest leaf. A compaction's line holds its summary and the id of the first entry that it left as it was.
``sessions.json`` beside the files says which session key a session belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.blocks import from_openclaw
from lcm_plugin.interchange.importers.lines import LineFile
from lcm_plugin.interchange.importers.records import (
    Broken,
    Entry,
    Fold,
    Lane,
    Record,
    Repeat,
    aside,
    content_id,
    rest_of,
)
from lcm_plugin.interchange.importers.tree import Tree
from lcm_plugin.messages.identity import told_time

NAME = "openclaw"
_PART_TYPES = {"compaction": "compaction", "branch_summary": "compaction", "leaf": "snapshot"}
_MAX_INDEX_BYTES = 64 * 1024 * 1024
_ENVELOPE = ("type", "id", "parentId", "message")


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is of this format."""
    return isinstance(first, dict) and first.get("type") == "session" and isinstance(first.get("id"), str)


def read(path: Path) -> Iterator[Record]:
    """The records of a file: the live branch, then the turned-away ones."""
    with LineFile(path) as lines:
        tree, speaks, header = Tree(), set[int](), dict[str, Any]()
        loose: list[tuple[int, int]] = []
        leaf: str | None = None
        previous: str | None = None
        for line in lines:
            if line.error:
                yield Broken(line.number, line.error)
                continue
            if line.value.get("type") == "session" and not header:
                header = line.value
                continue
            record_id, parent = _links(line.value, line.number, previous)
            if tree.add(record_id, parent, line.offset, line.number):
                previous = leaf = record_id
                if line.value.get("type") == "leaf" and isinstance(line.value.get("targetId"), str):
                    leaf = str(line.value["targetId"])
                if line.value.get("type") in ("message", "custom_message", "branch_summary"):
                    speaks.add(len(tree.ids) - 1)
            elif lines.at(tree.offsets[tree.index[record_id]]) == line.value:
                yield Repeat("line seen before")
            else:
                loose.append((line.number, line.offset))
        tree.link_lost(range(len(tree.ids)))
        name = str(header.get("id") or path.stem)
        live = set(tree.path(tree.index[leaf])) if leaf in tree.index else set()
        chains = list(tree.branches(live, set(range(len(tree.ids))) - live))
        silent = {at for chain in chains if not speaks & set(chain) for at in chain}
        parent_session = str(header.get("parentSession") or "")
        yield Lane(
            name,
            key=_key_of(path, name),
            started_at=told_time(header),
            parent=Path(parent_session).stem if parent_session else "",
            about=rest_of(header, "type", "id", "timestamp"),
        )
        yield from _records(lines, tree, sorted(live | silent))
        for number, offset in loose:
            record = lines.at(offset)
            yield aside(content_id(number, record), "agent", record, told_time(record), f"line {number}")
        for chain in chains:
            if chain[0] not in silent:
                fork = tree.parents[chain[0]] or ""
                yield Lane(
                    name,
                    branch=tree.ids[chain[0]],
                    key=_key_of(path, name),
                    live=False,
                    about={"branch_of": fork},
                )
                yield from _records(lines, tree, sorted(chain))


def _links(record: Mapping[str, Any], number: int, previous: str | None) -> tuple[str, str | None]:
    """A record's id and its parent's; first versions have none and form one line."""
    own = record.get("id")
    if isinstance(own, str) and own:
        parent = record.get("parentId")
        return own, parent if isinstance(parent, str) else None
    return content_id(number, record), previous


def _records(lines: LineFile, tree: Tree, members: list[int]) -> Iterator[Record]:
    last = ""
    before: dict[str, str] = {}
    for at in members:
        record_id, record = tree.ids[at], lines.at(tree.offsets[at])
        before[record_id] = last
        entry = _entry(record_id, record, f"line {tree.numbers[at]}")
        if record.get("type") == "compaction" and isinstance(record.get("summary"), str):
            through = before.get(str(record.get("firstKeptEntryId")), last)
            if through:
                yield Fold(record["summary"], through, entry)
            else:
                yield entry
        else:
            yield entry
        last = entry.host_id


def _entry(record_id: str, record: Mapping[str, Any], place: str) -> Entry:
    kind, at = str(record.get("type", "message")), told_time(record)
    message = record.get("message", record if "role" in record else None)
    if kind == "message" and isinstance(message, dict) and isinstance(message.get("role"), str):
        shown, extras, sender = from_openclaw(message)
        more = rest_of(record, *_ENVELOPE, *message) if message is record else rest_of(record, *_ENVELOPE)
        if more:
            extras = (*extras, ("agent", more))
        said_at = told_time(message)
        hidden = bool(message.get("excludeFromContext")) or _failed_empty(message)
        return Entry(record_id, shown, said_at or at, hidden, sender, extras, place)
    if kind in ("custom_message", "branch_summary", "compaction"):
        content = record.get("content", record.get("summary"))
        if content:
            shown, extras, _ = from_openclaw({"role": "user", "content": content})
            about = rest_of(record, "id", "parentId", "content", "summary")
            part = _PART_TYPES.get(kind, "agent")
            return Entry(record_id, shown, at, extras=(*extras, (part, about)), place=place)
    return aside(record_id, _PART_TYPES.get(kind, "agent"), record, at, place)


def _failed_empty(message: Mapping[str, Any]) -> bool:
    return message.get("stopReason") in ("error", "aborted") and not message.get("content")


def _key_of(path: Path, name: str) -> str:
    """The session key under which OpenClaw knows a session; empty when its list does not say."""
    listed = path.with_name("sessions.json")
    try:
        if listed.stat().st_size > _MAX_INDEX_BYTES:
            return ""
        sessions = json.loads(listed.read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    for key, about in sessions.items() if isinstance(sessions, dict) else ():
        if isinstance(about, dict) and about.get("sessionId") == name:
            return str(key)
    return ""
