"""From OpenClaw's messages to the core's, and a context back to a list of its own messages and new ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lcm_plugin.interchange.importers.sources.openclaw import from_openclaw, message_name
from lcm_plugin.messages.blocks import calls_of, text_of
from lcm_plugin.types import HOST_DATA, Message

_HOST = "openclaw"
_BLANK = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}
_FREE = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}


def to_core(message: Mapping[str, Any]) -> Message:
    """A message as the core stores it, under an id if it has a time; what only OpenClaw reads stays beside it."""
    shown, extras, _ = from_openclaw(message)
    beside = {key: value for _, about in extras for key, value in about.items()}
    at = message.get("timestamp")
    data = {_HOST: beside, "time": at} | ({"id": message_name(message) or f"{at}/"} if at else {})
    return {**shown, HOST_DATA: data}


def plan(context: Sequence[Message], given: Sequence[Message]) -> list[int | dict[str, Any]]:
    """A context as places in the host's own list where it has the message as it is, and as new messages."""
    places: dict[str, list[int]] = {}
    for place, message in enumerate(given):
        places.setdefault(_bare(message), []).append(place)
    return [_place(places, message) for message in context]


def _place(places: dict[str, list[int]], message: Message) -> int | dict[str, Any]:
    own = places.get(_bare(message))
    return own.pop(0) if own else _made(message)


def _bare(message: Message) -> str:
    kept = {key: value for key, value in message.items() if key != HOST_DATA}
    return json.dumps(kept, sort_keys=True, default=str)


def _made(message: Message) -> dict[str, Any]:
    """A message of the core for OpenClaw, with what it kept beside it."""
    data = message.get(HOST_DATA) or {}
    beside, at = dict(data.get(_HOST) or {}), data.get("time") or 0
    text = [{"type": "text", "text": text_of(message)}] if text_of(message).strip() else []
    if message["role"] == "assistant":
        calls = [
            {"type": "toolCall", "id": one.id, "name": one.name, "arguments": _object(one.arguments)}
            for one in calls_of(message)
        ]
        reason = "toolUse" if calls else "stop"
        needed = {"api": _HOST, "provider": _HOST, "model": _HOST, "usage": {**_BLANK, "cost": _FREE}}
        return {
            **needed,
            "stopReason": reason,
            **beside,
            "role": "assistant",
            "content": text + calls,
            "timestamp": at,
        }
    if message["role"] == "tool":
        name = beside.get("toolName") or message.get("name") or "tool"
        named = {"toolCallId": message.get("tool_call_id"), "toolName": name}
        return {"isError": False, **beside, "role": "toolResult", **named, "content": text, "timestamp": at}
    return {**beside, "role": "user", "content": text, "timestamp": at}


def _object(arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return {"arguments": arguments}
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}
