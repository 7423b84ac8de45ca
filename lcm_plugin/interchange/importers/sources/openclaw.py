"""OpenClaw's transcripts: ``~/.openclaw/agents/<agent>/sessions/<session>.jsonl``, and pi's, which are the same.

Newer versions keep the same events in ``~/.openclaw/agents/<agent>/agent/openclaw-agent.sqlite``.

A header line names the session; each later line has an id and the id of the line before it. The file's last line
is the newest leaf. A compaction's line holds its summary and the id of the first entry that it left as it was.
``sessions.json`` beside the files says which session key a session belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.json_files import LineFile
from lcm_plugin.interchange.importers.records import (
    Entry,
    ImportedCompaction,
    Record,
    Repeat,
    SourceConversation,
    aside,
    content_id,
    fault_of,
    rest_of,
)
from lcm_plugin.interchange.importers.sources.openclaw_store import (
    About,
    Events,
    entry_ids,
    links_of,
    stored_sessions,
)
from lcm_plugin.interchange.importers.sources.tree import Tree
from lcm_plugin.messages.blocks import awaits_answer
from lcm_plugin.messages.identity import told_time
from lcm_plugin.store.foreign import ForeignDatabase, is_sqlite
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


def recognises_database(database: ForeignDatabase) -> bool:
    """Whether a database is an agent's of OpenClaw."""
    return database.has("transcript_events", "session_id", "seq", "event_json")


def read(path: Path) -> Iterator[Record]:
    """The records of a file or a database: of each session the live branch, then the abandoned ones."""
    if not is_sqlite(path):
        with LineFile(path) as lines:
            yield from _session(lines, path.stem, partial(_beside, path))
        return
    with ForeignDatabase(path) as database:
        for events, about in stored_sessions(database):
            if isinstance(about, About):
                yield from _session(events, events.session, partial(_told, about))
            else:
                yield from (Repeat(about) for _ in events)


def _told(about: About, header: Mapping[str, Any], name: str) -> About:
    return about


def _beside(path: Path, header: Mapping[str, Any], name: str) -> About:
    """What the list of sessions and the header of a file say; a fork copies entries under their ids."""
    origin = Path(str(header.get("parentSession") or header.get("branchedFrom") or ""))
    file = origin if origin.is_absolute() and origin.is_file() else path.with_name(f"{origin.stem}.jsonl")
    copied = frozenset[str]()
    if origin.name and file.is_file():
        with LineFile(file) as lines:
            copied = frozenset(entry_ids(lines))
    return About(_key_of(path, name), forked_from=origin.stem, copied=copied)


def _session(lines: Events, stem: str, beside: Callable[[Mapping[str, Any], str], About]) -> Iterator[Record]:
    tree, speaks, header = Tree(), set[int](), dict[str, Any]()
    resets: dict[int, str] = {}
    loose: list[tuple[int, int]] = []
    leaf: str | None = None
    previous: str | None = None
    for line in lines:
        if line.error:
            yield fault_of(line)
            continue
        if line.value.get("type") == "session" and not header:
            header = line.value
            continue
        record_id, parent = links_of(line.value, line.number, previous)
        if tree.add(record_id, parent, line.offset, line.number):
            previous = leaf = record_id
            if line.value.get("type") == "leaf" and isinstance(line.value.get("targetId"), str):
                leaf = str(line.value["targetId"])
            if line.value.get("type") in ("message", "custom_message", "branch_summary"):
                speaks.add(len(tree.ids) - 1)
            elif line.value.get("type") == "reset":
                resets[len(tree.ids) - 1] = str(line.value.get("firstKeptEntryId") or record_id)
        elif lines.at(tree.offsets[tree.index[record_id]]) == line.value:
            yield Repeat("line seen before")
        else:
            loose.append((line.number, line.offset))
    tree.link_lost(range(len(tree.ids)))
    name = str(header.get("id") or stem)
    about = beside(header, name)
    live = set(tree.path(tree.index[leaf])) if leaf in tree.index else set()
    shown, branches = tree.split(live, set(range(len(tree.ids))), speaks)
    until = tree.index.get(about.copied_until, -1)
    copied = set(range(until + 1)) | {tree.index[one] for one in about.copied if one in tree.index}
    main = SourceConversation(
        name,
        key=about.key,
        title=about.title,
        started_at=told_time(header),
        project=str(header.get("cwd") or ""),
        parent=about.parent,
        forked_from=(about.forked_from,) if about.forked_from else (),
        formerly=about.formerly,
        about=rest_of(header, "type", "id", "timestamp"),
    )
    names: dict[str, str] = {}
    # A reset may keep the newest entries, which begin the new conversation then.
    begins = sorted({0} | {tree.index.get(kept, at) for at, kept in resets.items() if at in live})
    for begin, end in pairwise([*begins, len(tree.ids)]):
        since = tree.ids[begin] if begin else ""
        yield replace(main, since=since, live=about.live and end == len(tree.ids))
        yield from _records(lines, tree, [at for at in shown if begin <= at < end], copied, names)
    for number, offset in loose:
        record = lines.at(offset)
        yield aside(content_id(number, record), "agent", record, told_time(record), f"line {number}")
    for members in branches:
        left = max((begin for begin in begins if begin < members[0]), default=0)
        since = tree.ids[left] if left else ""
        branch = tree.branch_of(members[0], name, key=about.key)
        yield replace(branch, since=since, formerly=about.formerly)
        yield from _records(lines, tree, members, copied, names)


