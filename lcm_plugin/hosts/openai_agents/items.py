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

from lcm_plugin.types import HOST_DATA, Message

HOST = "openai_agents"
Item = dict[str, Any]
NUMBER = "item"
WRAPS = "wraps"
AS_BLOCK = "as_block"
# A local shell's output names its call by another key, so the core cannot pair the two.
_AS_THEY_ARE = ("function_call", "local_shell_call")


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


def stored_items(message: Message) -> StoredItems | None:
    """The items of a stored message, as they came in; None for a message of another host."""
    data = message.get(HOST_DATA, {}).get(HOST)
    if data is None:
        return None
    if "items" not in data:
        return StoredItems((_unframed(message, data),) if "frame" in data or WRAPS in data else ())
    items: list[Item] = []
    at = 0
    for frame in data["items"]:
        blocks = message["content"][at : at + frame["blocks"]]
        at += frame["blocks"]
        items.append(_restored(blocks, frame))
    return StoredItems(tuple(items), data.get("copied", 0), data.get("rest", False))


def call_of(item: Mapping[str, Any]) -> str | None:
    """The id of the call that an item makes or answers."""
    value = item.get("call_id")
    return value if isinstance(value, str) and value else None


def is_sealed(item: Mapping[str, Any]) -> bool:
    """Whether nobody but its writer can read an item: a compaction of the API, an envelope of the SDK's."""
    return item.get("type") == "compaction" or "__enc__" in item


def is_output(item: Mapping[str, Any]) -> bool:
    """Whether an item answers a call."""
    return call_of(item) is not None and str(item.get("type", "")).endswith("_output")


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
        return {**answer, "content": [output], HOST_DATA: {HOST: {**data, AS_BLOCK: output.get("type")}}}
    return {**answer, "content": dumps(item), HOST_DATA: {HOST: {WRAPS: item["type"]}}}


def _waiting_reasoning(message: Message | None) -> list[Item]:
    """Reasoning at the end of a message that holds nothing else."""
    if message is None or message.get("role") != "assistant":
        return []
    stored = stored_items(message)
    items = stored.items if stored else ()
    return list(items) if all(item.get("type") == "reasoning" for item in items) else []


def _blocks(item: Item, number: int) -> tuple[list[Any], dict[str, Any]]:
    """The content blocks of an item, and what else it takes to make it again."""
    if item.get("role") == "assistant":
        content = item.get("content")
        frame = {"frame": {**item, "content": None}}
        if isinstance(content, str):
            return [{"type": "output_text", "text": content, NUMBER: number}], {**frame, "as_text": True}
        if isinstance(content, list) and all(isinstance(block, dict) for block in content):
            return [{**block, NUMBER: number} for block in content], frame
        return [], {"frame": item, "as_is": True}
    if item.get("type") in _AS_THEY_ARE or call_of(item) is None:
        return [item], {}
    wrapped = {"type": "function_call", "call_id": item["call_id"], "name": item.get("name") or item["type"]}
    return [{**wrapped, "arguments": dumps(item), WRAPS: item["type"]}], {}


def _restored(blocks: Sequence[Any], frame: Mapping[str, Any]) -> Item:
    if "frame" not in frame:
        block: Item = blocks[0]
        return json.loads(block["arguments"]) if WRAPS in block else block
    if frame.get("as_is"):
        return dict(frame["frame"])
    if frame.get("as_text"):
        return {**frame["frame"], "content": blocks[0]["text"]}
    content = [{key: value for key, value in block.items() if key != NUMBER} for block in blocks]
    return {**frame["frame"], "content": content}


def _unframed(message: Message, data: Mapping[str, Any]) -> Item:
    if WRAPS in data:
        return dict(json.loads(message["content"]))
    frame, content = data["frame"], message.get("content")
    if AS_BLOCK in data:
        return {**frame, "output": content[0]}  # type: ignore[index]
    return {**frame, ("output" if "output" in frame else "content"): content}


def dumps(item: Item) -> str:
    """An item or block as JSON, in any script."""
    return json.dumps(item, ensure_ascii=False)
