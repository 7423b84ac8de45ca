"""Codex's rollouts: ``~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl``.

Each line has a type and a payload: ``response_item`` is what the model saw or wrote, ``event_msg`` what happened
around it (it repeats what was said), ``compacted`` a compaction, ``session_meta`` and ``turn_context`` the settings.
The first versions wrote bare items. Rolled-back turns are a branch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from lcm_plugin.interchange.importers.json_files import Line
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
from lcm_plugin.interchange.importers.sources.codex_threads import ITEMS, Thread, open_thread, taken_apart
from lcm_plugin.messages.identity import told_time
from lcm_plugin.types import Message

NAME = "codex"
_Place: TypeAlias = tuple[int, int, int]
_OUTER = frozenset(
    {
        "session_meta",
        "response_item",
        "event_msg",
        "turn_context",
        "compacted",
        "world_state",
        "inter_agent_communication",
    }
)
# How messages in the user's name begin that the program wrote, in lower case: instructions and settings, then reports
# of what happened.
_INSTRUCTIONS = (
    "<environment_context>",
    "<user_instructions>",
    "# agents.md",
    "<skill>",
    "<skills_instructions>",
    "<plugins_instructions>",
    "<permissions instructions>",
    "<extension_context>",
    "<codex_internal_context",
    "<goal_context>",
    "<hook_prompt",
    "warning: the maximum number of unified exec processes",
    "warning: apply_patch was requested via",
    "warning: your account was flagged",
)
_REPORTS = ("<user_shell_command>", "<subagent_notification>", "<turn_aborted>")
_EVENT_TEXTS = {"user_message": "message", "agent_message": "message", "agent_reasoning": "text"}
_ROLES = frozenset({"user", "assistant", "system", "developer"})
_PARTS = {
    "turn_context": "agent",
    "session_meta": "agent",
    "world_state": "snapshot",
    "ghost_snapshot": "snapshot",
    "compaction": "compaction",
    "compaction_summary": "compaction",
    "context_compacted": "compaction",
    "web_search_call": "tool",
    "image_generation_call": "tool",
    "token_count": "step_finish",
    "task_complete": "step_finish",
    "turn_complete": "step_finish",
    "turn_aborted": "step_finish",
    "task_started": "step_start",
    "turn_started": "step_start",
    "patch_apply_begin": "patch",
    "patch_apply_end": "patch",
    "turn_diff": "patch",
    "error": "retry",
    "stream_error": "retry",
    "inter_agent_communication": "subtask",
}


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is of this format."""
    if not isinstance(first, dict):
        return False
    if first.get("type") in _OUTER and isinstance(first.get("payload"), dict):
        return True
    bare_header = "type" not in first and {"id", "timestamp", "instructions"} <= first.keys()
    return path.name.startswith("rollout-") and (bare_header or first.get("type") in ITEMS)


@dataclass(slots=True)
class _Index:
    """The result of a first pass: where the live lines and those of each branch are, and what items say.

    A place is the index of a file of the thread, the number of a line and its offset.
    """

    live: list[_Place] = field(default_factory=list)
    branches: dict[str, list[_Place]] = field(default_factory=dict)
    said: set[int] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    title: str = ""
    started_at: int | None = None


def read(path: Path) -> Iterator[Record]:
    """The records of the thread that a file belongs to: the live ones, then the turns that were taken back.

    A file that a newer one of its thread goes on from is read with that one.
    """
    with ExitStack() as stack:
        thread = open_thread(path, stack)
        newest = thread.newest
        if newest.path.resolve() != path.resolve():
            yield Repeat(f"an older part of the thread in {newest.path.name}")
            return
        index = _Index()
        yield from _look_over(thread, index)
        yield SourceConversation(
            newest.thread,
            title=index.title,
            project=str(newest.meta.get("cwd") or ""),
            version=str(newest.meta.get("cli_version") or ""),
            started_at=index.started_at,
            parent=_parent_of(newest.meta),
            forked_from=thread.forked_from,
            about=newest.meta,
        )
        yield from _records(thread, index, index.live)
        for branch, places in index.branches.items():
            yield SourceConversation(newest.thread, branch=branch, live=False)
            yield from _records(thread, index, places)


def _look_over(thread: Thread, index: _Index) -> Iterator[Record]:
    """Fills the index; returns the lines of the thread's own files that cannot be read."""
    turns: list[int] = []
    for number, rollout in enumerate((*thread.chain, *thread.left)):
        own = rollout.thread == thread.newest.thread
        withdrawn: list[_Place] = []
        for position, line in enumerate(rollout.lines):
            if line.error:
                if own:
                    yield fault_of(line)
                continue
            place = (number, line.number, line.offset)
            if number >= len(thread.chain) or rollout.is_withdrawn(line, position):
                if own:
                    withdrawn.append(place)
                    _note_item(index, line)
                continue
            _take(index, turns, place, line)
        if withdrawn:
            index.branches[f"{rollout.path.name.removesuffix('.zst')}-{withdrawn[0][1]}"] = withdrawn


