"""LibreChat's JSON exports of a conversation, with or without branches, as a list or as a tree."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.json_files import json_objects
from lcm_plugin.interchange.importers.records import (
    Broken,
    Entry,
    Record,
    SourceConversation,
    content_id,
    rest_of,
)
from lcm_plugin.interchange.importers.sources.exports.steps import Piece, steps
from lcm_plugin.interchange.importers.sources.tree import Tree
from lcm_plugin.messages.identity import told_time

NAME = "librechat"
_USED = (
    "messageId",
    "parentMessageId",
    "text",
    "content",
    "children",
    "isCreatedByUser",
    "createdAt",
    "sender",
)


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is of this format."""
    return (
        isinstance(first, dict)
        and "conversationId" in first
        and (isinstance(first.get("messages"), list) or isinstance(first.get("messagesTree"), list))
        and ("exportAt" in first or "endpoint" in first)
    )


def read(path: Path) -> Iterator[Record]:
    """The records of an export: the branch that was written last, then the others."""
    for line in json_objects(path):
        if line.error:
            yield Broken(line.number, line.error)
        else:
            yield from _conversation(line.value, path)


def _conversation(value: Mapping[str, Any], path: Path) -> Iterator[Record]:
    name = str(value.get("conversationId") or path.stem)
    messages: dict[str, Mapping[str, Any]] = {}
    tree = Tree()
    for message in _flat(value.get("messagesTree") or value.get("messages") or []):
        own = str(message.get("messageId") or content_id(len(messages), message))
        parent = message.get("parentMessageId")
        if tree.add(own, str(parent) if parent else None, 0, len(messages) + 1):
            messages[own] = message
    everything = set(range(len(tree.ids)))
    tree.link_lost(list(range(len(tree.ids))))
    newest = max(
        everything,
        key=lambda at: (told_time({"time": messages[tree.ids[at]].get("createdAt")}) or 0, at),
        default=None,
    )
    live = tree.path(newest) if newest is not None else []
    title = value.get("title")
    yield SourceConversation(
        name,
        title=title if isinstance(title, str) else "",
        about=rest_of(value, "messages", "messagesTree", "conversationId", "title"),
    )
    yield from (entry for at in live for entry in _entries(tree.ids[at], messages[tree.ids[at]]))
    for chain in tree.branches(set(live), everything):
        yield tree.branch_of(chain[0], name)
        yield from (entry for at in chain for entry in _entries(tree.ids[at], messages[tree.ids[at]]))


def _flat(messages: list[Any]) -> Iterator[Mapping[str, Any]]:
    waiting = list(reversed(messages))
    while waiting:
        message = waiting.pop()
        if isinstance(message, dict):
            yield message
            children = message.get("children")
            waiting += reversed(children) if isinstance(children, list) else []


def _entries(own: str, message: Mapping[str, Any]) -> Iterator[Entry]:
    at = told_time({"time": message.get("createdAt")})
    about = rest_of(message, *_USED)
    extras: tuple[tuple[str, Mapping[str, Any]], ...] = (("agent", about),) if about else ()
    sender = str(message["sender"]) if message.get("sender") else None
    if message.get("isCreatedByUser"):
        text = message.get("text") or _words(message.get("content"))
        yield Entry(own, {"role": "user", "content": text}, at, False, sender, extras)
        return
    parts = [part for part in message.get("content") or [] if isinstance(part, dict)]
    parts = parts or [{"type": "text", "text": message.get("text") or ""}]
    pieces = (_piece(part, f"{own}:{number}") for number, part in enumerate(parts))
    yield from steps(own, pieces, at, sender, extras)


def _piece(part: Mapping[str, Any], place: str) -> Piece:
    call = part.get("tool_call")
    if isinstance(call, dict):
        call_id = str(call.get("id") or place)
        block = {"type": "tool_use", "id": call_id, "name": _name(call), "input": _arguments(call)}
        return block, {"role": "tool", "tool_call_id": call_id, "content": _output(call)}
    if part.get("type") == "think":
        return {"type": "thinking", "thinking": str(part.get("think") or "")}, None
    text = _words([part])
    if not text and part.get("type") != "text":
        text = json.dumps(part, ensure_ascii=False)
    return {"type": "text", "text": text}, None


def _words(parts: Any) -> str:
    found = []
    for part in parts if isinstance(parts, list) else ():
        text = part.get("text", part.get("error")) if isinstance(part, dict) else None
        found.append(str(text.get("value") or "") if isinstance(text, dict) else str(text or ""))
    return "\n".join(one for one in found if one)


def _name(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    return str(
        call.get("name")
        or (function.get("name") if isinstance(function, dict) else "")
        or call.get("type")
        or ""
    )


def _arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    given = call.get("args", function.get("arguments") if isinstance(function, dict) else None)
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return {"arguments": given}
    return given if isinstance(given, dict) else {"arguments": given} if given else {}


def _output(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    output = call.get("output", function.get("output") if isinstance(function, dict) else None)
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
