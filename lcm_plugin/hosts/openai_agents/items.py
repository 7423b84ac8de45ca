"""Items of the Responses API and our messages.

What one model response consists of (reasoning, texts, calls) follows each other as items, and an API refuses
a call without the reasoning before it. So such a run of items is one message, whose content holds one block
for each text, reasoning or call. A user's item is a message, and so is a call's output.

A message item's frame (id, status, key order) is host data; its text blocks carry its number, so that they
find back to it after the core left something out. Calls of other kinds than functions, and their outputs,
are wrapped as functions', since the core pairs those.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lcm_plugin.ingest.references import MARK
from lcm_plugin.types import HOST_DATA, Message

HOST = "openai_agents"
Item = dict[str, Any]
_NUMBER = "item"
_WRAPS = "wraps"
_AS_BLOCK = "as_block"
# A local shell's output names its call by another key, so the core cannot pair the two.
_AS_THEY_ARE = ("function_call", "local_shell_call")
# Elsewhere a reference to a file may stand where an API wants the bytes themselves.
_MAY_REFER = ("function_call", "reasoning")


@dataclass(frozen=True, slots=True)
class StoredItems:
    """A stored message's items. ``copied`` of them, the first ones, stand in an earlier message too.

    ``rest`` marks what remained of a message when its last item was taken back.
    """

    items: tuple[Item, ...]
    copied: int = 0
    rest: bool = False


def to_core(items: Sequence[Item], before: Message | None = None) -> list[Message]:
    """Messages for items, in order. ``before`` is the newest stored message.

    When that is nothing but reasoning, whose item comes only now, a copy of it begins the first message.
    """
    messages: list[Message] = []
    for run in _runs(items):
        if len(run) == 1 and (single := _single(run[0])):
            messages.append(single)
            continue
        waiting = _waiting_reasoning(messages[-1] if messages else before)
        messages.append(assistant_message([*waiting, *run], copied=len(waiting)))
    return messages


def assistant_message(items: Sequence[Item], *, copied: int = 0, rest: bool = False) -> Message:
    """One message of a model response's items."""
    content: list[Any] = []
    frames: list[dict[str, Any]] = []
    for number, item in enumerate(items):
        blocks, frame = _blocks(item, number)
        content += blocks
        frames.append({"blocks": len(blocks), **frame})
    data: dict[str, Any] = {"items": frames}
    data |= {"copied": copied} if copied else {}
    data |= {"rest": True} if rest else {}
    return {"role": "assistant", "content": content, HOST_DATA: {HOST: data}}


def stored_items(message: Message) -> StoredItems:
    """The items of a stored message, as they came in."""
    data = message.get(HOST_DATA, {}).get(HOST)
    if data is None:
        return StoredItems(tuple(shown_items([message])))
    if "items" not in data:
        return StoredItems((_unframed(message, data),) if "frame" in data or _WRAPS in data else ())
    items: list[Item] = []
    at = 0
    for frame in data["items"]:
        blocks = message["content"][at : at + frame["blocks"]]
        at += frame["blocks"]
        items.append(_restored(blocks, frame))
    return StoredItems(tuple(items), data.get("copied", 0), data.get("rest", False))


def shown_items(messages: Sequence[Message]) -> list[Item]:
    """A context as items. What the core shortened or made up comes out as plain texts and function calls."""
    broken = {call for message in messages for call in _broken(message)}
    return [item for message in messages for item in _shown(message, broken)]


def call_of(item: Mapping[str, Any]) -> str | None:
    """The id of the call that an item makes or answers."""
    value = item.get("call_id")
    return value if isinstance(value, str) and value else None


def is_output(item: Mapping[str, Any]) -> bool:
    """Whether an item answers a call."""
    return call_of(item) is not None and str(item.get("type", "")).endswith("_output")


# items -> blocks


def _runs(items: Sequence[Item]) -> Iterator[list[Item]]:
    """The items, those that a model wrote one after the other together."""
    run: list[Item] = []
    for item in items:
        if _is_written_by_model(item):
            run.append(item)
            continue
        if run:
            yield run
        yield [item]
        run = []
    if run:
        yield run


def _is_written_by_model(item: Item) -> bool:
    role = item.get("role")
    return role == "assistant" if role is not None else not is_output(item)


def _single(item: Item) -> Message | None:
    """The message of an item that no model wrote."""
    if _is_written_by_model(item):
        return None
    if not is_output(item):
        frame = {**item, "content": None}
        return {"role": item["role"], "content": item.get("content"), HOST_DATA: {HOST: {"frame": frame}}}
    answer: Message = {"role": "tool", "tool_call_id": item["call_id"]}
    output, data = item.get("output"), {"frame": {**item, "output": None}}
    if item["type"] == "function_call_output" and isinstance(output, (str, list)):
        return {**answer, "content": output, HOST_DATA: {HOST: data}}
    if isinstance(output, dict):
        return {**answer, "content": [output], HOST_DATA: {HOST: {**data, _AS_BLOCK: output.get("type")}}}
    return {**answer, "content": _dumps(item), HOST_DATA: {HOST: {_WRAPS: item["type"]}}}


