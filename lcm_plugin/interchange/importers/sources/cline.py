"""Tasks of Cline and Roo Code: ``tasks/<task>/api_conversation_history.json``, in the shape of Anthropic's messages.

The folder's name is the task's id; Roo Code's ``history_item.json`` beside it has its title and folder. What the program
adds to a person's words about the editor (``<environment_details>``) is kept beside the message.
"""

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
from lcm_plugin.messages.blocks import text_of
from lcm_plugin.messages.identity import told_time

NAME = "cline"
HISTORY = "api_conversation_history.json"
_DETAILS = "<environment_details>"


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is of this format."""
    return path.name == HISTORY and isinstance(first, dict) and "role" in first


def read(path: Path) -> Iterator[Record]:
    """The records of a task."""
    about = _item(path.with_name("history_item.json"))
    task = path.resolve().parent.name
    yield SourceConversation(
        task,
        title=" ".join(str(about.get("task") or "").split())[:200],
        project=str(about.get("workspace") or ""),
        started_at=told_time({"time": about.get("ts")})
        or (told_time({"time": int(task)}) if task.isdigit() else None),
        about=rest_of(about, "task", "workspace"),
    )
    for line in json_objects(path):
        if line.error:
            yield Broken(line.number, line.error)
        elif not isinstance(line.value.get("role"), str):
            yield Broken(line.number, "a message without a role")
        else:
            yield _entry(line.value, line.number)


def _item(path: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _entry(message: Mapping[str, Any], number: int) -> Entry:
    content = message.get("content")
    details: list[Any] = []
    if isinstance(content, list):
        details = [block for block in content if text_of({"content": [block]}).startswith(_DETAILS)]
        content = [block for block in content if block not in details]
    about = rest_of(message, "role", "content", "ts") | ({"environment": details} if details else {})
    shown = {"role": str(message["role"]), "content": content if content is not None else ""}
    source_id = content_id(number, [message["role"], message.get("content")])
    at, extras = told_time({"time": message.get("ts")}), (("agent", about),) if about else ()
    return Entry(source_id, shown, at, extras=extras, place=f"message {number}")
