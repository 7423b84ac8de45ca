"""What makes a message the same message: its hash, its host id, its sender and time."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from lcm_plugin.characters import PIECE, encodable, sent_pieces, storable
from lcm_plugin.messages.blocks import (
    answers_another,
    blocks_of,
    call_id,
    content_key,
    id_text,
    is_reasoning,
    text_of,
    with_call_id,
)
from lcm_plugin.messages.sendable import sendable
from lcm_plugin.messages.table import RESULT_ROLES, type_of
from lcm_plugin.types import HOST_DATA, Message

_TIME_KEYS = ("created_at", "createdAt", "timestamp", "time", "ts", "date")
_TIME_KEY_SET = frozenset(_TIME_KEYS)
_SENDER_KEYS = ("sender", "name", "author", "user")
_CHANNEL_KEYS = ("channel", "channel_id", "chat_id")
_MARKS = frozenset({"cache_control"})
_CALL_ID_KEYS = frozenset({"id", "call_id", "tool_use_id"})
_NUMBERED = re.compile(r"-\d{1,6}$")
_UNSENDABLE = ("\\ud", "NaN", "Infinity")
_SECONDS_BELOW = 100_000_000_000
# `json.dumps` would make an encoder at each call, which takes longer than to encode a call's arguments.
_in_order = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def identity_of(message: Message) -> int:
    """A signed 64-bit hash of role, sender, words, calls and answers.

    Reasoning, metadata, marks for a provider's cache and the difference between a string and a single text block do not
    count, since hosts change them between two looks at the same message. What cannot be sent counts as what is sent in
    its place: a host may take our context for its own list.
    """
    words, speaker, structure = text_of(message), sender_of(message) or "", _structure(message)
    if len(words) <= PIECE:
        # In one piece, which is what nearly every message is: a step for each text would take twice as long.
        whole = "\x1f".join([message["role"], speaker, words.strip(), *structure, ""])
        digest = blake2b(encodable(whole).encode(), digest_size=8)
    else:
        digest = blake2b(digest_size=8)
        slices = [(text, 0, len(text)) for text in (message["role"], speaker)]
        slices.append((words, *_inside_blanks(words)))
        slices += [(text, 0, len(text)) for text in structure]
        for part in slices:
            for piece in sent_pieces(*part):
                digest.update(piece)
            digest.update(b"\x1f")
    return int.from_bytes(digest.digest(), "big", signed=True)


def host_id_of(message: Message) -> str | None:
    """The host's own id of a message, made unique per role; None when it gives none.

    It stands in the message or in its host data, which models never see.
    """
    value = message.get("id", _host_data(message).get("id"))
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        return None
    return storable(f"{message['role']}:{value}")


def sender_of(message: Message) -> str | None:
    """Who wrote a message, when the host says so; a tool's name is no sender."""
    if message["role"] in RESULT_ROLES:
        return None
    return _first_text(message, _SENDER_KEYS)


def channel_of(message: Message) -> str | None:
    """Where a message was written, when the host says so."""
    return _first_text(message, _CHANNEL_KEYS)


def time_of(message: Message, default: int) -> int:
    """When a message was written, in ms: seconds, milliseconds or ISO 8601; naive times are UTC."""
    for record in (message, _host_data(message)):
        if (found := told_time(record)) is not None:
            return found
    return default


def told_time(record: Mapping[str, Any]) -> int | None:
    """The time that a record has under one of the usual keys, in ms; None when it has none."""
    if _TIME_KEY_SET.isdisjoint(record):
        return None
    for key in _TIME_KEYS:
        if (value := record.get(key)) is None:
            continue
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e15:
            return int(value * 1000) if value < _SECONDS_BELOW else int(value)
        if isinstance(value, str) and (at := _parse_time(value)) is not None:
            return at
    return None


def _host_data(message: Message) -> Mapping[str, Any]:
    data = message.get(HOST_DATA)
    return data if isinstance(data, (dict, Mapping)) else {}


def _parse_time(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _first_text(message: Message, keys: tuple[str, ...]) -> str | None:
    for key in keys:
        if (value := message.get(key)) is None:
            continue
        if isinstance(value, dict):
            value = value.get("name") or value.get("id")
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
            return storable(str(value))
    return None


def _inside_blanks(text: str) -> tuple[int, int]:
    """Where the text without blanks around it begins and ends; `str.strip` would copy all of it."""
    start, end = 0, len(text)
    while start < end and not (found := text[start : start + PIECE].lstrip()):
        start += PIECE
    if start >= end:
        return 0, 0
    start += len(text[start : start + PIECE]) - len(found)
    while not (found := text[max(start, end - PIECE) : end].rstrip()):
        end = max(start, end - PIECE)
    return start, max(start, end - PIECE) + len(found)


def _structure(message: Message) -> list[str]:
    """What a message holds besides its words."""
    pieces = []
    content = message.get(content_key(message))
    if isinstance(content, dict) or (isinstance(content, list) and not _is_words(content)):
        pieces.append(_canonical(_without_words(content)))
    if calls := message.get("tool_calls"):
        pieces += [_call_essence(call) for call in (calls if isinstance(calls, list) else [calls])]
    if message.get("function_call"):
        pieces.append(_canonical(message["function_call"]))
    answered = [id_text(message.get("tool_call_id"))] if message["role"] == "tool" else []
    answered += [call_id(block) for block in blocks_of(message) if answers_another(block)]
    pieces += [_base_id(given) for given in answered if given]
    return pieces


def _base_id(call_id: Any) -> Any:
    """A call's id without the number that a context gives to one that recurs."""
    return _NUMBERED.sub("", call_id) if isinstance(call_id, str) else call_id


def _call_essence(call: Any) -> str:
    if not isinstance(call, dict) or not isinstance(call.get("function"), dict):
        return _canonical(call)
    function = call["function"]
    return _canonical([_base_id(call.get("id")), function.get("name"), function.get("arguments")])


def _is_words(content: list[Any]) -> bool:
    return all(
        isinstance(block, str) or (isinstance(block, dict) and set(block) - _MARKS == {"type", "text"})
        for block in content
        if block
    )


def _without_words(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [
        _without_text(block) if isinstance(block, dict) else None
        for block in content
        if not is_reasoning(block)
    ]


def _without_text(block: dict[str, Any]) -> dict[str, Any]:
    if any(len(path) > 1 for path in type_of(block).id) and (given := call_id(block)):
        block = with_call_id(block, _base_id(given))
    return {
        key: _base_id(value) if key in _CALL_ID_KEYS else value
        for key, value in block.items()
        if key != "text" and key not in _MARKS
    }


def _canonical(value: Any) -> str:
    text = _in_order(value)
    return _in_order(sendable(value)) if any(sign in text for sign in _UNSENDABLE) else text
