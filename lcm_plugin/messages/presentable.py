"""One stored message in the shape that every provider takes: any message that was stored can be shown.

What a provider would refuse in it is mended: blank content goes, an empty result says so, arguments become a JSON
object, a tool's name loses what no provider takes in it, a value of the wrong type becomes text. A message that is
fine comes back as the same object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lcm_plugin.messages.blocks import (
    Call,
    answers_another,
    at,
    awaits_answer,
    blank_block,
    blocks_of,
    body_path,
    call_id,
    calls_of,
    content_key,
    first_at,
    id_text,
    is_assistant,
    is_blank,
    is_reasoning,
    kind_of,
    replaced,
    text_of,
    with_blocks,
    with_output,
)
from lcm_plugin.messages.sendable import is_json_object, is_tool_name, parse_json, sendable, tool_name
from lcm_plugin.messages.table import ROLES, BlockType, Kind, type_of
from lcm_plugin.types import Message

EMPTY_RESULT = "(empty)"
_LEGACY_ID = "call_"
_NO_NAME = "unknown"


def presentable(message: Message) -> Message | None:
    """The message as providers take it; None when nothing remains that a model could be shown."""
    message = _with_sound_keys(_without_legacy_calls(sendable(message)))
    if blocks := blocks_of(message):
        message = _with_clean_blocks(message, blocks)
    message = _own_exchanges(_only_own_calls(message))
    if message.get("tool_calls"):
        message = _with_sound_calls(message)
    blocks = blocks_of(message)
    if blocks and all(map(is_reasoning, blocks)):
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


def _only_own_calls(message: Message) -> Message:
    """The message without calls and reasoning, unless it is an assistant's: no provider takes them elsewhere."""
    if is_assistant(message["role"]):
        return message
    blocks = blocks_of(message)
    kept = [block for block in blocks if kind_of(block) not in (Kind.CALL, Kind.REASONING)]
    if len(kept) < len(blocks):
        message = with_blocks(message, kept)
    if message.get("tool_calls"):
        message = {key: value for key, value in message.items() if key != "tool_calls"}
    return message


def _own_exchanges(message: Message) -> Message:
    """An assistant's message with every call and result in it as providers take them.

    A provider's own tool has its result in the same message. Half of such an exchange is refused: the call goes, the
    result becomes words. So does the result of any other tool, which only another message may hold, with its call.
    """
    blocks = blocks_of(message)
    rows = [(block, type_of(block), call_id(block)) for block in blocks]
    results = {given: row for _, row, given in rows if row.kind is Kind.RESULT and given}
    if not is_assistant(message["role"]) or not (results or any(row.by_provider for _, row, _ in rows)):
        return message
    calls = {call.id: call for call in calls_of(message)}
    kept: list[Any] = []
    for block, row, given in rows:
        call, result = calls.get(given), results.get(given)
        by_provider = row.by_provider and call is not None and call.by_provider
        if row.kind is Kind.RESULT and given and not by_provider:
            kept.append(_text(_told(call, block)))
        elif row.kind is not Kind.CALL or not given or row.output or _stands(row, result):
            kept.append(block)
    if len(kept) == len(blocks) and all(map(_is_same, kept, blocks)):
        return message
    if isinstance(listed := message.get("tool_calls"), list):
        left = [one for one in listed if not (isinstance(one, dict) and id_text(one.get("id")) in results)]
        message = {**message, "tool_calls": left}
    return with_blocks(message, kept)


def _stands(call: BlockType, result: BlockType | None) -> bool:
    """Whether a call stays, given the result that its own message holds."""
    return result is None if not call.by_provider else result is not None and result.by_provider


def _told(call: Call | None, result: Any) -> str:
    """A call and its result in words."""
    value = at(result, body_path(result) or ())
    said = value if isinstance(value, str) else text_of({"content": value}) or _dumps(value)
    if call is None:
        return f"[result of a tool]\n{said}"
    arguments = call.arguments if isinstance(call.arguments, str) else _dumps(call.arguments)
    return f"[{call.name}({arguments}) returned]\n{said}"


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


def _with_clean_blocks(message: Message, blocks: list[Any]) -> Message:
    """The message without blank blocks, inside results too; the same object when all is fine."""
    cleaned = [_clean_block(block) for block in blocks]
    kept = [block for block in cleaned if not blank_block(block)]
    unchanged = len(kept) == len(blocks) and all(map(_is_same, kept, blocks))
    return message if unchanged else with_blocks(message, kept)


