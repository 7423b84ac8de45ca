"""Edits of a message that keep its provider's shape: other ids, only some results, without reasoning.

Inputs are never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lcm_plugin.messages.blocks import (
    answer_block,
    answers_another,
    awaits_answer,
    blocks_of,
    call_id,
    content_key,
    dicts,
    has_reasoning,
    id_text,
    is_reasoning,
    listed_ids,
    user_speaks,
    with_blocks,
    with_call_id,
)
from lcm_plugin.messages.table import REASONING_KEYS
from lcm_plugin.types import Message


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
    in_blocks = (call_id(block) for block in blocks_of(message) if awaits_answer(block))
    return (*listed_ids(message), *in_blocks)


def answer_ids(message: Message) -> tuple[str, ...]:
    """The ids of the calls of other messages that a message answers; an empty text where the host gave none."""
    if message["role"] == "tool":
        return (id_text(message.get("tool_call_id")),)
    return tuple(call_id(block) for block in blocks_of(message) if answers_another(block))


def words_beside_results(message: Message) -> Message | None:
    """What a user's message says besides the results in it; None when it says nothing."""
    blocks = blocks_of(message)
    rest = [block for block in blocks if not answers_another(block)]
    return with_blocks(message, rest) if len(rest) < len(blocks) and user_speaks(message) else None


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


def answers_like(caller: Message, answered: Sequence[tuple[int, str]], text: str) -> list[Message]:
    """Results with one text for some of the caller's calls, given by number and id, each in its call's style."""
    listed = len(list(dicts(caller.get("tool_calls"))))
    blocks = [block for block in blocks_of(caller) if awaits_answer(block)]
    return [
        {"role": "tool", "tool_call_id": given, "content": text}
        if index < listed
        else {"role": "user", content_key(caller): [answer_block(blocks[index - listed], given, text)]}
        for index, given in answered
    ]


def copy_message(message: Message) -> Message:
    """A copy that a host may change."""
    copied = message.copy()
    # Most messages hold texts alone, and all are copied at each turn.
    for key, value in message.items():
        if type(value) is not str:
            copied[key] = _copy(value)
    return copied


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return copy_message(value)
    return [_copy(item) for item in value] if isinstance(value, list) else value
