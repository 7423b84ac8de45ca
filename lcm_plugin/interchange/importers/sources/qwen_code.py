"""Qwen Code's chats: ``~/.qwen/projects/<project>/chats/<session>.jsonl``.

Each line names the one before it, as in Claude Code's logs; its message has Gemini's ``parts``. A compression is a
``system`` record with the history that goes on from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.json_files import LineFile
from lcm_plugin.interchange.importers.records import (
    Entry,
    ImportedCompaction,
    Record,
    Repeat,
    SourceConversation,
    aside,
    fault_of,
    rest_of,
)
from lcm_plugin.interchange.importers.sources.gemini_content import Blocks, text_of_parts
from lcm_plugin.interchange.importers.sources.tree import Tree
from lcm_plugin.messages.identity import told_time

NAME = "qwen-code"
_KINDS = frozenset({"user", "assistant", "tool_result", "system"})
_ROLES = {"user": "user", "assistant": "assistant", "tool_result": "user"}
_PART_TYPES = {"chat_compression": "compaction", "file_history_snapshot": "snapshot"}
_BULK = frozenset({"ui_telemetry", "attribution_snapshot", "session_artifact_snapshot"})
_ENVELOPE = ("uuid", "parentUuid", "sessionId", "timestamp", "type", "message", "forkedFrom")


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is of this format."""
    if not isinstance(first, dict) or not {"uuid", "parentUuid", "sessionId"} <= first.keys():
        return False
    message = first.get("message")
    if first.get("type") == "system":
        return "systemPayload" in first
    return (
        first.get("type") in _KINDS and isinstance(message, dict) and isinstance(message.get("parts"), list)
    )


@dataclass(slots=True)
class _Index:
    """The result of a first pass over a file."""

    tree: Tree = field(default_factory=Tree)
    main: list[int] = field(default_factory=list)
    agents: dict[str, list[int]] = field(default_factory=dict)
    speaks: set[int] = field(default_factory=set)
    title: str = ""
    parent: str = ""
    copied_from: str = ""
    started_at: int | None = None
    about: dict[str, Any] = field(default_factory=dict)


def read(path: Path) -> Iterator[Record]:
    """The records of a file: the live branch, the abandoned ones, then the sub-agents."""
    with LineFile(path) as lines:
        index = _Index()
        for line in lines:
            if line.error:
                yield fault_of(line)
                continue
            record = line.value
            parent = record.get("parentUuid")
            uuid = str(record.get("uuid") or f"line-{line.number}")
            if not index.tree.add(uuid, str(parent) if parent else None, line.offset, line.number):
                yield Repeat("line seen before")
                continue
            _note(index, len(index.tree.ids) - 1, record)
        index.tree.link_lost(index.main)
        newest = max(index.speaks & set(index.main), default=None)
        live = set(index.tree.path(newest)) & set(index.main) if newest is not None else set(index.main)
        shown, branches = index.tree.split(live, set(index.main), index.speaks)
        name = path.stem
        if index.main:
            yield SourceConversation(
                name,
                title=index.title,
                project=str(index.about.get("cwd") or ""),
                version=str(index.about.get("version") or ""),
                started_at=index.started_at,
                parent=index.parent,
                forked_from=(index.copied_from,) if index.copied_from not in ("", name) else (),
                about=index.about,
            )
            yield from _records(lines, index, shown)
        for members in branches:
            yield index.tree.branch_of(members[0], name)
            yield from _records(lines, index, members)
        for agent, members in index.agents.items():
            yield SourceConversation(name, sub=agent, parent=name)
            yield from _records(lines, index, members)


def _note(index: _Index, at: int, record: Mapping[str, Any]) -> None:
    index.started_at = index.started_at or told_time(record)
    index.about = index.about or {
        key: record[key] for key in ("cwd", "version", "gitBranch") if record.get(key)
    }
    payload = record.get("systemPayload")
    if isinstance(payload, dict):
        index.title = str(payload.get("customTitle") or index.title)
        index.parent = str(payload.get("parentSessionId") or index.parent)
    index.copied_from = index.copied_from or _origin_of(record)
    if isinstance(record.get("message"), dict):
        index.speaks.add(at)
    if record.get("isSidechain"):
        index.agents.setdefault(str(record.get("agentId") or "agent"), []).append(at)
    else:
        index.main.append(at)


def _origin_of(record: Mapping[str, Any]) -> str:
    origin = record.get("forkedFrom")
    return str(origin.get("sessionId") or "") if isinstance(origin, dict) else ""


def _records(lines: LineFile, index: _Index, members: list[int]) -> Iterator[Record]:
    blocks = Blocks()
    said: list[str] = []
    for at in members:
        record = lines.at(index.tree.offsets[at])
        entry = _entry(record, index.tree.ids[at], blocks, f"line {index.tree.numbers[at]}")
        payload = record.get("systemPayload")
        history = payload.get("compressedHistory") if isinstance(payload, dict) else None
        if isinstance(history, list) and history and said:
            # The summary and its confirmation, then the messages that were kept.
            kept = max(0, len(history) - 2)
            through = said[-1 - kept] if kept < len(said) else said[0]
            yield ImportedCompaction(_summary(history), through, entry)
            continue
        if not entry.hidden:
            said.append(entry.host_id)
        yield entry


def _summary(history: list[Any]) -> str:
    first = next((one for one in history if isinstance(one, dict) and one.get("role") == "user"), {})
    return text_of_parts(first.get("parts"))


def _entry(record: Mapping[str, Any], uuid: str, blocks: Blocks, place: str) -> Entry:
    kind, message, at = str(record.get("type")), record.get("message"), told_time(record)
    inherited = bool(_origin_of(record))
    if kind not in _ROLES or not isinstance(message, dict):
        subtype = str(record.get("subtype") or kind)
        found = aside(uuid, _PART_TYPES.get(subtype, "agent"), record, at, place)
        bulk = subtype if subtype in _BULK else ""
        return Entry(uuid, found.message, at, True, place=place, bulk=bulk, inherited=inherited)
    about = rest_of(record, *_ENVELOPE)
    shown = {"role": _ROLES[kind], "content": blocks.of(message.get("parts"), uuid)}
    return Entry(
        uuid, shown, at, extras=(("agent", about),) if about else (), place=place, inherited=inherited
    )
