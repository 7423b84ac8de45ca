"""Cursor's chats: ``state.vscdb`` of its user folder, and ``agent-transcripts/*.jsonl`` of its projects.

The database holds JSON values by key: ``composerData:<chat>`` lists the messages of a chat, ``bubbleId:<chat>:<message>``
is one. A tool's call and its result are one message there. A transcript has a message a line, without times and ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.json_files import LineFile
from lcm_plugin.interchange.importers.records import (
    Entry,
    Record,
    SourceConversation,
    aside,
    content_id,
    fault_of,
    rest_of,
)
from lcm_plugin.messages.identity import told_time
from lcm_plugin.store.foreign import ForeignDatabase, is_sqlite

NAME = "cursor"
_TABLE = "cursorDiskKV"
_CHATS, _MESSAGES = "composerData:", "bubbleId:"
_ROLES = {1: "user", 2: "assistant"}
_ABOUT = ("modelInfo", "tokenCount", "unifiedMode", "capabilityType", "relevantFiles", "errorDetails")
_OPEN, _CLOSE = "<user_query>", "</user_query>"


def recognises_database(database: ForeignDatabase) -> bool:
    """Whether a database is Cursor's."""
    return database.has(_TABLE, "key", "value")


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is a transcript."""
    if not isinstance(first, dict) or path.suffix != ".jsonl":
        return False
    message = first.get("message")
    return first.get("role") in ("user", "assistant") and "type" not in first and isinstance(message, dict)


def read(path: Path) -> Iterator[Record]:
    """The records of a database or a transcript."""
    if not is_sqlite(path):
        yield from _transcript(path)
        return
    with ForeignDatabase(path) as database:
        for row in database.rows(_TABLE, ("key", "value"), order=("key",), prefix=("key", _CHATS)):
            chat = _decoded(row["value"])
            yield from _chat(database, str(row["key"]).removeprefix(_CHATS), chat)


def _decoded(value: Any) -> dict[str, Any]:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    for _ in range(2):
        try:
            text = json.loads(text or "{}")
        except (TypeError, ValueError, RecursionError):
            return {}
        if not isinstance(text, str):
            break
    return text if isinstance(text, dict) else {}


def _chat(database: ForeignDatabase, name: str, chat: Mapping[str, Any]) -> Iterator[Record]:
    listed = chat.get("fullConversationHeadersOnly")
    inline = chat.get("conversation")
    if isinstance(listed, list) and listed:
        names = [str(one.get("bubbleId")) for one in listed if isinstance(one, dict)]
        messages = _stored(database, name, names)
    else:
        found = [one for one in inline if isinstance(one, dict)] if isinstance(inline, list) else []
        messages = ((str(one.get("bubbleId") or content_id(at, one)), one) for at, one in enumerate(found))
    first = next(messages, None)
    if first is None:
        return
    yield SourceConversation(
        name,
        title=str(chat.get("name") or ""),
        started_at=told_time({"time": chat.get("createdAt")}),
        about=rest_of(
            {key: chat.get(key) for key in ("modelConfig", "unifiedMode", "workspaceIdentifier", "_v")}
        ),
    )
    for own, message in chain([first], messages):
        yield from _entries(own, message)


def _stored(
    database: ForeignDatabase, chat: str, names: list[str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The messages of a chat that are rows of their own."""
    for own in names:
        where = {"key": f"{_MESSAGES}{chat}:{own}"}
        for row in database.rows(_TABLE, ("value",), order=("key",), where=where):
            yield own, _decoded(row["value"])


def _entries(own: str, message: Mapping[str, Any]) -> Iterator[Entry]:
    timing = message.get("timingInfo")
    started = timing.get("clientStartTime") if isinstance(timing, dict) else None
    at = told_time({"time": message.get("createdAt") or started})
    about = rest_of({key: message.get(key) for key in _ABOUT})
    role = _ROLES.get(message.get("type", 0))
    if role is None:
        yield aside(own, "agent", message, at)
        return
    content: Any = str(message.get("text") or "")
    if images := [block for one in message.get("images") or [] if (block := _image(one)) is not None]:
        content = [{"type": "text", "text": content}, *images]
    shown: dict[str, Any] = {"role": role, "content": content}
    thinking = message.get("thinking")
    if isinstance(thinking, dict) and thinking.get("text"):
        shown["reasoning_content"] = str(thinking["text"])
    tool = message.get("toolFormerData")
    if isinstance(tool, dict) and role == "assistant" and (tool.get("name") or tool.get("tool")):
        call_id = str(tool.get("toolCallId") or own)
        given = tool.get("rawArgs") or tool.get("params") or "{}"
        function = {"name": str(tool.get("name") or tool["tool"]), "arguments": _text(given)}
        shown["tool_calls"] = [{"id": call_id, "type": "function", "function": function}]
        yield Entry(own, shown, at, extras=(("agent", about),) if about else ())
        if tool.get("result") is not None:
            answer = {"role": "tool", "tool_call_id": call_id, "content": _text(tool["result"])}
            yield Entry(f"{own}/result", answer, at)
        return
    yield Entry(own, shown, at, extras=(("agent", about),) if about else ())


def _image(value: Any) -> dict[str, Any] | None:
    data = value.get("data") if isinstance(value, dict) else None
    if not isinstance(data, str):
        return None
    return {
        "type": "image_url",
        "image_url": {"url": data if data.startswith("data:") else f"data:image/png;base64,{data}"},
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _transcript(path: Path) -> Iterator[Record]:
    yield SourceConversation(path.stem)
    waiting: list[str] = []
    with LineFile(path) as lines:
        for line in lines:
            if line.error:
                yield fault_of(line)
                continue
            source_id, place = content_id(line.number, line.value), f"line {line.number}"
            message, role = line.value.get("message"), line.value.get("role")
            if role not in _ROLES.values() or not isinstance(message, dict):
                yield aside(source_id, "step_finish", line.value, told_time(line.value), place)
                continue
            content = message.get("content")
            if isinstance(content, list):
                content = [_block(block, f"{line.number}:{at}", waiting) for at, block in enumerate(content)]
            elif isinstance(content, str):
                content = _typed(content)
            yield Entry(source_id, {"role": role, "content": content}, told_time(line.value), place=place)


def _block(block: Any, place: str, waiting: list[str]) -> Any:
    """A block in which a call and its result have the same id: transcripts leave it out."""
    if not isinstance(block, dict):
        return {"type": "text", "text": str(block)}
    if block.get("type") == "tool_use":
        call_id = str(block.get("id") or place)
        waiting.append(call_id)
        return {**block, "id": call_id, "input": block.get("input") or {}}
    if block.get("type") == "tool_result":
        answered = str(block.get("tool_use_id") or (waiting[0] if waiting else place))
        if answered in waiting:
            waiting.remove(answered)
        return {**block, "tool_use_id": answered}
    if block.get("type") == "text":
        return {**block, "text": _typed(str(block.get("text") or ""))}
    return block


def _typed(text: str) -> str:
    """What a person typed: all of a text that is nothing but a query in Cursor's tags."""
    stripped = text.strip()
    if stripped.startswith(_OPEN) and stripped.endswith(_CLOSE) and stripped.count(_OPEN) == 1:
        return stripped[len(_OPEN) : -len(_CLOSE)].strip("\n")
    return text
