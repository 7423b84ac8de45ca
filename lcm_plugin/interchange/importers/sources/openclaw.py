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

from lcm_plugin.interchange.importers.json_files import LineFile
from lcm_plugin.interchange.importers.records import (
    Broken,
    Entry,
    ImportedCompaction,
    Record,
    Repeat,
    SourceConversation,
    aside,
    content_id,
    rest_of,
)
from lcm_plugin.interchange.importers.sources.tree import Tree
from lcm_plugin.messages.blocks import awaits_answer
from lcm_plugin.messages.identity import told_time
from lcm_plugin.types import Message

NAME = "openclaw"
_PART_TYPES = {"compaction": "compaction", "branch_summary": "compaction", "leaf": "snapshot"}
_MAX_INDEX_BYTES = 64 * 1024 * 1024
_ENVELOPE = ("type", "id", "parentId", "message")
_ROLES = frozenset({"user", "assistant", "system", "developer", "tool"})
Extras = tuple[tuple[str, Mapping[str, Any]], ...]


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is of this format."""
    return isinstance(first, dict) and first.get("type") == "session" and isinstance(first.get("id"), str)


def read(path: Path) -> Iterator[Record]:
    """The records of a file: the live branch, then the abandoned ones."""
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
        shown, branches = tree.split(live, set(range(len(tree.ids))), speaks)
        parent_session = str(header.get("parentSession") or "")
        yield SourceConversation(
            name,
            key=_key_of(path, name),
            started_at=told_time(header),
            project=str(header.get("cwd") or ""),
            parent=Path(parent_session).stem if parent_session else "",
            about=rest_of(header, "type", "id", "timestamp"),
        )
        yield from _records(lines, tree, shown)
        for number, offset in loose:
            record = lines.at(offset)
            yield aside(content_id(number, record), "agent", record, told_time(record), f"line {number}")
        for members in branches:
            yield tree.branch_of(members[0], name, key=_key_of(path, name))
            yield from _records(lines, tree, members)


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
                yield ImportedCompaction(record["summary"], through, entry)
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


def from_openclaw(message: Mapping[str, Any]) -> tuple[Message, Extras, str | None]:
    """A message as models take it, its other data, and who wrote it."""
    role = str(message["role"])
    sender = _sender(message)
    if role in ("toolResult", "tool"):
        shown: Message = {
            "role": "tool",
            "tool_call_id": str(message.get("toolCallId") or message.get("tool_call_id") or ""),
            "content": _content(message.get("content")),
        }
        if name := message.get("toolName") or message.get("tool_name"):
            shown["name"] = name
        used: tuple[str, ...] = ("role", "toolCallId", "tool_call_id", "toolName", "tool_name", "content")
    elif role == "bashExecution" and "command" in message:
        shown = {"role": "user", "content": _shell(message)}
        used = ("role", "command", "output")
    else:
        shown = {"role": role if role in _ROLES else "user", "content": _content(message.get("content"))}
        used = ("content",) if role not in _ROLES else ("role", "content")
        for key in ("tool_calls", "reasoning_content", "name"):
            if key in message:
                shown[key] = message[key]
                used = (*used, key)
    about = rest_of(message, *used)
    return shown, (("agent", about),) if about else (), sender


def _content(content: Any) -> Any:
    if isinstance(content, list):
        return [_block(block) if isinstance(block, dict) else block for block in content]
    return content if content is not None else ""


def _block(block: dict[str, Any]) -> dict[str, Any]:
    kind = block.get("type")
    if kind and awaits_answer(block):
        arguments = block.get("arguments", block.get("input", {}))
        if isinstance(arguments, str):
            arguments = _decoded(arguments)
        rest = rest_of(block, "type", "id", "name", "arguments", "input")
        return {
            "type": "tool_use",
            "id": block.get("id") or block.get("call_id") or "",
            "name": block.get("name", ""),
            "input": arguments,
            **rest,
        }
    if kind == "thinking" and "thinkingSignature" in block:
        rest = {key: value for key, value in block.items() if key != "thinkingSignature"}
        return {**rest, "signature": block["thinkingSignature"]}
    if kind == "image" and isinstance(block.get("data"), str):
        source = {"type": "base64", "media_type": block.get("mimeType", ""), "data": block["data"]}
        return {"type": "image", "source": source, **rest_of(block, "type", "data", "mimeType")}
    return block


def _decoded(arguments: str) -> Any:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return {"arguments": arguments}
    return value if isinstance(value, dict) else {"arguments": value}


def _shell(message: Mapping[str, Any]) -> str:
    return f"$ {message.get('command', '')}\n{message.get('output', '')}"


def _sender(message: Mapping[str, Any]) -> str | None:
    for key in ("senderName", "senderId", "sender"):
        value = message.get(key)
        if isinstance(value, dict):
            value = value.get("name") or value.get("id")
        if isinstance(value, (str, int)) and value != "":
            return str(value)
    return None