def _waiting_reasoning(message: Message | None) -> list[Item]:
    """Reasoning at the end of a message that holds nothing else."""
    if message is None or message.get("role") != "assistant":
        return []
    items = stored_items(message).items
    return list(items) if items and all(item.get("type") == "reasoning" for item in items) else []


def _blocks(item: Item, number: int) -> tuple[list[Any], dict[str, Any]]:
    """The content blocks of an item, and what else it takes to make it again."""
    if item.get("role") == "assistant":
        content = item.get("content")
        frame = {"frame": {**item, "content": None}}
        if isinstance(content, str):
            return [{"type": "output_text", "text": content, _NUMBER: number}], {**frame, "as_text": True}
        if isinstance(content, list) and all(isinstance(block, dict) for block in content):
            return [{**block, _NUMBER: number} for block in content], frame
        return [], {"frame": item, "as_is": True}
    if item.get("type") in _AS_THEY_ARE or call_of(item) is None:
        return [item], {}
    wrapped = {"type": "function_call", "call_id": item["call_id"], "name": item.get("name") or item["type"]}
    return [{**wrapped, "arguments": _dumps(item), _WRAPS: item["type"]}], {}


# blocks -> items


def _restored(blocks: Sequence[Any], frame: Mapping[str, Any]) -> Item:
    if "frame" not in frame:
        block: Item = blocks[0]
        return json.loads(block["arguments"]) if _WRAPS in block else block
    if frame.get("as_is"):
        return dict(frame["frame"])
    if frame.get("as_text"):
        return {**frame["frame"], "content": blocks[0]["text"]}
    content = [{key: value for key, value in block.items() if key != _NUMBER} for block in blocks]
    return {**frame["frame"], "content": content}


def _unframed(message: Message, data: Mapping[str, Any]) -> Item:
    if _WRAPS in data:
        return dict(json.loads(message["content"]))
    frame, content = data["frame"], message.get("content")
    if _AS_BLOCK in data:
        return {**frame, "output": content[0]}  # type: ignore[index]
    return {**frame, ("output" if "output" in frame else "content"): content}


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
        yield {**data["frame"], "content": content}
    else:
        yield {"role": role, "content": _input_blocks(content)}


def _input_blocks(content: Any) -> Any:
    """Content blocks of OpenAI's chat shape as the Responses API takes them."""
    if not isinstance(content, list):
        return content
    blocks: list[Item] = []
    for block in content:
        if block.get("type") == "text":
            blocks.append({"type": "input_text", "text": block["text"]})
        elif block.get("type") == "image_url":
            image = block["image_url"]
            url = image.get("url") if isinstance(image, dict) else image
            blocks.append({"type": "input_image", "image_url": url, "detail": "auto"})
        else:
            known = str(block.get("type")).startswith("input_")
            blocks.append(block if known else {"type": "input_text", "text": _dumps(block)})
    return blocks


def _shown_output(message: Message, data: Mapping[str, Any], broken: set[str]) -> Item:
    call_id, content = message["tool_call_id"], message.get("content")
    if _WRAPS in data and call_id not in broken:
        return {**json.loads(str(content)), "call_id": call_id}
    if _AS_BLOCK in data and call_id not in broken:
        return {**data["frame"], "call_id": call_id, "output": content[0]}  # type: ignore[index]
    if "frame" in data and _AS_BLOCK not in data:
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
        at = block.get(_NUMBER, -1)
        if texts and at != number:
            yield _shown_message(texts, frames[number] if frames and number < len(frames) else {})
            texts = []
        if at >= 0:
            number = at
            texts.append({key: value for key, value in block.items() if key != _NUMBER})
        elif block.get("type") in ("output_text", "text"):
            yield {"role": "assistant", "content": block["text"]}
        elif block and block.get("type") not in _MAY_REFER and MARK in _dumps(block):
            yield {"role": "assistant", "content": _dumps(block)}
        elif _WRAPS in block and block["call_id"] not in broken:
            yield {**json.loads(block["arguments"]), "call_id": block["call_id"]}
        elif block:
            left_out = (_WRAPS,) if frames is not None else (_WRAPS, "id")
            yield {key: value for key, value in block.items() if key not in left_out}


def _shown_message(texts: list[Item], frame: Mapping[str, Any]) -> Item:
    if frame.get("as_text"):
        return {**frame["frame"], "content": "".join(block["text"] for block in texts)}
    return {**frame.get("frame", {"role": "assistant"}), "content": texts}


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
        changed = _WRAPS in block and not _unwraps(block.get("arguments"), block[_WRAPS])
        if changed or _is_output_block(block):
            yield str(block["call_id"])


def _is_whole_output(content: Any, data: Mapping[str, Any]) -> bool:
    """Whether an output can be shown as the item that it was."""
    if _WRAPS in data:
        return _unwraps(content, data[_WRAPS])
    if _AS_BLOCK in data:
        block = content[0] if isinstance(content, list) and len(content) == 1 else None
        return isinstance(block, dict) and block.get("type") == data[_AS_BLOCK] and MARK not in _dumps(block)
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


def _dumps(item: Item) -> str:
    return json.dumps(item, ensure_ascii=False)
