"""Claude.ai's data export: ``conversations.json``, alone or inside its zip. Each conversation lists its messages.

A message may name the one before it; where it does, an edited one begins a branch. What was attached stands in the
message as text that was extracted from it.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.json_files import array_elements
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

NAME = "claude-ai"
_MEMBER = "conversations.json"
_HEAD_BYTES = 65_536
_USED = (
    "uuid",
    "text",
    "content",
    "sender",
    "created_at",
    "attachments",
    "files",
    "parent_message_uuid",
    "updated_at",
)


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is of this format."""
    return isinstance(first, dict) and isinstance(first.get("chat_messages"), list)


def holds_export(path: Path) -> bool:
    """Whether a zip file holds an export."""
    try:
        with zipfile.ZipFile(path) as archive:
            member = next((name for name in archive.namelist() if Path(name).name == _MEMBER), None)
            if member is None:
                return False
            with archive.open(member) as file:
                return b'"chat_messages"' in file.read(_HEAD_BYTES)
    except (OSError, zipfile.BadZipFile):
        return False


def read(path: Path) -> Iterator[Record]:
    """The records of an export."""
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            yield from _conversations(file, str(path))
        return
    with zipfile.ZipFile(path) as archive:
        for member in (name for name in archive.namelist() if Path(name).name == _MEMBER):
            with archive.open(member) as file:
                yield from _conversations(file, f"{path}/{member}")


def _conversations(file: IO[bytes], name: str) -> Iterator[Record]:
    number = 0
    try:
        for number, value in enumerate(array_elements(file, name), 1):
            if isinstance(value, dict) and isinstance(value.get("chat_messages"), list):
                yield from _conversation(value, number)
            else:
                yield Broken(0, f"item {number} is no conversation")
    except InputError as error:
        yield Broken(0, f"{error} (item {number + 1})")


def _conversation(value: Mapping[str, Any], number: int) -> Iterator[Record]:
    name = str(value.get("uuid") or f"item-{number}")
    tree, messages = Tree(), dict[str, Mapping[str, Any]]()
    for message in value["chat_messages"]:
        if isinstance(message, dict):
            own = str(message.get("uuid") or content_id(len(messages), message))
            parent = message.get("parent_message_uuid")
            if tree.add(own, str(parent) if parent else None, 0, len(messages) + 1):
                messages[own] = message
    everything = list(range(len(tree.ids)))
    tree.link_lost(everything)
    live = tree.path(everything[-1]) if everything else []
    started = told_time({"time": value.get("created_at")})
    yield SourceConversation(
        name,
        title=str(value.get("name") or ""),
        started_at=started,
        about=rest_of(value, "uuid", "name", "chat_messages", "created_at"),
    )
    yield from (entry for at in live for entry in _entries(tree.ids[at], messages[tree.ids[at]]))
    for chain in tree.branches(set(live), set(everything)):
        yield tree.branch_of(chain[0], name)
        yield from (entry for at in chain for entry in _entries(tree.ids[at], messages[tree.ids[at]]))


def _entries(own: str, message: Mapping[str, Any]) -> Iterator[Entry]:
    at, about = told_time({"time": message.get("created_at")}), rest_of(message, *_USED)
    extras = (("agent", about),) if about else ()
    listed = message.get("content")
    content = [block for block in listed if isinstance(block, dict)] if isinstance(listed, list) else []
    content = content or [{"type": "text", "text": str(message.get("text") or "")}]
    if message.get("sender") != "assistant":
        blocks = [block for block in content if block.get("type") == "text"]
        shown = [{"type": "text", "text": str(block.get("text") or "")} for block in blocks] + _attached(
            message
        )
        yield Entry(own, {"role": "user", "content": shown}, at, extras=extras)
        return
    waiting: list[str] = []
    pieces = (_piece(block, f"{own}:{number}", waiting) for number, block in enumerate(content))
    yield from steps(own, pieces, at, extras=extras)


def _attached(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The texts of what was attached, and the names of files that the export does not hold."""
    found = []
    for one in (*(message.get("attachments") or ()), *(message.get("files") or ())):
        if isinstance(one, dict):
            name, text = one.get("file_name") or "attachment", one.get("extracted_content")
            found.append({"type": "text", "text": f"[{name}]\n{text}" if text else f"[{name}]"})
    return found


def _piece(block: Mapping[str, Any], place: str, waiting: list[str]) -> Piece:
    kind = block.get("type")
    if kind == "tool_use":
        call_id = str(block.get("id") or place)
        waiting.append(call_id)
        given = block.get("input")
        call = {"type": "tool_use", "id": call_id, "name": str(block.get("name") or "")}
        return {**call, "input": given if isinstance(given, dict) else {}}, None
    if kind == "tool_result":
        answered = str(block.get("tool_use_id") or (waiting[0] if waiting else place))
        if answered in waiting:
            waiting.remove(answered)
        return None, {"role": "tool", "tool_call_id": answered, "content": block.get("content") or ""}
    if kind == "thinking":
        return {"type": "thinking", "thinking": str(block.get("thinking") or "")}, None
    return {"type": "text", "text": str(block.get("text") or "")}, None
