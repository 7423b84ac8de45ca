"""lossless-claw's database (``~/.openclaw/lcm.db``), with its DAG.

A message's blocks stand in its parts, each with the original block in its metadata. ``summary_parents`` names the
summaries that one was made from. Times are UTC without a zone. Files that were moved out of the messages come back
in as file blocks; only those below the database's folder are read, since a database must not name any other file.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.records import (
    ActiveContext,
    Broken,
    Entry,
    Record,
    SourceConversation,
    SummaryNode,
    node_depths,
    rest_of,
)
from lcm_plugin.interchange.importers.sources.openclaw import from_openclaw
from lcm_plugin.messages.blocks import answers_another
from lcm_plugin.messages.identity import told_time
from lcm_plugin.store.foreign import ForeignDatabase
from lcm_plugin.types import Message

NAME = "lossless-claw"
_CONVERSATION = (
    "conversation_id", "session_id", "session_key", "active", "archived_at", "archive_cause", "title", "created_at",
)  # fmt: skip
_MESSAGE = (
    "message_id", "seq", "role", "content", "openclaw_sender_metadata", "transcript_entry_id", "large_content",
    "created_at",
)  # fmt: skip
_PART = (
    "ordinal", "part_type", "text_content", "tool_call_id", "tool_name", "tool_input", "tool_output", "metadata",
)  # fmt: skip
_SUMMARY = ("summary_id", "kind", "depth", "content", "created_at", "model", "file_ids", "token_count")
_FILE = ("file_id", "file_name", "mime_type", "byte_size", "storage_uri")
_REFERENCE = re.compile(r"\bfile_[0-9a-f]{16}\b")
_MAX_FILE_BYTES = 256 * 1024 * 1024
_EARLY_MARK, _LATE_MARKS = "[LCM fallback summary", ("[LCM fallback summary", "[Truncated from ")


def recognises_database(database: ForeignDatabase) -> bool:
    """Whether a database is lossless-claw's."""
    return (
        database.has("summaries", "summary_id", "kind", "content")
        and database.has("conversations", "conversation_id", "session_id")
        and database.has("messages", "message_id", "token_count")
        and not database.has("conversations", "revision")
    )


def read(path: Path) -> Iterator[Record]:
    """The records of a database, conversation by conversation."""
    with ForeignDatabase(path) as database:
        order = ("conversation_id",)
        for row in list(database.rows("conversations", _CONVERSATION, order=order)):
            yield from _conversation(database, row)


def _conversation(database: ForeignDatabase, row: Mapping[str, Any]) -> Iterator[Record]:
    conversation = row["conversation_id"]
    where = {"conversation_id": conversation}
    yield SourceConversation(
        f"{row['session_id']}:{conversation}",
        key=str(row["session_key"] or ""),
        title=str(row["title"] or ""),
        started_at=told_time({"time": row["created_at"]}),
        live=row["active"] in (None, 1),
        whole=True,
        about=rest_of(row, "title", "created_at"),
    )
    files = {
        file["file_id"]: file for file in database.rows("large_files", _FILE, order=("file_id",), where=where)
    }
    stored: dict[int, str] = {}
    for message in database.rows("messages", _MESSAGE, order=("seq",), where=where):
        entry = _entry(database, message, files)
        stored[message["message_id"]] = entry.host_id
        yield entry
    yield from _nodes(database, where, stored)
    yield from _active_context(database, where, stored)


def _nodes(
    database: ForeignDatabase, where: Mapping[str, Any], stored: Mapping[int, str]
) -> Iterator[Record]:
    rows = {
        row["summary_id"]: row
        for row in database.rows("summaries", _SUMMARY, order=("created_at",), where=where)
    }
    links = {summary_id: _sources(database, summary_id, stored) for summary_id in rows}
    lineage = {summary_id: nodes for summary_id, (nodes, _) in links.items()}
    depths, broken = node_depths(lineage, {key for key in rows if not lineage[key]}, rows)
    if broken:
        yield Broken(0, f"conversation {where['conversation_id']}: {broken}")
    for summary_id, row in rows.items():
        nodes, messages = links[summary_id]
        text = str(row["content"] or "")
        yield SummaryNode(
            str(summary_id),
            depths[summary_id],
            text,
            tuple(nodes) or tuple(messages),
            told_time({"time": row["created_at"]}),
            "" if row["model"] in (None, "unknown") else str(row["model"]),
            fallback=text.startswith(_EARLY_MARK) or any(mark in text[-80:] for mark in _LATE_MARKS),
            about=rest_of(row, "content", "summary_id"),
        )


def _sources(
    database: ForeignDatabase, summary_id: str, stored: Mapping[int, str]
) -> tuple[list[str], list[str]]:
    """The ids of the summaries and of the messages that a summary was made from."""
    where = {"summary_id": summary_id}
    nodes = database.rows("summary_parents", ("parent_summary_id",), order=("ordinal",), where=where)
    messages = database.rows("summary_messages", ("message_id",), order=("ordinal",), where=where)
    return (
        [str(row["parent_summary_id"]) for row in nodes],
        [stored.get(row["message_id"], f"missing:{row['message_id']}") for row in messages],
    )


