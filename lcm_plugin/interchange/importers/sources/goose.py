"""Goose's sessions: ``~/.local/share/goose/sessions/sessions.db``, and ``*.jsonl`` of older versions.

A message's content lists texts, calls (``toolRequest``) and results (``toolResponse``); the first line of a file says
where the session ran.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.json_files import LineFile
from lcm_plugin.interchange.importers.records import (
    Entry,
    Record,
    SourceConversation,
    content_id,
    fault_of,
    rest_of,
)
from lcm_plugin.interchange.importers.sources.gemini_content import media_block
from lcm_plugin.messages.identity import told_time
from lcm_plugin.store.foreign import ForeignDatabase, is_sqlite

NAME = "goose"
_SESSION = ("id", "name", "description", "working_dir", "created_at")
_MESSAGE = ("id", "message_id", "role", "content_json", "created_timestamp", "metadata_json")


def recognises_database(database: ForeignDatabase) -> bool:
    """Whether a database is Goose's."""
    return database.has("messages", "session_id", "content_json") and database.has("sessions", "working_dir")


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is a session of an older version."""
    return (
        isinstance(first, dict)
        and path.suffix == ".jsonl"
        and {"working_dir", "message_count"} <= first.keys()
    )


def read(path: Path) -> Iterator[Record]:
    """The records of a database or a file."""
    if not is_sqlite(path):
        yield from _file(path)
        return
    with ForeignDatabase(path) as database:
        for row in list(database.rows("sessions", _SESSION, order=("created_at", "id"))):
            yield SourceConversation(
                str(row["id"]),
                title=str(row["description"] or row["name"] or ""),
                project=str(row["working_dir"] or ""),
                started_at=told_time({"time": row["created_at"]}),
            )
            where = {"session_id": row["id"]}
            for message in database.rows("messages", _MESSAGE, order=("id",), where=where):
                values = {
                    "content": _decoded(message["content_json"]),
                    "metadata": _decoded(message["metadata_json"]),
                }
                about = {"role": message["role"], "created": message["created_timestamp"], **values}
                yield _entry(str(message["message_id"] or message["id"]), about, "")


def _file(path: Path) -> Iterator[Record]:
    with LineFile(path) as lines:
        begun = False
        for line in lines:
            if line.error:
                yield fault_of(line)
            elif not begun:
                begun = True
                yield SourceConversation(
                    path.stem,
                    title=str(line.value.get("description") or ""),
                    project=str(line.value.get("working_dir") or ""),
                    about=line.value,
                )
            else:
                source_id = str(line.value.get("id") or content_id(line.number, line.value))
                yield _entry(source_id, line.value, f"line {line.number}")


def _entry(source_id: str, message: Mapping[str, Any], place: str) -> Entry:
    listed = message.get("content")
    blocks = (
        [_block(block) for block in listed if isinstance(block, dict)] if isinstance(listed, list) else []
    )
    about = rest_of(message, "id", "role", "created", "content")
    seen = message.get("metadata")
    # The program wrote what the user does not see: a compaction's summary, and its notifications.
    hidden = isinstance(seen, dict) and seen.get("userVisible") is False
    hidden |= bool(blocks) and all(block.get("type") == "systemNotification" for block in blocks)
    shown = {"role": str(message.get("role") or "user"), "content": blocks}
    at, extras = told_time({"time": message.get("created")}), (("agent", about),) if about else ()
    return Entry(source_id, shown, at, hidden, extras=extras, place=place)


def _block(block: Mapping[str, Any]) -> dict[str, Any]:
    kind = block.get("type")
    if kind == "toolRequest":
        call = _value(block.get("toolCall"))
        given = call.get("arguments") if isinstance(call, dict) else None
        name = str(call.get("name") or "") if isinstance(call, dict) else ""
        return {
            "type": "tool_use",
            "id": str(block.get("id")),
            "name": name,
            "input": given if isinstance(given, dict) else {},
        }
    if kind == "toolResponse":
        result = _value(block.get("toolResult"))
        content = result.get("content") if isinstance(result, dict) else result
        parts = (
            [_block(one) for one in content if isinstance(one, dict)]
            if isinstance(content, list)
            else str(content or "")
        )
        return {"type": "tool_result", "tool_use_id": str(block.get("id")), "content": parts}
    if kind == "image" and isinstance(block.get("data"), str):
        return media_block({"mimeType": block.get("mimeType"), "data": block["data"]})
    return dict(block)


def _value(outcome: Any) -> Any:
    """What a call or a result holds: its value, or the error in its place."""
    return outcome.get("value", outcome.get("error")) if isinstance(outcome, dict) else outcome


def _decoded(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