def _take(index: _Index, turns: list[int], place: _Place, line: Line) -> None:
    """Adds a line to the live ones; one that rolls turns back moves these to a branch."""
    kind, payload = taken_apart(line.value)
    if index.started_at is None:
        index.started_at = told_time(line.value) or told_time(payload)
    if kind == "response_item":
        _note_item(index, line)
        if _starts_turn(payload):
            turns.append(len(index.live))
    elif kind == "event_msg" and payload.get("type") == "thread_name_updated":
        index.title = str(payload.get("thread_name") or index.title)
    elif kind == "event_msg" and payload.get("type") == "thread_rolled_back":
        count = payload.get("num_turns")
        if isinstance(count, int) and count > 0 and turns:
            begin = turns[max(0, len(turns) - count)]
            del turns[max(0, len(turns) - count) :]
            taken_back = index.live[begin:]
            del index.live[begin:]
            index.branches[f"line-{taken_back[0][1]}"] = taken_back
    index.live.append(place)


def _note_item(index: _Index, line: Line) -> None:
    """Notes what an item says and which call it makes: events may repeat it."""
    kind, payload = taken_apart(line.value)
    if kind == "response_item":
        if text := _item_text(payload):
            index.said.add(hash(text))
        if call := payload.get("call_id"):
            index.calls.add(str(call))


def _parent_of(about: Mapping[str, Any]) -> str:
    """The thread that a sub-agent's thread works for."""
    source = about.get("source")
    agent = source.get("subagent", source.get("sub_agent")) if isinstance(source, dict) else None
    spawn = agent.get("thread_spawn") if isinstance(agent, dict) else None
    found = spawn.get("parent_thread_id") if isinstance(spawn, dict) else about.get("parent_thread_id")
    return str(found) if found else ""


def _records(thread: Thread, index: _Index, places: Iterable[_Place]) -> Iterator[Record]:
    files = (*thread.chain, *thread.left)
    last, spoken = "", False
    for at, number, offset in places:
        rollout = files[at]
        line = Line(number, offset, rollout.lines.at(offset))
        inherited = rollout.thread != thread.newest.thread or number in rollout.copies
        for record in _records_of(line, rollout.id_of(line), index, last, spoken):
            if isinstance(record, ImportedCompaction):
                entry = replace(record.entry, inherited=inherited)
                last = entry.host_id
                yield replace(record, entry=entry)
            elif isinstance(record, Entry):
                last, spoken = record.host_id, spoken or not record.hidden
                yield replace(record, inherited=True) if inherited else record
            else:
                yield record


def _records_of(line: Line, source_id: str, index: _Index, last: str, spoken: bool) -> Iterator[Record]:
    """What a line holds. ``last`` is the entry before it, ``spoken`` says whether a message came before."""
    kind, payload = taken_apart(line.value)
    at = told_time(line.value) or told_time(payload)
    place = f"line {line.number}"
    if kind == "response_item":
        yield _item_entry(source_id, payload, at, place)
    elif kind == "compacted":
        yield from _compaction(source_id, payload, at, place, last if spoken else "")
    elif kind == "event_msg" and _repeats_item(payload, index):
        yield Repeat(f"event_msg/{payload.get('type')}")
    else:
        yield aside(source_id, _part_type_of(kind, payload), line.value, at, place)


def _compaction(
    source_id: str, payload: Mapping[str, Any], at: int | None, place: str, last: str
) -> Iterator[Record]:
    """A compaction. One that begins a rollout holds the only copy of what came before it."""
    entry, text = aside(source_id, "compaction", payload, at, place), payload.get("message")
    said = isinstance(text, str) and bool(text.strip())
    if last:
        yield ImportedCompaction(str(text), last, entry) if said else entry
        return
    items = payload.get("replacement_history")
    kept = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    for number, item in enumerate(kept, 1):
        item_id = content_id(f"{source_id}.{number}", item)
        yield _item_entry(item_id, item, at, f"{place}, item {number}")
    if said and not any(str(text) in _item_text(item) for item in kept):
        yield Entry(f"{source_id}.summary", {"role": "user", "content": text}, at, place=place)
    yield entry


def _part_type_of(kind: str, payload: Mapping[str, Any]) -> str:
    """The part type of a record that is no message."""
    return _PARTS.get(str(payload.get("type")), _PARTS.get(kind, "agent"))


