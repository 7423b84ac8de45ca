"""One stored message in the shape that every provider takes.

Blank content goes, arguments become a JSON object in a string, and OpenAI's old ``function_call`` becomes
a tool call. A message that is fine already comes back as the same object; inputs are never changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lcm_plugin.messages.validate import blank_block, is_blank, is_json_object
from lcm_plugin.types import Message

EMPTY_RESULT = "(empty)"
REASONING_KEYS = ("reasoning_content", "reasoning", "thinking", "reasoning_details", "thinking_blocks")
REASONING_BLOCKS = frozenset({"thinking", "reasoning", "redacted_thinking"})
CALL_BLOCKS = frozenset({"tool_use", "tool_call", "function_call"})
RESULT_BLOCKS = frozenset({"tool_result", "function_call_output"})
_LEGACY_ID = "call_"


def presentable(message: Message) -> Message | None:
    """The message without blank content; None when nothing remains that a model could be shown."""
    message = _only_own_calls(_without_legacy_calls(message))
    if isinstance(message.get("content"), list):
        message = _with_content(message, _clean_blocks(message["content"]))
    if message.get("tool_calls"):
        message = _with_sound_calls(message)
    if isinstance(message.get("content"), list) and _only_reasoning(message["content"]):
        return message if _makes_calls(message) else None
    if not is_blank(message):
        return message
    if message["role"] == "tool":
        return {**message, "content": EMPTY_RESULT}
    if isinstance(message.get("refusal"), str) and message["refusal"].strip():
        return {**message, "content": message["refusal"]}
    if _makes_calls(message):
        return message if message.get("content") is None else {**message, "content": None}
    return message if message.get("audio") else None


def reasoning_author(message: Message) -> str | None:
    """The model that wrote the message's reasoning, when there is any and the host names the model."""
    author = message.get("model")
    if not isinstance(author, str) or not author:
        return None
    content = message.get("content")
    has_blocks = isinstance(content, list) and any(_is_reasoning(block) for block in content)
    return author if has_blocks or any(message.get(key) for key in REASONING_KEYS) else None


def same_model(one: str, other: str) -> bool:
    """Whether two names mean the same model; a provider's prefix does not count."""
    return one.rsplit("/", 1)[-1] == other.rsplit("/", 1)[-1]


def without_reasoning(message: Message) -> Message:
    """The message without its reasoning."""
    kept = {key: value for key, value in message.items() if key not in REASONING_KEYS}
    if isinstance(kept.get("content"), list):
        kept["content"] = [block for block in kept["content"] if not _is_reasoning(block)]
    return kept


def call_ids(message: Message) -> tuple[str, ...]:
    """The id of every call that a message makes, in order; an empty text for a call without one."""
    found = [call.get("id") for call in _dicts(message.get("tool_calls"))]
    found += [block.get("call_id") or block.get("id") for block in blocks_of(message, CALL_BLOCKS)]
    return tuple(str(value) if value else "" for value in found)


def answer_ids(message: Message) -> tuple[str, ...]:
    """The id of every call that a message answers, in order; an empty text where the host gave none."""
    if message["role"] == "tool":
        return (str(message.get("tool_call_id") or ""),)
    found = [block.get("tool_use_id") or block.get("call_id") for block in blocks_of(message, RESULT_BLOCKS)]
    return tuple(str(value) if value else "" for value in found)


def blocks_of(message: Message, kinds: frozenset[str]) -> list[dict[str, Any]]:
    """The content blocks of some kinds."""
    content = message.get("content")
    return [block for block in _dicts(content) if str(block.get("type")) in kinds]


def words_beside_results(message: Message) -> Message | None:
    """What a user's message says besides the results in it; None when it says nothing."""
    content = message.get("content")
    if message["role"] != "user" or not isinstance(content, list):
        return None
    rest = [block for block in content if not _is_result(block)]
    return {**message, "content": rest} if rest and len(rest) < len(content) else None


def only_results(message: Message, indices: Sequence[int], names: Sequence[str]) -> Message:
    """The message with just some of its results, in their order, under other call ids."""
    if message["role"] == "tool":
        return {**message, "tool_call_id": names[0]}
    results = blocks_of(message, RESULT_BLOCKS)
    kept = [_with_id(results[index], name) for index, name in zip(indices, names, strict=True)]
    return {**message, "content": kept}


def rename_calls(message: Message, names: Sequence[str]) -> Message:
    """The message with other ids for its calls, one name for each of `call_ids`."""
    given = iter(names)
    renamed = dict(message)
    if isinstance(message.get("tool_calls"), list):
        renamed["tool_calls"] = [
            {**call, "id": next(given)} if isinstance(call, dict) else call for call in message["tool_calls"]
        ]
    if isinstance(message.get("content"), list):
        renamed["content"] = [
            _with_id(block, next(given))
            if isinstance(block, dict) and str(block.get("type")) in CALL_BLOCKS
            else block
            for block in message["content"]
        ]
    return renamed


