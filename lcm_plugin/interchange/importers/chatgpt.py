"""ChatGPT's data export: ``conversations.json``, alone or inside its zip.

Each conversation is a ``mapping`` of nodes with parents; ``current_node`` is the leaf that was shown last, all other
leaves are edits and regenerated answers. Calls of ChatGPT's own tools have no ids there; a node's id stands in.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.chatgpt_content import Assets, content_of, is_call
from lcm_plugin.interchange.importers.json_array import array_elements
from lcm_plugin.interchange.importers.records import Broken, Entry, Lane, Record, aside, rest_of
from lcm_plugin.interchange.importers.tree import Tree
from lcm_plugin.messages.identity import told_time
from lcm_plugin.types import Message

NAME = "chatgpt"
MEMBER = "conversations.json"
_ROLES = frozenset({"user", "assistant", "system", "tool"})


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is of this format."""
    if isinstance(first, list):
        first = first[0] if first else None
    return isinstance(first, dict) and isinstance(first.get("mapping"), dict)


def holds_export(path: Path) -> bool:
    """Whether a zip file holds an export."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(Path(name).name == MEMBER for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def read(path: Path) -> Iterator[Record]:
    """The records of an export."""
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            yield from _conversations(file, str(path), Assets())
        return
    with zipfile.ZipFile(path) as archive:
        member = next((name for name in archive.namelist() if Path(name).name == MEMBER), None)
        if member is None:
            yield Broken(0, f"there is no {MEMBER} in the archive")
            return
        with archive.open(member) as file:
            yield from _conversations(file, f"{path}/{member}", Assets(archive))


def _conversations(file: IO[bytes], name: str, assets: Assets) -> Iterator[Record]:
    number = 0
    try:
        for number, value in enumerate(array_elements(file, name), 1):
            if isinstance(value, dict) and isinstance(value.get("mapping"), dict):
                yield from _conversation(value, number, assets)
            else:
                yield Broken(0, f"item {number} is no conversation")
    except InputError as error:
        yield Broken(0, f"{error} (item {number + 1})")


def _conversation(value: Mapping[str, Any], number: int, assets: Assets) -> Iterator[Record]:
    mapping = {str(key): node for key, node in value["mapping"].items() if isinstance(node, dict)}
    order = sorted(mapping, key=lambda key: told_order(mapping[key]))
    tree = Tree()
    for key in _parents_first(mapping, order):
        parent = mapping[key].get("parent")
        tree.add(key, parent if isinstance(parent, str) else None, 0, 0)
    current = value.get("current_node")
    leaf = tree.index.get(str(current), len(tree.ids) - 1)
    path = tree.path(leaf) if tree.ids else []
    name = str(value.get("conversation_id") or value.get("id") or f"item-{number}")
    started, title = told_time({"time": value.get("create_time")}), value.get("title")
    yield Lane(
        name,
        title=title if isinstance(title, str) else "",
        started_at=started,
        about=rest_of(value, "mapping", "title", "current_node", "conversation_id", "id"),
    )
    yield from (_record(tree.ids[at], mapping, assets) for at in path if mapping[tree.ids[at]].get("message"))
    for chain in tree.branches(set(path), set(range(len(tree.ids)))):
        said = [tree.ids[at] for at in chain if mapping[tree.ids[at]].get("message")]
        if said:
            fork = tree.parents[chain[0]] or ""
            yield Lane(name, branch=said[0], live=False, started_at=started, about={"branch_of": fork})
            yield from (_record(key, mapping, assets) for key in said)


def told_order(node: Mapping[str, Any]) -> float:
    """When a node was written, for ordering; nodes without a time come first."""
    message = node.get("message")
    at = message.get("create_time") if isinstance(message, dict) else None
    return float(at) if isinstance(at, (int, float)) else 0.0


def _parents_first(mapping: Mapping[str, Mapping[str, Any]], order: list[str]) -> Iterator[str]:
    done: set[str] = set()
    for start in order:
        waiting: list[str] = []
        key: Any = start
        while isinstance(key, str) and key in mapping and key not in done:
            done.add(key)
            waiting.append(key)
            key = mapping[key].get("parent")
        yield from reversed(waiting)


def _record(key: str, mapping: Mapping[str, Mapping[str, Any]], assets: Assets) -> Record:
    message = mapping[key]["message"]
    author = message.get("author") if isinstance(message, dict) else None
    if not isinstance(author, dict) or author.get("role") not in _ROLES:
        return aside(key, "agent", {"node": mapping[key]})
    role, at = str(author["role"]), told_time({"time": message.get("create_time")})
    about = rest_of(message, "author", "content", "create_time")
    metadata = message.get("metadata")
    unseen = isinstance(metadata, dict) and bool(metadata.get("is_visually_hidden_from_conversation"))
    content, reasoning, raw = content_of(message.get("content"), assets)
    if raw:
        about["content"] = raw
    shown: Message = {"role": role, "content": content}
    if reasoning:
        shown["reasoning_content"] = reasoning
    if role == "assistant" and is_call(message):
        call = {"name": str(message["recipient"]), "arguments": content if isinstance(content, str) else ""}
        shown = {**shown, "content": None, "tool_calls": [{"id": key, "type": "function", "function": call}]}
    elif role == "tool":
        shown["name"] = str(author.get("name") or "")
        shown["tool_call_id"] = _call_above(key, mapping)
    sender = author.get("name") if role != "tool" and isinstance(author.get("name"), str) else None
    # System nodes are placeholders of the site, not the prompt of a next model call.
    unknown = isinstance(content, list) and [block["type"] for block in content] == ["agent"]
    hidden = unseen or unknown or role == "system"
    return Entry(key, shown, at, hidden, sender, (("agent", about),) if about else ())


def _call_above(key: str, mapping: Mapping[str, Mapping[str, Any]]) -> str:
    """The node of the call that a tool's node answers; the tool may have said several things in a row."""
    seen: set[str] = set()
    at: Any = mapping[key].get("parent")
    while isinstance(at, str) and at in mapping and at not in seen:
        seen.add(at)
        message = mapping[at].get("message")
        author = message.get("author") if isinstance(message, dict) else None
        role = author.get("role") if isinstance(author, dict) else None
        if isinstance(message, dict) and role == "assistant" and is_call(message):
            return at
        if role != "tool":
            break
        at = mapping[at].get("parent")
    return ""
