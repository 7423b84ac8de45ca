"""Codex's rollouts: ``~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl``.

Each line has a type and a payload: ``response_item`` is what the model saw or wrote, ``event_msg`` what happened
around it (it repeats what was said), ``compacted`` a compaction, ``session_meta`` and ``turn_context`` the settings.
The first versions wrote bare items. Rolled-back turns are a branch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.json_files import Line, LineFile
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
from lcm_plugin.messages.identity import told_time
from lcm_plugin.types import Message

NAME = "codex"
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
_ITEMS = frozenset({"message", "reasoning", "function_call", "function_call_output", "local_shell_call"})
_CONTEXT_NOTES = ("<environment_context>", "<user_instructions>", "# AGENTS.md", "<turn_aborted>")
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
    return path.name.startswith("rollout-") and (bare_header or first.get("type") in _ITEMS)


@dataclass(slots=True)
class _Index:
    """The result of a first pass: the session, hashes of the items' texts, and the rolled-back lines."""

    name: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    started_at: int | None = None
    said: set[int] = field(default_factory=set)
    dead: list[tuple[int, int]] = field(default_factory=list)

    def is_dead(self, number: int) -> bool:
        return any(low <= number < high for low, high in self.dead)


def read(path: Path) -> Iterator[Record]:
    """The records of a file: the live ones, then the turns of each roll-back."""
    with LineFile(path) as lines:
        index = _look_over(lines, path)
        parent = _parent_of(index.about)
        yield SourceConversation(index.name, started_at=index.started_at, parent=parent, about=index.about)
        yield from _records(lines, index, lambda number: not index.is_dead(number), with_broken=True)
        for low, high in index.dead:
            yield SourceConversation(
                index.name, branch=f"line-{low}", live=False, about={"rolled_back_at": f"line {high}"}
            )
            yield from _records(lines, index, lambda number, a=low, b=high: a <= number < b)


def _look_over(lines: LineFile, path: Path) -> _Index:
    index = _Index(path.stem)
    turns: list[int] = []
    named = False
    for line in lines:
        if line.error:
            continue
        kind, payload = _taken_apart(line.value)
        if index.started_at is None:
            index.started_at = told_time(line.value) or told_time(payload)
        if kind == "session_meta" and not named:
            named = True
            index.name = str(payload.get("id") or payload.get("session_id") or index.name)
            index.about = dict(payload)
        elif kind == "response_item":
            if text := _item_text(payload):
                index.said.add(hash(text))
            if _starts_turn(payload):
                turns.append(line.number)
        elif kind == "event_msg" and payload.get("type") == "thread_rolled_back":
            count = payload.get("num_turns")
            if isinstance(count, int) and count > 0 and turns:
                low = turns[max(0, len(turns) - count)]
                del turns[max(0, len(turns) - count) :]
                index.dead = [span for span in index.dead if span[0] < low]
                index.dead.append((low, line.number))
    return index


def _parent_of(about: Mapping[str, Any]) -> str:
    """The thread that a sub-agent's thread works for."""
    source = about.get("source")
    agent = source.get("subagent", source.get("sub_agent")) if isinstance(source, dict) else None
    spawn = agent.get("thread_spawn") if isinstance(agent, dict) else None
    found = spawn.get("parent_thread_id") if isinstance(spawn, dict) else about.get("parent_thread_id")
    return str(found) if found else ""


def _records(lines: LineFile, index: _Index, wanted: Any, *, with_broken: bool = False) -> Iterator[Record]:
    last = ""
    for line in lines:
        if line.error:
            if with_broken:
                yield Broken(line.number, line.error)
            continue
        if not wanted(line.number):
            continue
        record = _record(line, index, last)
        yield record
        if isinstance(record, ImportedCompaction):
            last = record.entry.host_id
        elif not isinstance(record, (Repeat, SourceConversation, Broken)):
            last = getattr(record, "host_id", last)


def _record(line: Line, index: _Index, last: str) -> Record:
    kind, payload = _taken_apart(line.value)
    at = told_time(line.value) or told_time(payload)
    place = f"line {line.number}"
    source_id = content_id(line.number, line.value)
    if kind == "response_item":
        return _item_entry(source_id, payload, at, place)
    if kind == "compacted":
        entry = aside(source_id, "compaction", payload, at, place)
        text = payload.get("message")
        return (
            ImportedCompaction(text, last, entry)
            if isinstance(text, str) and text.strip() and last
            else entry
        )
    if kind == "event_msg":
        said = _event_text(payload)
        if said is not None and hash(said) in index.said:
            return Repeat(f"event_msg/{payload.get('type')}")
    return aside(source_id, _part_type_of(kind, payload), line.value, at, place)


def _taken_apart(value: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A line's type and payload; a bare item is a response item, a bare header the session's."""
    kind, payload = value.get("type"), value.get("payload")
    if isinstance(payload, dict):
        return str(kind), payload
    if kind in _ITEMS or (isinstance(kind, str) and kind.endswith(("_call", "_call_output"))):
        return "response_item", dict(value)
    if kind is None and "id" in value and "timestamp" in value:
        return "session_meta", dict(value)
    return str(kind or value.get("record_type") or ""), dict(value)


def _part_type_of(kind: str, payload: Mapping[str, Any]) -> str:
    """The part type of a record that is no message."""
    return _PARTS.get(str(payload.get("type")), _PARTS.get(kind, "agent"))


def _event_text(payload: Mapping[str, Any]) -> str | None:
    """The text of an event that an item may repeat."""
    text = payload.get(_EVENT_TEXTS.get(str(payload.get("type")), ""))
    return text if isinstance(text, str) and text and not payload.get("images") else None


def _item_text(item: Mapping[str, Any]) -> str:
    """The words of an item, joined as events join them."""
    blocks = item.get("content") if item.get("type") == "message" else item.get("summary")
    if not isinstance(blocks, list):
        return ""
    return "".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))


def _starts_turn(item: Mapping[str, Any]) -> bool:
    """Whether a user speaks here, rather than the program about itself."""
    if item.get("type") != "message" or item.get("role") != "user":
        return False
    return not _item_text(item).lstrip().startswith(_CONTEXT_NOTES)


def _item_entry(source_id: str, item: Mapping[str, Any], at: int | None, place: str) -> Entry:
    """An item as a message; as a typed part when models have no such message."""
    kind = item.get("type")
    if kind == "message" and item.get("role") in _ROLES:
        message: Message = {"role": item["role"], "content": _content(item.get("content"))}
        used: tuple[str, ...] = ("type", "role", "content")
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
    return Entry(source_id, message, at, extras=(("agent", about),) if about else (), place=place)


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