def _clean_block(block: Any) -> Any:
    """A block as providers take it; None when nothing is in it."""
    if not isinstance(block, dict):
        return block if block is None else _text(block if isinstance(block, str) else _dumps(block))
    if answers_another(block):
        return _clean_result(block)
    if awaits_answer(block):
        return _clean_call(block)
    row = type_of(block)
    if row.kind is Kind.TEXT:
        path = body_path(block)
        value = at(block, path) if path else None
        if path is None or value is None or isinstance(value, str):
            return None if value is None or not value.strip() else block
        return replaced(block, path, _dumps(value))
    if row.kind is Kind.OTHER and block and not isinstance(block.get("type"), str):
        return _text(_dumps(block))
    return block


def _clean_call(block: dict[str, Any]) -> dict[str, Any]:
    row, path = type_of(block), body_path(block) or type_of(block).body[0]
    value, name = at(block, path), first_at(block, row.name)
    if row.name and not is_tool_name(name):
        block = replaced(block, row.name[0], tool_name(name) or _NO_NAME)
    if row.object_input and not isinstance(value, dict):
        return replaced(block, path, parse_json(_as_json_object(value)))
    if block.get("type") == "function_call" and not (isinstance(value, str) and is_json_object(value)):
        return replaced(block, path, _as_json_object(value))
    return block


def _clean_result(block: dict[str, Any]) -> dict[str, Any]:
    row, path = type_of(block), body_path(block) or type_of(block).body[0]
    if isinstance(name := first_at(block, row.name), str) and not is_tool_name(name):
        block = replaced(block, row.name[0], tool_name(name) or _NO_NAME)
    inner = at(block, path)
    if isinstance(inner, list):
        cleaned = [_clean_block(item) for item in inner]
        kept = [item for item in cleaned if not blank_block(item)]
        if kept and len(kept) == len(inner) and all(map(_is_same, kept, inner)):
            return block
        return replaced(block, path, kept) if kept else with_output(block, EMPTY_RESULT)
    blank = inner is None or (isinstance(inner, str) and not inner.strip())
    return with_output(block, EMPTY_RESULT) if blank else block


def _with_sound_keys(message: Message) -> Message:
    """The message with a role, ids and content of the types that providers take."""
    sound = dict(message)
    if message["role"] not in ROLES:
        sound["role"] = "user"
    if "name" in message and not isinstance(message["name"], str):
        del sound["name"]
    if "tool_call_id" in message and not isinstance(message["tool_call_id"], str):
        sound["tool_call_id"] = id_text(message["tool_call_id"])
    key = content_key(message)
    content = message.get(key)
    if isinstance(content, dict) and type_of(content).kind is not Kind.OTHER:
        sound[key] = [content]
    elif content is not None and not isinstance(content, (str, list)):
        sound[key] = _dumps(content)
    same = sound.keys() == message.keys() and all(sound[name] is message[name] for name in sound)
    return message if same else sound


def _with_sound_calls(message: Message) -> Message:
    calls = message["tool_calls"]
    given = calls if isinstance(calls, list) else []
    sound = [call for call in map(_sound_call, given) if call is not None]
    if sound and len(sound) == len(given) and all(map(_is_same, sound, given)):
        return message
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "tool_calls": sound} if sound else rest


def _sound_call(call: Any) -> Any:
    """A call in OpenAI's shape; None for what names nothing that is called."""
    if not isinstance(call, dict):
        return None
    if "id" in call and not isinstance(call["id"], str):
        call = {**call, "id": id_text(call["id"])}
    if isinstance(call.get("custom"), dict) and not isinstance(call.get("function"), dict):
        return call
    if not isinstance(call.get("function"), dict):
        if "name" not in call:
            return None
        about = {"name": call["name"], "arguments": next(iter(calls_of({"tool_calls": [call]}))).arguments}
        call = {"id": call.get("id", ""), "type": "function", "function": about}
    function = call["function"]
    name, arguments = function.get("name"), function.get("arguments")
    if not is_tool_name(name):
        function = {**function, "name": tool_name(name) or _NO_NAME}
    if not (isinstance(arguments, str) and is_json_object(arguments)):
        function = {**function, "arguments": _as_json_object(arguments)}
    return call if function is call["function"] else {**call, "function": function}


def _as_json_object(arguments: Any) -> str:
    """Arguments that a model garbled, or a host gave as values, as one JSON object in a string."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return "{}"
    if isinstance(arguments, str):
        try:
            arguments = sendable(parse_json(arguments))
        except ValueError:
            return _dumps({"unreadable_arguments": arguments})
    return _dumps(arguments if isinstance(arguments, dict) else {"arguments": arguments})


def _makes_calls(message: Message) -> bool:
    return bool(message.get("tool_calls")) or any(map(awaits_answer, blocks_of(message)))


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_same(one: Any, other: Any) -> bool:
    return one is other
