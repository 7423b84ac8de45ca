"""Claude Code's transcripts: ``~/.claude/projects/<project>/<session>.jsonl``.

Each line names the one before it (``parentUuid``); going back leaves a branch. A compaction begins a new root
whose ``logicalParentUuid`` names what came before, and its summary is a user's line. Sub-agents' lines are marked
``isSidechain``, in the session's file or in files of their own. Lines of one answer are stored as they stand, one
row each, so that a file that grew by another one adds just that.

What a person types while a turn runs is no user's line: it is queued (``queue-operation``), and handed to the model as an
attachment of the type ``queued_command``. A fork is a new file that begins with copies under the same ids.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import merge
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.json_files import Line, LineFile
from lcm_plugin.interchange.importers.records import (
    Entry,
    ImportedCompaction,
    Record,
    Repeat,
    SourceConversation,
    aside,
    content_id,
    fault_of,
    rest_of,
)
from lcm_plugin.interchange.importers.sources.claude_forks import sessions_that_begin_alike
from lcm_plugin.interchange.importers.sources.tree import Tree
from lcm_plugin.messages.blocks import text_of
from lcm_plugin.messages.identity import told_time

NAME = "claude-code"
_TALK = frozenset({"user", "assistant"})
_TYPES = _TALK | {
    "system",
    "summary",
    "attachment",
    "progress",
    "file-history-snapshot",
    "queue-operation",
    "custom-title",
    "ai-title",
    "last-prompt",
    "mode",
    "permission-mode",
}
# Copies of requests and of what the program sends the model about itself: most of a log, and nothing of the talk.
_BULK = frozenset({"api-request", "api-request-blob", "api-request-shape", "api-request-resumed"})
_BULK_ATTACHMENTS = frozenset({"prompt_snapshot", "skill_listing", "agent_listing_delta"})
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
    if not isinstance(first, dict) or path.suffix != ".jsonl" or first.get("type") not in _TYPES:
        return False
    if first["type"] in _TALK:
        message = first.get("message")
        return "uuid" in first and isinstance(message, dict) and "parts" not in message
    return not {"sessionId", "uuid", "leafUuid", "messageId"}.isdisjoint(first)


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
    calls: dict[int, tuple[str, ...]] = field(default_factory=dict)
    results: dict[int, tuple[str, ...]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    said: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    answered_at: list[int] = field(default_factory=list)
    session: str = ""
    project: str = ""
    version: str = ""
    copied_from: str = ""
    shared: int = 0
    absorbed: list[tuple[int, int, int]] = field(default_factory=list)
    started_at: int | None = None


def read(path: Path) -> Iterator[Record]:
    """The records of a file: the live branch, the abandoned ones, then the sub-agents."""
    with LineFile(path) as lines:
        index = _Index()
        yield from _first_pass(lines, index)
        index.tree.link_lost(index.main)
        name = index.session if path.stem.startswith("agent-") and index.session else path.stem
        origins = _origins(index, path, name)
        live = _live(index)
        shown, branches = index.tree.split(live, set(index.main), index.speaks)
        if index.main or index.loose:
            yield SourceConversation(
                name,
                title=_title(index, live),
                project=index.project,
                version=index.version,
                started_at=index.started_at,
                forked_from=origins,
            )
            yield from _records(lines, index, shown, index.loose)
        for members in branches:
            yield index.tree.branch_of(members[0], name)
            yield from _records(lines, index, members, ())
        for agent, members in index.agents.items():
            yield SourceConversation(
                name, sub=agent, parent=name, project=index.project, version=index.version
            )
            yield from _records(lines, index, members, ())


def _first_pass(lines: LineFile, index: _Index) -> Iterator[Record]:
    for line in lines:
        record = line.value
        if line.error:
            yield fault_of(line)
            continue
        index.session = index.session or str(record.get("sessionId") or "")
        index.project = index.project or str(record.get("cwd") or "")
        index.version = str(record.get("version") or index.version)
        if index.started_at is None:
            index.started_at = told_time(record)
        uuid = record.get("uuid")
        if not isinstance(uuid, str) or not uuid:
            index.loose.append((line.number, line.offset))
            _note_loose(index, record, line)
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


def _note_loose(index: _Index, record: Mapping[str, Any], line: Line) -> None:
    """Notes what a record without a place in the tree says of the others."""
    if record.get("reason") == "absorbed_mid_turn" and isinstance(record.get("content"), str):
        index.absorbed.append((line.number, line.offset, hash(record["content"])))
    for kind, key in (("custom-title", "customTitle"), ("ai-title", "aiTitle")):
        if record.get("type") == kind and isinstance(record.get(key), str):
            index.named[kind] = record[key]
    if record.get("type") == "summary" and isinstance(record.get("summary"), str):
        index.titles[str(record.get("leafUuid"))] = record["summary"]


def _index_record(index: _Index, at: int, record: Mapping[str, Any]) -> None:
    index.copied_from = index.copied_from or _origin_of(record)
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
    attached = record.get("attachment")
    if isinstance(attached, dict) and attached.get("type") == "queued_command":
        held = index.held if _queued_prompt(record) is None else index.said
        held.add(hash(_plain(attached.get("prompt"))))
        if held is index.said:
            index.speaks.add(at)
    if record.get("type") not in _TALK or not isinstance(message, dict):
        return
    index.speaks.add(at)
    if record["type"] == "assistant":
        index.answered_at.append(index.tree.numbers[at])
    else:
        index.said.add(hash(_plain(message.get("content"))))
    if record["type"] == "assistant" and isinstance(message.get("id"), str):
        index.answers_of[at] = hash(message["id"])
    if calls := tuple(_ids(message, "tool_use", "id")):
        index.calls[at] = calls
    if results := tuple(_ids(message, "tool_result", "tool_use_id")):
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
            calls.update(index.calls.get(at, ()))
        elif at in index.results and all(
            call in calls and call not in answered for call in index.results[at]
        ):
            live.add(at)
            answered.update(index.results[at])
    return live


def _title(index: _Index, live: set[int]) -> str:
    if named := index.named.get("custom-title") or index.named.get("ai-title"):
        return named
    here = {index.tree.ids[at] for at in live}
    return next((title for leaf, title in reversed(index.titles.items()) if leaf in here), "")


def _records(
    lines: LineFile, index: _Index, members: list[int], loose: Iterable[tuple[int, int]]
) -> Iterator[Record]:
    """Records in file order, which the ``members`` have. ``loose`` lines have no place in the tree and stand where the file
    has them.
    """
    tree = ((float(index.tree.numbers[at]), index.tree.offsets[at], True) for at in members)
    absorbed = _absorbed(index) if loose else {}
    taken_up = index.said | {said for number, _, said in index.absorbed if number in absorbed}
    beside = sorted((absorbed.get(number, number), offset, False) for number, offset in loose)
    last, kept_from = "", ""
    before: dict[str, str] = {}
    for number, offset, placed in merge(tree, beside):
        record = lines.at(offset)
        if not placed:
            yield _loose_record(record, number, taken_up)
            continue
        entry = _entry(record, int(number))
        if index.tree.index.get(str(record["uuid"]), index.shared) < index.shared:
            entry = replace(entry, inherited=True)
        if record.get("subtype") == "compact_boundary":
            kept_from = _first_kept(record)
        if record.get("isCompactSummary") and last:
            yield ImportedCompaction(text_of(entry.message), before.get(kept_from, last), entry)
            before.clear()
            kept_from = ""
        else:
            yield entry
        before[str(record.get("uuid"))] = last
        last = last if entry.bulk else entry.host_id


def _absorbed(index: _Index) -> dict[float, float]:
    """Where the words belong that a turn took up and no attachment holds: before the next answer, by line.

    Without an answer behind them the attachment may still be written.
    """
    found: dict[float, float] = {}
    for number, _, said in index.absorbed:
        later = bisect_right(index.answered_at, number)
        if said not in index.said and said not in index.held and later < len(index.answered_at):
            found[number] = index.answered_at[later] - 0.5
    return found


def _loose_record(record: Mapping[str, Any], number: float, taken_up: set[int]) -> Record:
    """A record without a place in the tree; ``number`` lies between two lines for words that stand there.

    ``taken_up`` are hashes of all that was queued and became a message.
    """
    said = record.get("content")
    if record.get("type") != "queue-operation" or not isinstance(said, str):
        return _aside(content_id(int(number), record), record, int(number))
    if number != int(number):
        message = {"role": "user", "content": said}
        return Entry(content_id("absorbed", record), message, told_time(record), place=f"line {number:.0f}")
    if hash(said) in taken_up:
        return Repeat("queue-operation")
    return _aside(content_id(int(number), record), record, int(number))


def _origins(index: _Index, path: Path, name: str) -> tuple[str, ...]:
    """The sessions that this one is a copy of, or begins as where no record says so."""
    if index.copied_from or not index.main or path.stem != name:
        return (index.copied_from,) if index.copied_from not in ("", name) else ()
    alike = sessions_that_begin_alike(path, index.tree.ids)
    index.shared = max(alike.values(), default=0)
    return tuple(alike)


def _origin_of(record: Mapping[str, Any]) -> str:
    """The session that a record was copied from; empty for one that is no copy."""
    origin = record.get("forkedFrom")
    return str(origin.get("sessionId") or "") if isinstance(origin, dict) else ""


def _queued_prompt(record: Mapping[str, Any]) -> Any:
    """What a person typed while a turn ran, as a message's content; None for any other record."""
    attached = record.get("attachment")
    if not isinstance(attached, dict) or attached.get("type") != "queued_command" or attached.get("isMeta"):
        return None
    return attached.get("prompt") if attached.get("commandMode", "prompt") == "prompt" else None


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else text_of({"content": content})


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
    inherited = bool(_origin_of(record))
    if (prompt := _queued_prompt(record)) is not None:
        kind, message = "user", {"role": "user", "content": prompt}
    if kind not in _TALK or not isinstance(message, dict) or message.get("content") is None:
        return replace(_aside(source_id, record, number), inherited=inherited)
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
        inherited=inherited,
    )


def _aside(source_id: str, record: Mapping[str, Any], number: int) -> Entry:
    part = _PART_TYPES.get(str(record.get("subtype")), _PART_TYPES.get(str(record.get("type")), "agent"))
    attached = record.get("attachment")
    kind = str(attached.get("type")) if isinstance(attached, dict) else str(record.get("type"))
    bulk = kind if kind in (_BULK_ATTACHMENTS if attached else _BULK) else ""
    return replace(aside(source_id, part, record, told_time(record), f"line {number}"), bulk=bulk)