def _records(
    lines: Events, tree: Tree, members: list[int], copied: set[int], names: dict[str, str]
) -> Iterator[Record]:
    last = ""
    before: dict[str, str] = {}
    by_number: dict[int, str] = {}
    for at in members:
        record_id, record = tree.ids[at], lines.at(tree.offsets[at])
        before[record_id], by_number[tree.numbers[at]] = last, record_id
        entry = _entry(record_id, record, f"line {tree.numbers[at]}")
        entry = replace(entry, inherited=at in copied) if copied else entry
        # A message that OpenClaw wrote anew, shortened, has the name of the one that it stands for.
        if names.setdefault(entry.host_id, record_id) != record_id:
            entry = replace(entry, id=record_id, former_id="")
        if record.get("type") == "compaction" and isinstance(record.get("summary"), str):
            through = before.get(_first_kept(record, by_number), last)
            if through:
                yield ImportedCompaction(record["summary"], through, entry)
            else:
                yield entry
        else:
            yield entry
        last = entry.host_id


def _first_kept(record: Mapping[str, Any], by_number: Mapping[int, str]) -> str:
    """The first entry that a compaction left: by its id, in first versions by its place in the file, header and all."""
    index = record.get("firstKeptEntryIndex")
    if isinstance(index, int) and "firstKeptEntryId" not in record:
        return by_number.get(index + 1, "")
    return str(record.get("firstKeptEntryId"))


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
        name, former = message_name(message), record_id
        if not name:
            name, former = record_id, ""
        return Entry(name, shown, said_at or at, hidden, sender, extras, place, former_id=former)
    if kind in ("custom_message", "branch_summary", "compaction"):
        content = record.get("content", record.get("summary"))
        if content:
            shown, extras, _ = from_openclaw({"role": "user", "content": content})
            about = rest_of(record, "id", "parentId", "content", "summary")
            part = _PART_TYPES.get(kind, "agent")
            return Entry(record_id, shown, at, extras=(*extras, (part, about)), place=place)
    return aside(record_id, _PART_TYPES.get(kind, "agent"), record, at, place)


def message_name(message: Mapping[str, Any]) -> str:
    """What a message is called when OpenClaw commits it, whenever it lists it, and in its database; empty without such.

    The same in all three: what the plugin stored as it was said is not imported again. OpenClaw changes ids of calls.
    """
    call = "".join(filter(str.isalnum, str(message.get("toolCallId") or "")))
    told = message.get("idempotencyKey") or message.get("responseId") or call
    at = message.get("timestamp")
    return f"{at}/{told}" if at and told else ""


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
        used: tuple[str, ...] = ("role", "toolCallId", "tool_call_id", "content")
        name = message.get("toolName") or message.get("tool_name")
        if real := _called_through(message):
            # The name of the call stays beside it.
            shown["name"] = real
        else:
            shown |= {"name": name} if name else {}
            used = (*used, "toolName", "tool_name")
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


def _called_through(message: Mapping[str, Any]) -> str:
    """The tool that a model called through OpenClaw's ``tool_call``, by what is noted beside its result."""
    details = message.get("details")
    tool = details.get("tool") if isinstance(details, Mapping) else None
    name = tool.get("name") if isinstance(tool, Mapping) else None
    return name if message.get("toolName") == "tool_call" and isinstance(name, str) else ""


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
