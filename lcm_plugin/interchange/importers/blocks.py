"""OpenClaw's message blocks in the shapes that this package knows. Nothing of a block is left out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lcm_plugin.interchange.importers.records import rest_of
from lcm_plugin.messages.blocks import awaits_answer
from lcm_plugin.types import Message

Extras = tuple[tuple[str, Mapping[str, Any]], ...]
_ROLES = frozenset({"user", "assistant", "system", "developer", "tool"})


def from_openclaw(message: Mapping[str, Any]) -> tuple[Message, Extras, str | None]:
    """A message as models take it, its other data, and who wrote it."""
    role = str(message["role"])
    sender = _sender(message)
    if role in ("toolResult", "tool"):
        shown: Message = {
            "role": "tool",
            "tool_call_id": str(message.get("toolCallId") or message.get("tool_call_id") or ""),
            "content": _content(message.get("content")),
        }
        if name := message.get("toolName") or message.get("tool_name"):
            shown["name"] = name
        used: tuple[str, ...] = ("role", "toolCallId", "tool_call_id", "toolName", "tool_name", "content")
    elif role == "bashExecution" and "command" in message:
        shown = {"role": "user", "content": _shell(message)}
        used = ("role", "command", "output")
    else:
        shown = {"role": role if role in _ROLES else "user", "content": _content(message.get("content"))}
        used = ("content",) if role not in _ROLES else ("role", "content")
        for key in ("tool_calls", "reasoning_content", "name"):
            if key in message:
                shown[key] = message[key]
                used = (*used, key)
    about = rest_of(message, *used)
    return shown, (("agent", about),) if about else (), sender


def _content(content: Any) -> Any:
    if isinstance(content, list):
        return [_block(block) if isinstance(block, dict) else block for block in content]
    return content if content is not None else ""


def _block(block: dict[str, Any]) -> dict[str, Any]:
    kind = block.get("type")
    if kind and awaits_answer(block):
        arguments = block.get("arguments", block.get("input", {}))
        if isinstance(arguments, str):
            arguments = _decoded(arguments)
        rest = rest_of(block, "type", "id", "name", "arguments", "input")
        return {
            "type": "tool_use",
            "id": block.get("id") or block.get("call_id") or "",
            "name": block.get("name", ""),
            "input": arguments,
            **rest,
        }
    if kind == "thinking" and "thinkingSignature" in block:
        rest = {key: value for key, value in block.items() if key != "thinkingSignature"}
        return {**rest, "signature": block["thinkingSignature"]}
    if kind == "image" and isinstance(block.get("data"), str):
        source = {"type": "base64", "media_type": block.get("mimeType", ""), "data": block["data"]}
        return {"type": "image", "source": source, **rest_of(block, "type", "data", "mimeType")}
    return block


def _decoded(arguments: str) -> Any:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return {"arguments": arguments}
    return value if isinstance(value, dict) else {"arguments": value}


def _shell(message: Mapping[str, Any]) -> str:
    return f"$ {message.get('command', '')}\n{message.get('output', '')}"


def _sender(message: Mapping[str, Any]) -> str | None:
    for key in ("senderName", "senderId", "sender"):
        value = message.get(key)
        if isinstance(value, dict):
            value = value.get("name") or value.get("id")
        if isinstance(value, (str, int)) and value != "":
            return str(value)
    return None
