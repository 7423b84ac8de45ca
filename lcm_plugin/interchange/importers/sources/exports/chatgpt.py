"""ChatGPT's data export: ``conversations.json``, or ``conversations-000.json`` and so on, alone or inside its zip.

Each conversation is a ``mapping`` of nodes with parents; ``current_node`` is the leaf that was shown last, all other
leaves are edits and regenerated answers. Calls of ChatGPT's own tools have no ids there; a node's id stands in.
"""

from __future__ import annotations

import base64
import glob
import mimetypes
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.json_files import array_elements
from lcm_plugin.interchange.importers.records import Broken, Entry, Record, SourceConversation, aside, rest_of
from lcm_plugin.interchange.importers.sources.tree import Tree
from lcm_plugin.messages.identity import told_time
from lcm_plugin.types import Message

NAME = "chatgpt"
_MEMBER = re.compile(r"conversations(-\d+)?\.json")
_ROLES = frozenset({"user", "assistant", "system", "tool"})
_MAX_ASSET_BYTES = 64 * 1024 * 1024
_POINTERS = ("file-service://", "sediment://")
_IMAGE_HEADS = ((b"\x89PNG", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is of this format."""
    return isinstance(first, dict) and isinstance(first.get("mapping"), dict)


def holds_export(path: Path) -> bool:
    """Whether a zip file holds an export."""
    try:
        with zipfile.ZipFile(path) as archive:
            return bool(_members(archive))
    except (OSError, zipfile.BadZipFile):
        return False


def read(path: Path) -> Iterator[Record]:
    """The records of an export."""
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            yield from _conversations(file, str(path), _Assets(folder=path.parent))
        return
    with zipfile.ZipFile(path) as archive:
        assets, members = _Assets(archive), _members(archive)
        if not members:
            yield Broken(0, "there is no conversations.json in the archive")
        for member in members:
            with archive.open(member) as file:
                yield from _conversations(file, f"{path}/{member}", assets)


def _members(archive: zipfile.ZipFile) -> list[str]:
    """The files of an archive that hold conversations."""
    return sorted(name for name in archive.namelist() if _MEMBER.fullmatch(Path(name).name))


def _conversations(file: IO[bytes], name: str, assets: _Assets) -> Iterator[Record]:
    number = 0
    try:
        for number, value in enumerate(array_elements(file, name), 1):
            if isinstance(value, dict) and isinstance(value.get("mapping"), dict):
                yield from _conversation(value, number, assets)
            else:
                yield Broken(0, f"item {number} is no conversation")
    except InputError as error:
        yield Broken(0, f"{error} (item {number + 1})")


def _conversation(value: Mapping[str, Any], number: int, assets: _Assets) -> Iterator[Record]:
    mapping = {str(key): node for key, node in value["mapping"].items() if isinstance(node, dict)}
    order = sorted(mapping, key=lambda key: _written_at(mapping[key]))
    tree = Tree()
    for key in _parents_first(mapping, order):
        parent = mapping[key].get("parent")
        tree.add(key, parent if isinstance(parent, str) else None, 0, 0)
    current = value.get("current_node")
    leaf = tree.index.get(str(current), len(tree.ids) - 1)
    path = tree.path(leaf) if tree.ids else []
    name = str(value.get("conversation_id") or value.get("id") or f"item-{number}")
    started, title = told_time({"time": value.get("create_time")}), value.get("title")
    yield SourceConversation(
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
            yield SourceConversation(
                name, branch=said[0], live=False, started_at=started, about={"branch_of": fork}
            )
            yield from (_record(key, mapping, assets) for key in said)


def _written_at(node: Mapping[str, Any]) -> float:
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


def _record(key: str, mapping: Mapping[str, Mapping[str, Any]], assets: _Assets) -> Record:
    message = mapping[key]["message"]
    author = message.get("author") if isinstance(message, dict) else None
    if not isinstance(author, dict) or author.get("role") not in _ROLES:
        return aside(key, "agent", {"node": mapping[key]})
    role, at = str(author["role"]), told_time({"time": message.get("create_time")})
    about = rest_of(message, "author", "content", "create_time")
    metadata = message.get("metadata")
    unseen = isinstance(metadata, dict) and bool(metadata.get("is_visually_hidden_from_conversation"))
    content, reasoning, raw = _content_of(message.get("content"), assets)
    if raw:
        about["content"] = raw
    shown: Message = {"role": role, "content": content}
    if reasoning:
        shown["reasoning_content"] = reasoning
    if role == "assistant" and _is_call(message):
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
        if isinstance(message, dict) and role == "assistant" and _is_call(message):
            return at
        if role != "tool":
            break
        at = mapping[at].get("parent")
    return ""


class _Assets:
    """Images and files that lie in an export beside its conversations: in its archive, or in its folder."""

    def __init__(self, archive: zipfile.ZipFile | None = None, folder: Path | None = None) -> None:
        self._archive = archive
        self._folder = folder
        self._members = {Path(info.filename).name: info for info in archive.infolist()} if archive else {}

    def data_url(self, pointer: str) -> str | None:
        """A file's bytes as a data URL; None when the export does not hold it."""
        name = next((pointer.removeprefix(head) for head in _POINTERS if pointer.startswith(head)), "")
        found = self._found(name) if name else None
        if found is None:
            return None
        file, data = found
        mime = mimetypes.guess_type(file)[0] or _mime_of(data)
        return f"data:{mime};base64,{base64.b64encode(data).decode()}"

    def _found(self, name: str) -> tuple[str, bytes] | None:
        """The name and the bytes of the file whose name begins with an id."""
        if self._archive is not None:
            info = next((info for file, info in self._members.items() if file.startswith(name)), None)
            small = info is not None and info.file_size <= _MAX_ASSET_BYTES
            return (info.filename, self._archive.read(info)) if info is not None and small else None
        files = self._folder.rglob(f"{glob.escape(name)}*") if self._folder else ()
        path = next((one for one in files if one.is_file() and one.stat().st_size <= _MAX_ASSET_BYTES), None)
        return (path.name, path.read_bytes()) if path else None


def _mime_of(data: bytes) -> str:
    """The type of an image by its first bytes: newer exports call it ``.dat``."""
    for head, mime in _IMAGE_HEADS:
        if data.startswith(head):
            return mime
    return "image/webp" if data[8:12] == b"WEBP" else "application/octet-stream"


def _is_call(message: Mapping[str, Any]) -> bool:
    """Whether an assistant's message goes to a tool and not to the user."""
    return message.get("recipient") not in (None, "all")


def _content_of(content: Any, assets: _Assets) -> tuple[Any, str, dict[str, Any]]:
    """A message's content, its reasoning, and the source's content where these do not say all of it.

    Content of an unknown type comes back as one block of the type ``agent``.
    """
    if not isinstance(content, dict):
        return ("" if content is None else content), "", {}
    kind, parts = content.get("content_type"), content.get("parts")
    if kind in ("thoughts", "reasoning_recap"):
        return "", _reasoning(content), content
    if isinstance(parts, list):
        if all(isinstance(part, str) for part in parts):
            text = "\n".join(parts)
            more = {key: value for key, value in content.items() if key not in ("content_type", "parts")}
            return text, "", content if more or len(parts) > 1 else {}
        return [_block(part, assets) for part in parts], "", content
    for key in ("text", "result", "user_instructions"):
        if isinstance(content.get(key), str):
            more = {name: value for name, value in content.items() if name != key}
            return content[key], "", more
    return [{"type": "agent", "content": content}], "", {}


def _reasoning(content: Mapping[str, Any]) -> str:
    thoughts = content.get("thoughts")
    if not isinstance(thoughts, list):
        return str(content.get("content") or "")
    lines = [
        "\n".join(str(thought[key]) for key in ("summary", "content") if thought.get(key))
        for thought in thoughts
        if isinstance(thought, dict)
    ]
    return "\n\n".join(lines)


def _block(part: Any, assets: _Assets) -> Any:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        return {"type": "text", "text": f"[{type(part).__name__}]"}
    pointer = part.get("asset_pointer")
    if isinstance(pointer, str):
        url = assets.data_url(pointer)
        kind = str(part.get("content_type", ""))
        if url is not None and "image" in kind:
            return {"type": "image_url", "image_url": {"url": url}}
        if url is not None:
            return {"type": "file", "file": {"file_data": url, "filename": pointer}}
        return {"type": "text", "text": f"[{kind.replace('_', ' ')}: {pointer}]"}
    text = part.get("text")
    return {
        "type": "text",
        "text": text if isinstance(text, str) else f"[{part.get('content_type', 'part')}]",
    }
