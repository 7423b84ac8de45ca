"""OpenAI-style messages: a JSON array, JSON lines with a message each, or lines that hold ``messages``.

A line or an element with ``messages`` is a conversation of its own; single messages form one conversation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.json_array import array_elements
from lcm_plugin.interchange.importers.lines import LineFile, decode_object
from lcm_plugin.interchange.importers.records import Broken, Entry, Lane, Record, aside, content_id, rest_of
from lcm_plugin.messages.identity import told_time

NAME = "openai"
_MAX_DOCUMENT = 256 * 1024 * 1024
_NAME_KEYS = ("session_id", "conversation_id", "id", "task_id")


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is of this format."""
    if isinstance(first, list):
        first = first[0] if first else None
    return isinstance(first, dict) and (
        isinstance(first.get("messages"), list) or ("role" in first and "type" not in first)
    )


def read(path: Path) -> Iterator[Record]:
    """The records of a file."""
    own: Lane | None = None
    begun = False
    seen: set[str] = set()
    for number, value, error in _values(path):
        if error:
            yield Broken(number, error)
        elif isinstance(value.get("messages"), list):
            begun = False
            yield from _conversation(path, number, value)
        else:
            if not begun:
                own = own or Lane(path.stem)
                yield own
                begun = True
            yield _message(number, number, value, f"line {number}", seen)


def _conversation(path: Path, number: int, value: Mapping[str, Any]) -> Iterator[Record]:
    given = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), (str, int))), None)
    name = f"{path.stem}:{number}" if given is None else str(given)
    title = value.get("title")
    yield Lane(
        name,
        title=title if isinstance(title, str) else "",
        started_at=told_time(value),
        about=rest_of(value, "messages", "title"),
    )
    seen: set[str] = set()
    for place, message in enumerate(value["messages"], 1):
        yield _message(place, number, message, f"line {number}, message {place}", seen)


def _message(place: int, number: int, value: Any, where: str, seen: set[str]) -> Record:
    if not isinstance(value, dict):
        return Broken(number, f"{where}: expected a message, found {type(value).__name__}")
    own_id = value.get("id")
    source_id = str(own_id) if isinstance(own_id, (str, int)) and own_id != "" else ""
    if not source_id or source_id in seen:
        source_id = content_id(place, value)
    else:
        seen.add(source_id)
    role = value.get("role")
    if role is None and value:
        return aside(source_id, str(value.get("type", "")), value, told_time(value), where)
    if not isinstance(role, str) or not role.strip():
        return Broken(number, f"{where}: a message without a role")
    return Entry(source_id, value, told_time(value), place=where)


def _values(path: Path) -> Iterator[tuple[int, dict[str, Any], str]]:
    """Numbered objects of a file: of its array, of its lines, or the one that spans all of it."""
    with LineFile(path) as lines:
        first = next(iter(lines), None)
        if first is not None and first.error:
            head = _head(path)
            if head.startswith(b"["):
                yield from _elements(path)
                return
            if head.startswith(b"{") and (whole := _whole(path)):
                yield 1, whole, ""
                return
        for line in lines:
            yield line.number, line.value, line.error


def _elements(path: Path) -> Iterator[tuple[int, dict[str, Any], str]]:
    with path.open("rb") as file:
        number = 0
        try:
            for number, value in enumerate(array_elements(file, str(path)), 1):
                fits = isinstance(value, dict)
                yield number, value if fits else {}, "" if fits else f"item {number} is no object"
        except InputError as error:
            yield number + 1, {}, str(error)


def _whole(path: Path) -> dict[str, Any]:
    """A document that is one object spread over lines; empty when it is none."""
    if path.stat().st_size > _MAX_DOCUMENT:
        return {}
    return decode_object(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))[0]


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4_096).removeprefix(b"\xef\xbb\xbf").lstrip()
