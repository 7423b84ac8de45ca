"""One stored message in the shape that every provider takes.

Blank content goes, arguments become a JSON object in a string, and OpenAI's old ``function_call`` becomes
a tool call. A message that is fine already comes back as the same object; inputs are never changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lcm_plugin.messages.blocks import (
    Call,
    answer_block,
    answers_another,
    at,
    awaits_answer,
    blank_block,
    blocks_of,
    body_path,
    call_id,
    calls_of,
    content_key,
    dicts,
    has_reasoning,
    id_text,
    is_assistant,
    is_blank,
    is_reasoning,
    kind_of,
    replaced,
    text_of,
    with_blocks,
    with_call_id,
    with_output,
)
from lcm_plugin.messages.table import REASONING_KEYS, BlockType, Kind, type_of
from lcm_plugin.messages.validate import is_json_object
from lcm_plugin.types import Message

EMPTY_RESULT = "(empty)"
_LEGACY_ID = "call_"


def presentable(message: Message) -> Message | None:
    """The message without blank content; None when nothing remains that a model could be shown."""
    message = _own_exchanges(_only_own_calls(_without_legacy_calls(message)))
    if blocks := blocks_of(message):
        message = _with_clean_blocks(message, blocks)
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


def reasoning_author(message: Message) -> str | None:
    """The model that wrote the message's reasoning, when there is any and the host names the model."""
    author = message.get("model")
    return author if isinstance(author, str) and author and has_reasoning(message) else None


def same_model(one: str, other: str) -> bool:
    """Whether two names mean the same model; a provider's prefix does not count."""
    return one.rsplit("/", 1)[-1] == other.rsplit("/", 1)[-1]


def without_reasoning(message: Message) -> Message:
    """The message without its reasoning."""
    kept = {key: value for key, value in message.items() if key not in REASONING_KEYS}
    if blocks := blocks_of(kept):
        return with_blocks(kept, [block for block in blocks if not is_reasoning(block)])
    return kept


def call_ids(message: Message) -> tuple[str, ...]:
    """The ids of the calls that other messages answer, in order; an empty text for a call without one."""
    found = [id_text(call.get("id")) for call in dicts(message.get("tool_calls"))]
    return (*found, *(call_id(block) for block in blocks_of(message) if awaits_answer(block)))


def answer_ids(message: Message) -> tuple[str, ...]:
    """The ids of the calls of other messages that a message answers; an empty text where the host gave none."""
    if message["role"] == "tool":
        return (id_text(message.get("tool_call_id")),)
    return tuple(call_id(block) for block in blocks_of(message) if answers_another(block))


def words_beside_results(message: Message) -> Message | None:
    """What a user's message says besides the results in it; None when it says nothing."""
    if message["role"] != "user":
        return None
    blocks = blocks_of(message)
    rest = [block for block in blocks if not answers_another(block)]
    return with_blocks(message, rest) if rest and len(rest) < len(blocks) else None


def only_results(message: Message, indices: Sequence[int], names: Sequence[str]) -> Message:
    """The message with just some of its results, in their order, under other call ids."""
    if message["role"] == "tool":
        return {**message, "tool_call_id": names[0]}
    results = [block for block in blocks_of(message) if answers_another(block)]
    kept = [with_call_id(results[index], name) for index, name in zip(indices, names, strict=True)]
    return with_blocks(message, kept)


def rename_calls(message: Message, names: Sequence[str]) -> Message:
    """The message with other ids for its calls, one name for each of `call_ids`."""
    given = iter(names)
    renamed = dict(message)
    if isinstance(message.get("tool_calls"), list):
        renamed["tool_calls"] = [
            {**call, "id": next(given)} if isinstance(call, dict) else call for call in message["tool_calls"]
        ]
    if blocks := blocks_of(message):
        named = [with_call_id(block, next(given)) if awaits_answer(block) else block for block in blocks]
        return with_blocks(renamed, named)
    return renamed


def only_call(message: Message, wanted: str) -> Message | None:
    """A bare assistant message with just the call of that id; None when the message does not make it."""
    for call in dicts(message.get("tool_calls")):
        if call.get("id") == wanted:
            return {"role": "assistant", "content": None, "tool_calls": [call]}
    for block in blocks_of(message):
        if awaits_answer(block) and call_id(block) == wanted:
            return {"role": message["role"], content_key(message): [block]}
    return None


def answer_like(caller: Message, answered: str, index: int, text: str) -> Message:
    """A result in the style of the caller's call number ``index``."""
    listed = len(list(dicts(caller.get("tool_calls"))))
    if index < listed:
        return {"role": "tool", "tool_call_id": answered, "content": text}
    calls = [block for block in blocks_of(caller) if awaits_answer(block)]
    return {"role": "user", content_key(caller): [answer_block(calls[index - listed], answered, text)]}


def copy_message(message: Message) -> Message:
    """A copy that a host may change."""
    return {key: value if type(value) is str else _copy(value) for key, value in message.items()}


def _only_own_calls(message: Message) -> Message:
    """The message without calls, unless it is an assistant's: in another role no provider takes them."""
    if is_assistant(message["role"]):
        return message
    blocks = blocks_of(message)
    kept = [block for block in blocks if kind_of(block) is not Kind.CALL]
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
            kept.append({"type": "text", "text": _told(call, block)})
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
    cleaned = [_clean_result(block) if answers_another(block) else block for block in blocks]
    kept = [block for block in cleaned if not blank_block(block)]
    unchanged = len(kept) == len(blocks) and all(map(_is_same, kept, blocks))
    return message if unchanged else with_blocks(message, kept)


def _clean_result(block: dict[str, Any]) -> dict[str, Any]:
    path = body_path(block) or type_of(block).body[0]
    inner = at(block, path)
    if isinstance(inner, list):
        kept = [item for item in inner if not blank_block(item)]
        if len(kept) == len(inner) and kept:
            return block
        return replaced(block, path, kept) if kept else with_output(block, EMPTY_RESULT)
    blank = inner is None or (isinstance(inner, str) and not inner.strip())
    return with_output(block, EMPTY_RESULT) if blank else block


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


def _makes_calls(message: Message) -> bool:
    return bool(message.get("tool_calls")) or any(map(awaits_answer, blocks_of(message)))


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: item if type(item) is str else _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _is_same(one: Any, other: Any) -> bool:
    return one is other