def _repeats_item(payload: Mapping[str, Any], index: _Index) -> bool:
    """Whether an event repeats an item: its words, or its call."""
    item = payload.get("item")
    if isinstance(item, dict):
        text = _turn_item_text(item)
        return str(item.get("id")) in index.calls or (bool(text) and hash(text) in index.said)
    said = payload.get(_EVENT_TEXTS.get(str(payload.get("type")), ""))
    return isinstance(said, str) and not payload.get("images") and hash(said) in index.said


def _turn_item_text(item: Mapping[str, Any]) -> str:
    """The words of an item of the newer protocol, as an event holds it."""
    if isinstance(item.get("text"), str):
        return str(item["text"])
    if isinstance(item.get("summary_text"), list):
        return "".join(map(str, item["summary_text"]))
    return _joined(item.get("content"))


def _item_text(item: Mapping[str, Any]) -> str:
    """The words of an item, joined as events join them."""
    return _joined(item.get("content") if item.get("type") == "message" else item.get("summary"))


def _joined(blocks: Any) -> str:
    if not isinstance(blocks, list):
        return ""
    return "".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))


def _starts_turn(item: Mapping[str, Any]) -> bool:
    """Whether a user speaks here, rather than the program."""
    if item.get("type") != "message" or item.get("role") != "user":
        return False
    about = item.get("internal_chat_message_metadata_passthrough")
    kinds = about.get("content_item_kinds") if isinstance(about, dict) else None
    if isinstance(kinds, list) and kinds:
        return any(str(kind).startswith("user.") for kind in kinds)
    return not _item_text(item).lstrip().lower().startswith((*_INSTRUCTIONS, *_REPORTS))


def _is_instruction(item: Mapping[str, Any]) -> bool:
    """Whether the program instructs the model here: that is no talk."""
    if item.get("role") in ("developer", "system"):
        return True
    reports = _item_text(item).lstrip().lower().startswith(_REPORTS)
    return item.get("role") == "user" and not _starts_turn(item) and not reports


def _item_entry(source_id: str, item: Mapping[str, Any], at: int | None, place: str) -> Entry:
    """An item as a message; as a typed part when models have no such message."""
    kind, hidden = item.get("type"), False
    if kind == "message" and item.get("role") in _ROLES:
        message: Message = {"role": item["role"], "content": _content(item.get("content"))}
        used: tuple[str, ...] = ("type", "role", "content")
        hidden = _is_instruction(item)
    elif kind == "reasoning":
        block = {key: value for key, value in item.items() if value is not None}
        return Entry(source_id, {"role": "assistant", "content": [block]}, at, hidden=True, place=place)
    elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
        message = {"role": "assistant", "content": None, "tool_calls": [_call(item, source_id)]}
        used = ("type", "name", "arguments", "input", "action", "call_id")
    elif kind in ("function_call_output", "custom_tool_call_output"):
        message = {"role": "tool", "tool_call_id": str(item.get("call_id", "")), "content": _output(item)}
        used = ("type", "call_id", "output")
    else:
        return aside(source_id, _part_type_of(str(kind), item), item, at, place)
    about = rest_of(item, *used)
    return Entry(source_id, message, at, hidden, extras=(("agent", about),) if about else (), place=place)


def _call(item: Mapping[str, Any], source_id: str) -> dict[str, Any]:
    call_id = str(item.get("call_id") or item.get("id") or source_id)
    if item["type"] == "custom_tool_call":
        custom = {"name": item.get("name", ""), "input": item.get("input", "")}
        return {"id": call_id, "type": "custom", "custom": custom}
    if item["type"] == "local_shell_call":
        name, arguments = "local_shell", json.dumps(item.get("action"), ensure_ascii=False)
    else:
        name, arguments = str(item.get("name", "")), item.get("arguments", "")
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _output(item: Mapping[str, Any]) -> Any:
    output = item.get("output", "")
    if isinstance(output, dict) and isinstance(output.get("content"), str):
        return output["content"]
    return _content(output) if isinstance(output, list) else output


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content if content is not None else ""
    blocks = [_block(block) for block in content]
    if len(blocks) == 1 and isinstance(blocks[0], dict) and set(blocks[0]) == {"type", "text"}:
        return blocks[0]["text"]
    return blocks


def _block(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    if block.get("type") in ("input_text", "output_text") and isinstance(block.get("text"), str):
        return {**block, "type": "text"}
    if block.get("type") == "input_image" and isinstance(block.get("image_url"), str):
        rest = rest_of(block, "type", "image_url")
        return {"type": "image_url", "image_url": {"url": block["image_url"], **rest}}
    return block
