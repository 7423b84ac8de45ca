"""From an assembled context to the items of a model call.

What the core left as it was becomes the item that it was. What it shortened or made up (a summary, a result
that nobody recorded) becomes plain texts and function calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lcm_plugin.files.references import MARK
from lcm_plugin.hosts.openai_agents.items import AS_BLOCK, HOST, NUMBER, WRAPS, Item, dumps
from lcm_plugin.types import HOST_DATA, Message

# Elsewhere a reference to a file may stand where an API wants the bytes themselves.
_MAY_REFER = ("function_call", "reasoning")
_REPLIES = ("output_text", "refusal")
_MESSAGE_KEYS = frozenset({"type", "id", "role", "status", "phase", "content"})


def shown_items(messages: Sequence[Message]) -> list[Item]:
    """A context as items."""
    broken = {call for message in messages for call in _broken(message)}
    return [item for message in messages for item in _shown(message, broken)]


def _shown(message: Message, broken: set[str]) -> Iterator[Item]:
    role, content = message["role"], message.get("content")
    data = message.get(HOST_DATA, {}).get(HOST) or {}
    if role == "tool":
        yield _shown_output(message, data, broken)
    elif role == "assistant":
        yield from _shown_response(content, data.get("items"), broken)
        yield from _shown_calls(message)
    elif isinstance(content, list) and any(_is_output_block(block) for block in content):
        yield from (block for block in content if _is_output_block(block))
    elif "frame" in data:
        yield _message_item({**data["frame"], "role": role}, _input_blocks(content))
    else:
        yield {"role": role, "content": _input_blocks(content)}


def _input_blocks(content: Any) -> Any:
    """Content as the Responses API takes it: blocks of OpenAI's chat shape become its own, what it has not, text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return dumps(content)
    blocks: list[Item] = []
    for block in content:
        if not isinstance(block, dict):
            blocks.append({"type": "input_text", "text": block if isinstance(block, str) else dumps(block)})
        elif block.get("type") == "text":
            blocks.append({"type": "input_text", "text": block["text"]})
        elif block.get("type") == "image_url":
            image = block["image_url"]
            url = image.get("url") if isinstance(image, dict) else image
            blocks.append({"type": "input_image", "image_url": url, "detail": "auto"})
        else:
            known = str(block.get("type")).startswith("input_")
            blocks.append(block if known else {"type": "input_text", "text": dumps(block)})
    return blocks


def _shown_output(message: Message, data: Mapping[str, Any], broken: set[str]) -> Item:
    call_id, content = message["tool_call_id"], message.get("content")
    if WRAPS in data and call_id not in broken:
        return {**json.loads(str(content)), "call_id": call_id}
    if AS_BLOCK in data and call_id not in broken:
        return {**data["frame"], "call_id": call_id, "output": content[0]}  # type: ignore[index]
    if "frame" in data and AS_BLOCK not in data:
        return {**data["frame"], "call_id": call_id, "output": content}
    return {"type": "function_call_output", "call_id": call_id, "output": content}


def _shown_response(
    content: Any, frames: Sequence[Mapping[str, Any]] | None, broken: set[str]
) -> Iterator[Item]:
    """A response's items from those of its blocks that are left.

    A call that the core repeats for a late output stands there without its reasoning. It goes without its
    id, by which an API would miss that.
    """
    if isinstance(content, str):
        yield {"role": "assistant", "content": content}
        return
    texts: list[Item] = []
    number = -1
    for block in [*(content or ()), {}]:
        at = block.get(NUMBER, -1)
        if texts and at != number:
            yield _shown_message(texts, frames[number] if frames and number < len(frames) else {})
            texts = []
        if at >= 0:
            number = at
            texts.append(_output_block({key: value for key, value in block.items() if key != NUMBER}))
        elif block.get("type") in ("output_text", "text"):
            yield {"role": "assistant", "content": block["text"]}
        elif block and block.get("type") not in _MAY_REFER and MARK in dumps(block):
            yield {"role": "assistant", "content": dumps(block)}
        elif WRAPS in block and block["call_id"] not in broken:
            yield {**json.loads(block["arguments"]), "call_id": block["call_id"]}
        elif block and not isinstance(block.get("type"), str):
            yield {"role": "assistant", "content": dumps(block)}
        elif block:
            left_out = (WRAPS,) if frames is not None else (WRAPS, "id")
            yield {key: value for key, value in block.items() if key not in left_out}


def _output_block(block: Item) -> Item:
    """A block of a reply as the Responses API takes it."""
    if block.get("type") in _REPLIES:
        return block
    text = block["text"] if block.get("type") == "text" and "text" in block else dumps(block)
    return {"type": "output_text", "text": text, "annotations": []}


def _shown_message(texts: list[Item], frame: Mapping[str, Any]) -> Item:
    if frame.get("as_text"):
        return _message_item(frame["frame"], "".join(block["text"] for block in texts))
    return _message_item(frame.get("frame", {"role": "assistant"}), texts)


def _message_item(frame: Mapping[str, Any], content: Any) -> Item:
    """A message item without keys that no API knows: the SDK's own converter refuses the whole input for one."""
    item = {**frame, "content": content}
    return {key: value for key, value in item.items() if key in _MESSAGE_KEYS}


def _shown_calls(message: Message) -> Iterator[Item]:
    """Calls in OpenAI's chat shape, of a conversation that another host began."""
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        yield {
            "type": "function_call",
            "call_id": call.get("id"),
            "name": function.get("name"),
            "arguments": function.get("arguments"),
        }


def _broken(message: Message) -> Iterator[str]:
    """Ids of wrapped calls of which the call or the output can no longer be unwrapped."""
    data = message.get(HOST_DATA, {}).get(HOST) or {}
    if message["role"] == "tool":
        if not _is_whole_output(message.get("content"), data):
            yield str(message.get("tool_call_id"))
        return
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        changed = WRAPS in block and not _unwraps(block.get("arguments"), block[WRAPS])
        if changed or _is_output_block(block):
            yield str(block["call_id"])


def _is_whole_output(content: Any, data: Mapping[str, Any]) -> bool:
    """Whether an output can be shown as the item that it was."""
    if WRAPS in data:
        return _unwraps(content, data[WRAPS])
    if AS_BLOCK in data:
        block = content[0] if isinstance(content, list) and len(content) == 1 else None
        return isinstance(block, dict) and block.get("type") == data[AS_BLOCK] and MARK not in dumps(block)
    return "frame" in data


def _unwraps(text: Any, kind: str) -> bool:
    if not isinstance(text, str) or MARK in text:
        return False
    try:
        item = json.loads(text)
    except (TypeError, ValueError):
        return False
    return isinstance(item, dict) and item.get("type") == kind


def _is_output_block(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "function_call_output"
