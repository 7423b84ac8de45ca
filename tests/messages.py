"""Short ways to write messages in tests."""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]


def user(text: Any, **keys: Any) -> Message:
    return {"role": "user", "content": text, **keys}


def assistant(text: Any, **keys: Any) -> Message:
    return {"role": "assistant", "content": text, **keys}


def call(call_id: str, name: str = "look", arguments: str = "{}", text: str | None = None) -> Message:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": text,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def calls(*call_ids: str, name: str = "look") -> Message:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
            for call_id in call_ids
        ],
    }


def result(call_id: str, text: Any) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": text}
