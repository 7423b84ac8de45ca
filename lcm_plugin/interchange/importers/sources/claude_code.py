"""Claude Code's transcripts: ``~/.claude/projects/<project>/<session>.jsonl``.

Each line names the one before it (``parentUuid``); going back leaves a branch. A compaction begins a new root
whose ``logicalParentUuid`` names what came before, and its summary is a user's line. Sub-agents' lines are marked
``isSidechain``, in the session's file or in files of their own. Lines of one answer are stored as they stand, one
row each, so that a file that grew by another one adds just that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.json_files import LineFile
from lcm_plugin.interchange.importers.records import (
    Broken,
    Entry,
    ImportedCompaction,
    Record,
    Repeat,
    SourceConversation,
    aside,
    content_id,
    rest_of,
)
from lcm_plugin.interchange.importers.sources.tree import Tree
from lcm_plugin.messages.identity import told_time

NAME = "claude-code"
_TYPES = frozenset(
    {"user", "assistant", "system", "summary", "attachment", "progress", "file-history-snapshot"}
)
_PART_TYPES = {
    "attachment": "file",
    "file-history-snapshot": "snapshot",
    "progress": "step_start",
    "compact_boundary": "compaction",
    "microcompact_boundary": "compaction",
    "api_error": "retry",
    "turn_duration": "step_finish",
}
_ENVELOPE = ("type", "message", "toolUseResult", "uuid", "timestamp")


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is of this format."""
    if not isinstance(first, dict) or path.suffix != ".jsonl":
        return False
    kind = first.get("type")
    return ("sessionId" in first or "uuid" in first or "leafUuid" in first or "messageId" in first) and (
        kind in _TYPES or "sessionId" in first
    )


