"""Codex's response items and events as messages and typed parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lcm_plugin.interchange.importers.records import Entry, aside, rest_of
from lcm_plugin.types import Message

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


def part_type_of(kind: str, payload: Mapping[str, Any]) -> str:
    """The part type of a record that is no message."""
    return _PARTS.get(str(payload.get("type")), _PARTS.get(kind, "agent"))


def said_by_event(payload: Mapping[str, Any]) -> str | None:
    """What an event says that an item may say too."""
    text = payload.get(_EVENT_TEXTS.get(str(payload.get("type")), ""))
    return text if isinstance(text, str) and text and not payload.get("images") else None


def text_of_item(item: Mapping[str, Any]) -> str:
    """The words of an item, joined as events join them."""
    blocks = item.get("content") if item.get("type") == "message" else item.get("summary")
    if not isinstance(blocks, list):
        return ""
    return "".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))


def starts_turn(item: Mapping[str, Any]) -> bool:
    """Whether a user speaks here, rather than the program about itself."""
    if item.get("type") != "message" or item.get("role") != "user":
        return False
    return not text_of_item(item).lstrip().startswith(_CONTEXT_NOTES)


def item_entry(source_id: str, item: Mapping[str, Any], at: int | None, place: str) -> Entry:
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
        return aside(source_id, part_type_of(str(kind), item), item, at, place)
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