def _active_context(
    database: ForeignDatabase, where: Mapping[str, Any], stored: Mapping[int, str]
) -> Iterator[Record]:
    columns = ("message_id", "summary_id")
    rows = list(database.rows("context_items", columns, order=("ordinal",), where=where))
    if rows:
        yield ActiveContext(
            frozenset(
                str(row["summary_id"]) if row["message_id"] is None else stored.get(row["message_id"], "")
                for row in rows
            )
        )


def _entry(database: ForeignDatabase, row: Mapping[str, Any], files: Mapping[str, Any]) -> Entry:
    where = {"message_id": row["message_id"]}
    parts = list(database.rows("message_parts", _PART, order=("ordinal",), where=where))
    metadata = [_json_object(part["metadata"]) for part in parts]
    first = metadata[0] if metadata else {}
    blocks = [block for part, about in zip(parts, metadata, strict=True) if (block := _block(part, about))]
    if row["role"] == "tool":
        shown, extras, _ = from_openclaw(_answer(parts, blocks, first, row["content"]))
    else:
        shown, extras, _ = from_openclaw({"role": row["role"], "content": blocks or row["content"]})
    if isinstance(first.get("topLevelReasoningContent"), str):
        shown["reasoning_content"] = first["topLevelReasoningContent"]
    about = rest_of(row, "seq", "role", "content", "created_at")
    about |= rest_of(first, "raw", "rawType", "toolCallId", "toolName", "topLevelReasoningContent")
    sender = _json_object(row["openclaw_sender_metadata"])
    name = sender.get("name") or sender.get("username") or sender.get("id")
    shown, missing = _attached(shown, files, database.path.parent)
    if missing:
        about["missing_files"] = missing
    return Entry(
        str(row["transcript_entry_id"] or f"lossless-claw-{row['message_id']}"),
        shown,
        told_time({"time": row["created_at"]}),
        sender=str(name) if name else None,
        extras=(*extras, ("agent", about)),
    )


def _answer(
    parts: list[dict[str, Any]], blocks: list[dict[str, Any]], first: Mapping[str, Any], text: Any
) -> dict[str, Any]:
    """A tool's result; its id and name stand in the block, in columns or beside the block."""
    block = next(filter(answers_another, blocks), None)
    part = next((one for one in parts if one["tool_call_id"]), {})
    inner = block or {}
    return {
        "role": "toolResult",
        "toolCallId": inner.get("toolCallId")
        or inner.get("tool_use_id")
        or inner.get("call_id")
        or first.get("toolCallId")
        or part.get("tool_call_id")
        or "",
        "toolName": first.get("toolName")
        or part.get("tool_name")
        or inner.get("toolName")
        or inner.get("name"),
        "content": inner.get("content", inner.get("output", text)) if block else blocks or text,
    }


def _block(part: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """A part's original block; one made of its columns where a version kept none. A plain text has no block."""
    raw = about.get("raw")
    if isinstance(raw, dict) and raw.get("type"):
        return raw
    if part["part_type"] == "tool" and part["tool_input"] is not None:
        call = {"type": "toolCall", "id": part["tool_call_id"], "name": part["tool_name"]}
        return {**call, "arguments": part["tool_input"]}
    if part["part_type"] == "reasoning" and part["text_content"]:
        return {"type": "thinking", "thinking": part["text_content"]}
    return {}


def _json_object(text: Any) -> dict[str, Any]:
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _attached(
    message: Message, files: Mapping[str, Mapping[str, Any]], folder: Path
) -> tuple[Message, list[str]]:
    """The message with the files that its texts refer to, and the ids of those that are gone."""
    if not files:
        return message, []
    wanted = [ref for ref in dict.fromkeys(_REFERENCE.findall(_texts(message))) if ref in files]
    found = {
        ref: data
        for ref in wanted
        if (data := _bytes(str(files[ref]["storage_uri"] or ""), folder)) is not None
    }
    missing = [ref for ref in wanted if ref not in found]
    if not found:
        return message, missing
    content = message["content"]
    blocks = list(content) if isinstance(content, list) else [{"type": "text", "text": content}]
    blocks += [_file_block(ref, files[ref], data) for ref, data in found.items()]
    return {**message, "content": blocks}, missing


def _file_block(ref: str, about: Mapping[str, Any], data: bytes) -> dict[str, Any]:
    mime = about["mime_type"] or "application/octet-stream"
    url = f"data:{mime};base64,{base64.b64encode(data).decode()}"
    return {"type": "file", "file": {"filename": about["file_name"] or ref, "file_data": url}}


def _bytes(uri: str, folder: Path) -> bytes | None:
    path = Path(uri.removeprefix("file://")).expanduser()
    try:
        real = (path if path.is_absolute() else folder / path).resolve(strict=True)
        if (
            not real.is_relative_to(folder.resolve())
            or not real.is_file()
            or real.stat().st_size > _MAX_FILE_BYTES
        ):
            return None
        return real.read_bytes()
    except (OSError, ValueError):
        return None


def _texts(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(_texts(item) for item in value.values())
    return "\n".join(_texts(item) for item in value) if isinstance(value, list) else ""