@dataclass(slots=True)
class _Index:
    """The result of a first pass over a file: the tree, and the ids that keep records together."""

    tree: Tree = field(default_factory=Tree)
    main: list[int] = field(default_factory=list)
    agents: dict[str, list[int]] = field(default_factory=dict)
    agent_of: dict[int, str] = field(default_factory=dict)
    speaks: set[int] = field(default_factory=set)
    loose: list[tuple[int, int]] = field(default_factory=list)
    answers_of: dict[int, int] = field(default_factory=dict)
    calls: dict[int, frozenset[str]] = field(default_factory=dict)
    results: dict[int, frozenset[str]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    session: str = ""
    started_at: int | None = None


def read(path: Path) -> Iterator[Record]:
    """The records of a file: the live branch, the abandoned ones, then the sub-agents."""
    with LineFile(path) as lines:
        index = _Index()
        yield from _first_pass(lines, index)
        index.tree.link_lost(index.main)
        name = index.session if path.stem.startswith("agent-") and index.session else path.stem
        live = _live(index)
        shown, branches = index.tree.split(live, set(index.main), index.speaks)
        if index.main or index.loose:
            yield SourceConversation(name, title=_title(index, live), started_at=index.started_at)
            yield from _records(lines, index, shown, index.loose)
        for members in branches:
            yield index.tree.branch_of(members[0], name)
            yield from _records(lines, index, members, ())
        for agent, members in index.agents.items():
            yield SourceConversation(name, sub=agent, parent=name)
            yield from _records(lines, index, members, ())


def _first_pass(lines: LineFile, index: _Index) -> Iterator[Record]:
    for line in lines:
        record = line.value
        if line.error:
            yield Broken(line.number, line.error)
            continue
        index.session = index.session or str(record.get("sessionId") or "")
        if index.started_at is None:
            index.started_at = told_time(record)
        uuid = record.get("uuid")
        if not isinstance(uuid, str) or not uuid:
            index.loose.append((line.number, line.offset))
            if record.get("type") == "summary" and isinstance(record.get("summary"), str):
                index.titles[str(record.get("leafUuid"))] = record["summary"]
            continue
        parent = record.get("parentUuid") or record.get("logicalParentUuid")
        if record.get("isCompactSummary") and parent is None and index.main:
            parent = index.tree.ids[index.main[-1]]
        if index.tree.add(uuid, parent if isinstance(parent, str) else None, line.offset, line.number):
            _index_record(index, len(index.tree.ids) - 1, record)
        elif lines.at(index.tree.offsets[index.tree.index[uuid]]) == record:
            yield Repeat("line seen before")
        else:
            index.loose.append((line.number, line.offset))


def _index_record(index: _Index, at: int, record: Mapping[str, Any]) -> None:
    if record.get("isSidechain"):
        above = index.tree.parent_of(at)
        agent = str(
            record.get("agentId") or index.agent_of.get(-1 if above is None else above, record["uuid"])
        )
        index.agent_of[at] = agent
        index.agents.setdefault(agent, []).append(at)
        return
    index.main.append(at)
    message = record.get("message")
    if record.get("type") not in ("user", "assistant") or not isinstance(message, dict):
        return
    index.speaks.add(at)
    if record["type"] == "assistant" and isinstance(message.get("id"), str):
        index.answers_of[at] = hash(message["id"])
    if calls := frozenset(_ids(message, "tool_use", "id")):
        index.calls[at] = calls
    if results := frozenset(_ids(message, "tool_result", "tool_use_id")):
        index.results[at] = results


def _ids(message: Mapping[str, Any], kind: str, key: str) -> Iterator[str]:
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == kind and isinstance(block.get(key), str):
            yield block[key]


def _live(index: _Index) -> set[int]:
    """The path to the newest record, and the records written beside it at the same time.

    Calls that were made at once each have a result of their own line, and only one of them is on the path.
    """
    newest = max(index.speaks, default=max(index.main, default=None))
    if newest is None:
        return set()
    live = set(index.tree.path(newest)) & set(index.main)
    answers = {index.answers_of[at] for at in live if at in index.answers_of}
    calls = {call for at in live for call in index.calls.get(at, ())}
    answered = {call for at in live for call in index.results.get(at, ())}
    for at in index.main:
        if at in live:
            continue
        if at in index.answers_of and index.answers_of[at] in answers:
            live.add(at)
            calls |= index.calls.get(at, frozenset())
        elif at in index.results and index.results[at] <= calls - answered:
            live.add(at)
            answered |= index.results[at]
    return live


def _title(index: _Index, live: set[int]) -> str:
    here = {index.tree.ids[at] for at in live}
    return next((title for leaf, title in reversed(index.titles.items()) if leaf in here), "")


def _records(
    lines: LineFile, index: _Index, members: list[int], loose: Iterable[tuple[int, int]]
) -> Iterator[Record]:
    """Records in file order. ``loose`` lines have no place in the tree and stand where the file has them."""
    places = [(index.tree.numbers[at], index.tree.offsets[at], True) for at in members]
    last, kept_from = "", ""
    before: dict[str, str] = {}
    for number, offset, placed in sorted([*places, *((*one, False) for one in loose)]):
        record = lines.at(offset)
        if not placed:
            yield _aside(content_id(number, record), record, number)
            continue
        entry = _entry(record, number)
        if record.get("subtype") == "compact_boundary":
            kept_from = _first_kept(record)
        if record.get("isCompactSummary") and last:
            yield ImportedCompaction(_text(entry.message), before.get(kept_from, last), entry)
            before.clear()
            kept_from = ""
        else:
            yield entry
        before[str(record.get("uuid"))] = last
        last = entry.host_id


def _first_kept(boundary: Mapping[str, Any]) -> str:
    """The first message that a compaction left in the context as it is; empty when there is none."""
    about = boundary.get("compactMetadata")
    about = about if isinstance(about, dict) else {}
    segment, messages = about.get("preservedSegment"), about.get("preservedMessages")
    if isinstance(segment, dict) and isinstance(segment.get("headUuid"), str):
        return str(segment["headUuid"])
    kept = messages.get("uuids") if isinstance(messages, dict) else None
    return str(kept[0]) if isinstance(kept, list) and kept else ""


def _entry(record: Mapping[str, Any], number: int) -> Entry:
    kind, message, source_id = str(record.get("type")), record.get("message"), str(record["uuid"])
    if kind not in ("user", "assistant") or not isinstance(message, dict) or message.get("content") is None:
        return _aside(source_id, record, number)
    extras: list[tuple[str, Mapping[str, Any]]] = []
    if about := {**rest_of(record, *_ENVELOPE), **rest_of(message, "role", "content", "type")}:
        extras.append(("agent", about))
    result = record.get("toolUseResult")
    if isinstance(result, (dict, list)) and result:
        is_patch = isinstance(result, dict) and "structuredPatch" in result
        extras.append(("patch" if is_patch else "tool", {"toolUseResult": result}))
    unseen = bool(record.get("isApiErrorMessage") or record.get("isVisibleInTranscriptOnly"))
    return Entry(
        source_id,
        {"role": kind, "content": message["content"]},
        told_time(record),
        hidden=unseen and not record.get("isCompactSummary"),
        extras=tuple(extras),
        place=f"line {number}",
    )


def _aside(source_id: str, record: Mapping[str, Any], number: int) -> Entry:
    part = _PART_TYPES.get(str(record.get("subtype")), _PART_TYPES.get(str(record.get("type")), "agent"))
    return aside(source_id, part, record, told_time(record), f"line {number}")


def _text(message: Mapping[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
