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
from lcm_plugin.importers.blocks import from_openclaw
from lcm_plugin.importers.files import attached
from lcm_plugin.importers.records import Broken, Entry, Lane, Node, Record, Standing, rest_of
from lcm_plugin.ingest.identity import told_time
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
_RESULTS = frozenset({"toolResult", "tool_result", "function_call_output"})
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
    parts = list(
        database.rows("message_parts", _PART, order=("ordinal",), where={"message_id": row["message_id"]})
    )
    metadata = [_json(part["metadata"]) for part in parts]
    blocks = [block for part, about in zip(parts, metadata, strict=True) if (block := _block(part, about))]
    original = next((about["originalRole"] for about in metadata if about.get("originalRole")), row["role"])
    message: dict[str, Any] = {"role": original, "content": blocks or row["content"]}
    if blocks and all(block.get("type") == "text" for block in blocks) and row["content"] is not None:
        message["content"] = row["content"]
    if row["role"] == "tool":
        message |= _answer(parts, blocks, row["content"])
    shown, extras, _ = from_openclaw(message)
    shown["role"] = row["role"]
    if row["role"] == "tool" and "tool_call_id" not in shown:
        shown["tool_call_id"] = ""
    about = rest_of(row, "seq", "role", "content", "created_at")
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


def _answer(parts: list[dict[str, Any]], blocks: list[dict[str, Any]], text: Any) -> dict[str, Any]:
    """A tool's result; its id and name stand in columns or in the block."""
    block = next((one for one in blocks if one.get("type") in _RESULTS), {})
    part = next((one for one in parts if one["tool_call_id"]), {})
    call_id = (
        part.get("tool_call_id")
        or block.get("toolCallId")
        or block.get("tool_use_id")
        or block.get("call_id")
    )
    content = block.get("content", block.get("output")) or text
    if not block and blocks:
        content = text if text else blocks
    return {
        "role": "toolResult",
        "toolCallId": call_id or "",
        "toolName": part.get("tool_name") or block.get("toolName") or block.get("name"),
        "content": content,
    }


def _block(part: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """A part's original block; one of its text where there is none."""
    raw = about.get("raw")
    if isinstance(raw, dict) and raw.get("type"):
        return raw
    if part["part_type"] == "tool" and part["tool_input"] is not None:
        return {
            "type": "toolCall",
            "id": part["tool_call_id"],
            "name": part["tool_name"],
            "arguments": part["tool_input"],
        }
    if part["part_type"] == "reasoning" and part["text_content"]:
        return {"type": "thinking", "thinking": part["text_content"]}
    return {"type": "text", "text": part["text_content"]} if part["text_content"] else {}


def _json(text: Any) -> dict[str, Any]:
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _time(text: Any) -> int | None:
    return told_time({"time": text})
