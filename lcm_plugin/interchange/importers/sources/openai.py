"""OpenAI-style messages: a JSON array, JSON lines with a message each, or lines that hold ``messages``.

A line or an element with ``messages`` is a conversation of its own; single messages form one conversation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.json_files import json_objects
from lcm_plugin.interchange.importers.records import (
    Broken,
    Entry,
    Record,
    SourceConversation,
    aside,
    content_id,
    rest_of,
)
from lcm_plugin.messages.identity import told_time

NAME = "openai"
_NAME_KEYS = ("session_id", "conversation_id", "id", "task_id")


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is of this format."""
    return isinstance(first, dict) and (
        isinstance(first.get("messages"), list)
        or ("role" in first and not {"type", "message"} & first.keys())
    )


def read(path: Path) -> Iterator[Record]:
    """The records of a file."""
    own: SourceConversation | None = None
    begun = False
    seen: set[str] = set()
    for line in json_objects(path):
        number, value = line.number, line.value
        if line.error:
            yield Broken(number, line.error)
        elif isinstance(value.get("messages"), list):
            begun = False
            yield from _conversation(path, number, value)
        else:
            if not begun:
                own = own or SourceConversation(path.stem)
                yield own
                begun = True
            yield _message(number, number, value, "", seen)


def _conversation(path: Path, number: int, value: Mapping[str, Any]) -> Iterator[Record]:
    given = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), (str, int))), None)
    name = f"{path.stem}:{number}" if given is None else str(given)
    title = value.get("title")
    yield SourceConversation(
        name,
        title=title if isinstance(title, str) else "",
        started_at=told_time(value),
        about=rest_of(value, "messages", "title"),
    )
    seen: set[str] = set()
    for place, message in enumerate(value["messages"], 1):
        yield _message(place, number, message, f", message {place}", seen)


def _message(place: int, number: int, value: Any, within: str, seen: set[str]) -> Record:
    """``within`` names the message's place in its line, ``", message 3"`` or nothing."""
    where, reason = f"line {number}{within}", f"{within.removeprefix(', ')}: " if within else ""
    if not isinstance(value, dict):
        return Broken(number, f"{reason}expected a message, found {type(value).__name__}")
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
        return Broken(number, f"{reason}a message without a role")
    return Entry(source_id, value, told_time(value), place=where)