def only_call(message: Message, call_id: str) -> Message | None:
    """A bare assistant message with just the call of that id; None when the message does not make it."""
    for call in _dicts(message.get("tool_calls")):
        if call.get("id") == call_id:
            return {"role": "assistant", "content": None, "tool_calls": [call]}
    for block in blocks_of(message, CALL_BLOCKS):
        if call_id in (block.get("id"), block.get("call_id")):
            return {"role": "assistant", "content": [block]}
    return None


def answer_like(caller: Message, call_id: str, index: int, text: str) -> Message:
    """A result in the style of the caller's call number ``index``."""
    if index < len(_dicts(caller.get("tool_calls"))):
        return {"role": "tool", "tool_call_id": call_id, "content": text}
    block = blocks_of(caller, CALL_BLOCKS)[index - len(_dicts(caller.get("tool_calls")))]
    if block.get("type") == "tool_use":
        result = {"type": "tool_result", "tool_use_id": call_id, "content": text}
    else:
        result = {"type": "function_call_output", "call_id": call_id, "output": text}
    return {"role": "user", "content": [result]}


def copy_message(message: Message) -> Message:
    """A copy that a host may change."""
    return {key: value if type(value) is str else _copy(value) for key, value in message.items()}


def _only_own_calls(message: Message) -> Message:
    """The message without calls, unless it is an assistant's: in another role no provider takes them."""
    calls = blocks_of(message, CALL_BLOCKS)
    if message["role"] == "assistant" or not (calls or message.get("tool_calls")):
        return message
    kept = {key: value for key, value in message.items() if key != "tool_calls"}
    if calls:
        kept["content"] = [block for block in message["content"] if not any(block is call for call in calls)]
    return kept


def _without_legacy_calls(message: Message) -> Message:
    if message["role"] == "function":
        kept = {key: value for key, value in message.items() if key != "role"}
        return {"role": "tool", "tool_call_id": f"{_LEGACY_ID}{message.get('name', '')}", **kept}
    function = message.get("function_call")
    if not isinstance(function, Mapping) or message.get("tool_calls"):
        return message
    call = {"id": f"{_LEGACY_ID}{function.get('name', '')}", "type": "function", "function": dict(function)}
    kept = {key: value for key, value in message.items() if key != "function_call"}
    return {**kept, "tool_calls": [call]}


def _with_content(message: Message, content: list[Any]) -> Message:
    return message if content is message["content"] else {**message, "content": content}


def _clean_blocks(content: list[Any]) -> list[Any]:
    """The blocks without blank ones, a result's inner blocks too; the same list when all is fine."""
    cleaned = [_clean_result(block) if _is_result(block) else block for block in content]
    kept = [block for block in cleaned if not blank_block(block)]
    unchanged = len(kept) == len(content) and all(map(_is_same, kept, content))
    return content if unchanged else kept


def _clean_result(block: dict[str, Any]) -> dict[str, Any]:
    key = "output" if block.get("type") == "function_call_output" else "content"
    inner = block.get(key)
    if isinstance(inner, list):
        kept = [item for item in inner if not blank_block(item)]
        if len(kept) == len(inner) and kept:
            return block
        return {**block, key: kept or EMPTY_RESULT}
    blank = inner is None or (isinstance(inner, str) and not inner.strip())
    return {**block, key: EMPTY_RESULT} if blank else block


def _with_sound_calls(message: Message) -> Message:
    calls = message["tool_calls"]
    if not isinstance(calls, list):
        return {key: value for key, value in message.items() if key != "tool_calls"}
    sound = [_sound_call(call) for call in calls if _is_call(call)]
    if len(sound) == len(calls):
        return message if all(map(_is_same, sound, calls)) else {**message, "tool_calls": sound}
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "tool_calls": sound} if sound else rest


def _is_call(call: Any) -> bool:
    """Whether something in ``tool_calls`` names what is called."""
    if not isinstance(call, dict):
        return False
    return any(isinstance(call.get(holder), dict) for holder in ("function", "custom")) or "name" in call


def _sound_call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return call
    arguments = function.get("arguments")
    if isinstance(arguments, str) and is_json_object(arguments):
        return call
    return {**call, "function": {**function, "arguments": _as_json_object(arguments)}}


def _as_json_object(arguments: Any) -> str:
    """Arguments that a model garbled, or a host gave as values, as one JSON object in a string."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return "{}"
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return json.dumps({"unreadable_arguments": arguments}, ensure_ascii=False)
    wrapped = arguments if isinstance(arguments, dict) else {"arguments": arguments}
    return json.dumps(wrapped, ensure_ascii=False)


def _only_reasoning(content: list[Any]) -> bool:
    return all(_is_reasoning(block) for block in content)


def _makes_calls(message: Message) -> bool:
    return bool(message.get("tool_calls")) or bool(blocks_of(message, CALL_BLOCKS))


def _is_reasoning(block: Any) -> bool:
    return isinstance(block, Mapping) and str(block.get("type")) in REASONING_BLOCKS


def _is_result(block: Any) -> bool:
    return isinstance(block, dict) and str(block.get("type")) in RESULT_BLOCKS


def _with_id(block: dict[str, Any], name: str) -> dict[str, Any]:
    key = next((key for key in ("tool_use_id", "call_id", "id") if key in block), "id")
    return {**block, key: name}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: item if type(item) is str else _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _is_same(one: Any, other: Any) -> bool:
    return one is other
