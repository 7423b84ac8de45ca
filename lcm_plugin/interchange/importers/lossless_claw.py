"""lossless-claw's database (``~/.openclaw/lcm.db``), with its DAG.

A message's blocks stand in its parts, each with the original block in its metadata. ``summary_parents`` names the
summaries that one was made from. Times are UTC without a zone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.blocks import from_openclaw
from lcm_plugin.interchange.importers.files import attached
from lcm_plugin.interchange.importers.records import Broken, Entry, Lane, Node, Record, Standing, rest_of
from lcm_plugin.messages.blocks import answers_another
from lcm_plugin.messages.identity import told_time
from lcm_plugin.store.foreign import ForeignDatabase
from lcm_plugin.store.lineage import depths_from_lineage

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
    yield Lane(
        f"{row['session_id']}:{conversation}",
        key=str(row["session_key"] or ""),
        title=str(row["title"] or ""),
        started_at=_time(row["created_at"]),
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
    yield from _standing(database, where, stored)


def _nodes(
    database: ForeignDatabase, where: Mapping[str, Any], stored: Mapping[int, str]
) -> Iterator[Record]:
    rows = {
        row["summary_id"]: row
        for row in database.rows("summaries", _SUMMARY, order=("created_at",), where=where)
    }
    links = {summary_id: _sources(database, summary_id, stored) for summary_id in rows}
    lineage = {summary_id: nodes for summary_id, (nodes, _) in links.items()}
    try:
        depths = depths_from_lineage(
            lineage, frozenset(key for key, (nodes, _) in links.items() if not nodes)
        )
    except InputError as error:
        yield Broken(0, f"conversation {where['conversation_id']}: {error}")
        depths = {key: int(row["depth"] or 0) for key, row in rows.items()}
    for summary_id, row in rows.items():
        nodes, messages = links[summary_id]
        text = str(row["content"] or "")
        yield Node(
            str(summary_id),
            depths[summary_id],
            text,
            tuple(nodes) or tuple(messages),
            _time(row["created_at"]),
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


def _standing(
    database: ForeignDatabase, where: Mapping[str, Any], stored: Mapping[int, str]
) -> Iterator[Record]:
    columns = ("message_id", "summary_id")
    rows = list(database.rows("context_items", columns, order=("ordinal",), where=where))
    if rows:
        yield Standing(
            frozenset(
                str(row["summary_id"]) if row["message_id"] is None else stored.get(row["message_id"], "")
                for row in rows
            )
        )


def _entry(database: ForeignDatabase, row: Mapping[str, Any], files: Mapping[str, Any]) -> Entry:
    where = {"message_id": row["message_id"]}
    parts = list(database.rows("message_parts", _PART, order=("ordinal",), where=where))
    metadata = [_json(part["metadata"]) for part in parts]
    told = metadata[0] if metadata else {}
    blocks = [block for part, about in zip(parts, metadata, strict=True) if (block := _block(part, about))]
    if row["role"] == "tool":
        shown, extras, _ = from_openclaw(_answer(parts, blocks, told, row["content"]))
    else:
        shown, extras, _ = from_openclaw({"role": row["role"], "content": blocks or row["content"]})
    if isinstance(told.get("topLevelReasoningContent"), str):
        shown["reasoning_content"] = told["topLevelReasoningContent"]
    about = rest_of(row, "seq", "role", "content", "created_at")
    about |= rest_of(told, "raw", "rawType", "toolCallId", "toolName", "topLevelReasoningContent")
    sender = _json(row["openclaw_sender_metadata"])
    name = sender.get("name") or sender.get("username") or sender.get("id")
    shown, missing = attached(shown, files, database.path.parent)
    if missing:
        about["missing_files"] = missing
    return Entry(
        str(row["transcript_entry_id"] or f"lossless-claw-{row['message_id']}"),
        shown,
        _time(row["created_at"]),
        sender=str(name) if name else None,
        extras=(*extras, ("agent", about)),
    )


def _answer(
    parts: list[dict[str, Any]], blocks: list[dict[str, Any]], told: Mapping[str, Any], text: Any
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
        or told.get("toolCallId")
        or part.get("tool_call_id")
        or "",
        "toolName": told.get("toolName")
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


def _json(text: Any) -> dict[str, Any]:
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _time(text: Any) -> int | None:
    return told_time({"time": text})
