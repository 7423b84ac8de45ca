"""A model's response as one assistant's message of the core, and back, its parts in their order.

Texts, thinking and the provider's own blocks stand in the content, calls in ``tool_calls``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lcm_plugin.hosts.pydantic_ai.content import HOST, dumps, without_nones
from lcm_plugin.types import HOST_DATA, Message

_BLOCK, _CALL = "b", "c"
_ARGS = "args"


def response_to_core(response: Mapping[str, Any], asked_model: str | None) -> Message:
    """A dumped response. ``asked_model`` is the name by which the model was asked, which may be shorter."""
    blocks, calls, extras, order = [], [], [], ""
    for part in response["parts"]:
        if part["part_kind"] == "tool-call":
            call, extra = _call_to_core(part)
            calls.append(call)
            extras.append(extra)
            order += _CALL
        else:
            blocks.append(_block_to_core(part))
            order += _BLOCK
    header = without_nones(response, "parts", "kind", "timestamp")
    usage = {key: value for key, value in (header.pop("usage", None) or {}).items() if value}
    data: dict[str, Any] = {"response": {**header, "usage": usage} if usage else header}
    if order != _BLOCK * len(blocks) + _CALL * len(calls):
        data["order"] = order
    if any(extras):
        data["calls"] = extras
    message: Message = {
        "role": "assistant",
        "content": _as_content(blocks),
        "timestamp": response["timestamp"],
    }
    if calls:
        message["tool_calls"] = calls
    model = asked_model or response.get("model_name")
    if model:
        message["model"] = model
    return {**message, HOST_DATA: {HOST: data}}


def response_from_core(message: Message, no_time: str) -> dict[str, Any]:
    """The dumped response; of one that the core has changed, what is left of it."""
    own = (message.get(HOST_DATA) or {}).get(HOST) or {}
    content = message.get("content")
    blocks = [_block_from_core(block) for block in _as_blocks(content)]
    made = message.get("tool_calls") or []
    extras = own.get("calls") or []
    extras = extras if len(extras) == len(made) else [{}] * len(made)
    calls = [_call_from_core(call, extra) for call, extra in zip(made, extras, strict=True)]
    order = own.get("order", "")
    if (order.count(_BLOCK), order.count(_CALL)) != (len(blocks), len(calls)):
        order = _BLOCK * len(blocks) + _CALL * len(calls)
    sources = {_BLOCK: iter(blocks), _CALL: iter(calls)}
    return {
        "kind": "response",
        "parts": [next(sources[step]) for step in order],
        "timestamp": message.get("timestamp", no_time),
        **own.get("response", {}),
    }


def _as_content(blocks: list[dict[str, Any]]) -> Any:
    if not blocks:
        return None
    only_text = len(blocks) == 1 and list(blocks[0]) == ["type", "text"]
    return blocks[0]["text"] if only_text else blocks


def _as_blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, list):
        return content
    return [] if content is None else [{"type": "text", "text": content}]


def _block_to_core(part: Mapping[str, Any]) -> dict[str, Any]:
    kind = part["part_kind"]
    if kind in ("text", "thinking"):
        extra = without_nones(part, "content", "part_kind", "signature")
        block = {"type": kind, kind: part["content"]}
        if part.get("signature"):
            block["signature"] = part["signature"]
        return {**block, HOST: extra} if extra else block
    if kind == "file":
        # Flat, as the core knows media; the part's own fields go apart.
        extra = without_nones(part, "content", "part_kind")
        return {"type": kind, **without_nones(part["content"]), HOST: extra}
    return {"type": kind, **without_nones(part, "part_kind")}


def _block_from_core(block: dict[str, Any]) -> dict[str, Any]:
    kind, extra = block["type"], block.get(HOST, {})
    if kind in ("text", "thinking"):
        part = {"part_kind": kind, "content": block.get(kind, ""), **extra}
        return {**part, "signature": block["signature"]} if "signature" in block else part
    rest = {key: value for key, value in block.items() if key not in ("type", HOST)}
    if kind == "file":
        return {"part_kind": kind, "content": rest, **extra}
    return {"part_kind": kind, **rest}


def _call_to_core(part: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    args = part.get("args")
    extra = without_nones(part, "part_kind", "tool_name", "tool_call_id", "args")
    if not isinstance(args, str):
        extra[_ARGS] = "none" if args is None else "object"
    arguments = args if isinstance(args, str) else "" if args is None else dumps(args)
    function = {"name": part["tool_name"], "arguments": arguments}
    return {"id": part["tool_call_id"], "type": "function", "function": function}, extra


def _call_from_core(call: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    rest = dict(extra)
    written, args = rest.pop(_ARGS, "text"), function.get("arguments")
    if written == "none" and args in ("", "{}"):
        args = None
    elif written == "object":
        args = json.loads(args)
    return {
        "part_kind": "tool-call",
        "tool_name": function["name"],
        "args": args,
        "tool_call_id": call["id"],
        **rest,
    }
