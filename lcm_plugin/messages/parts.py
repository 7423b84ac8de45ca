"""A message as typed parts, and back again, byte for byte.

The text of every part is taken out of the message and stored once; what remains (key order, unknown
keys, block structure) is the *skeleton*. A part's path says where its text belongs: ``content``,
``content.0.text``, ``tool_calls.1.function.arguments``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lcm_plugin.characters import storable
from lcm_plugin.messages.blocks import at, body_path, call_id, content_key, first_at, media_path, output_path
from lcm_plugin.messages.paths import join_path, put_at, split_path
from lcm_plugin.messages.table import REASONING_KEYS, RESULT_ROLES, Kind, plain_type, type_of
from lcm_plugin.store.records import PART_TYPES, Part, StoredMessage
from lcm_plugin.types import Message

Steps = tuple[str | int, ...]
_JSON_VALUE = '{"json":true}'
_CONTENT = "content"
_REASONING_KEYS = frozenset(REASONING_KEYS)


@dataclass(frozen=True, slots=True)
class Lifted:
    """A value taken out of a message: where it stood, and what kind of block it is."""

    path: Steps
    value: Any
    type: str
    tool_name: str | None = None
    tool_call_id: str | None = None


def lift(message: Message) -> list[Lifted]:
    """The parts of a message, in order."""
    found: list[Lifted] = []
    if not _REASONING_KEYS.isdisjoint(message):
        found += (Lifted((key,), message[key], "reasoning") for key in REASONING_KEYS if message.get(key))
    found += _lift_content(message)
    if message.get("tool_calls") or message.get("function_call"):
        found += _lift_calls(message)
    return found


def _lift_content(message: Message) -> Iterator[Lifted]:
    key = content_key(message)
    content = message.get(key)
    is_result = message["role"] in RESULT_ROLES
    kind = "tool" if is_result else "text"
    name = _text_or_none(message.get("name") or message.get("tool_name")) if is_result else None
    call_id = _text_or_none(message.get("tool_call_id")) if is_result else None
    if isinstance(content, str):
        yield Lifted((key,), content, kind, name, call_id)
    elif content is not None:
        yield from _lift_value(content, (key,), kind, name, call_id)
    if isinstance(message.get("refusal"), str):
        yield Lifted(("refusal",), message["refusal"], "text")


def _lift_value(
    value: Any, path: Steps, kind: str, name: str | None, call_id: str | None
) -> Iterator[Lifted]:
    if isinstance(value, list):
        for index, block in enumerate(value):
            yield from _lift_block(block, (*path, index), kind, name, call_id)
    else:
        yield Lifted(path, value, kind, name, call_id)


def _lift_block(
    block: Any, path: Steps, kind: str, name: str | None, call_id: str | None
) -> Iterator[Lifted]:
    if not isinstance(block, dict):
        yield Lifted(path, block, kind, name, call_id)
        return
    row = type_of(block)
    if row.kind in (Kind.CALL, Kind.RESULT):
        yield from _lift_tool(block, path)
    elif row.kind is Kind.REASONING:
        yield _lift_body(block, path, "reasoning")
    elif row.kind is Kind.TEXT and body_path(block):
        yield _lift_body(block, path, kind, name, call_id)
    elif media := media_path(block):
        yield Lifted((*path, *media), at(block, media), "file")
    elif row.kind is Kind.MEDIA:
        yield Lifted(path, block, "file")
    else:
        block_type = plain_type(str(block.get("type", "")))
        yield Lifted(path, block, block_type if block_type in PART_TYPES else kind, name, call_id)


def _lift_tool(block: Message, path: Steps) -> Iterator[Lifted]:
    """A call's input, a result's output, or both of a call that brings its result along."""
    row, body, output = type_of(block), body_path(block), output_path(block)
    name, given = _text_or_none(first_at(block, row.name)), _text_or_none(call_id(block))
    if body is None:
        yield Lifted(path, block, "tool", name, given)
        return
    if row.kind is Kind.RESULT and not row.by_provider:
        yield from _lift_value(at(block, body), (*path, *body), "tool", name, given)
    else:
        yield _lift_body(block, path, "tool", name, given)
    if output is not None:
        yield from _lift_value(at(block, output), (*path, *output), "tool", name, given)


def _lift_body(
    block: Message, path: Steps, kind: str, name: str | None = None, given: str | None = None
) -> Lifted:
    body = body_path(block)
    return Lifted((*path, *(body or ())), at(block, body or ()), kind, name, given)


def _lift_calls(message: Message) -> Iterator[Lifted]:
    calls = message.get("tool_calls")
    for index, call in enumerate(calls if isinstance(calls, list) else []):
        yield from _lift_call(call, ("tool_calls", index))
    function = message.get("function_call")
    if isinstance(function, dict) and "arguments" in function:
        yield Lifted(
            ("function_call", "arguments"), function["arguments"], "tool", _text_or_none(function.get("name"))
        )


def _lift_call(call: Any, path: Steps) -> Iterator[Lifted]:
    if not isinstance(call, dict):
        yield Lifted(path, call, "tool")
        return
    call_id = _text_or_none(call.get("id"))
    for holder in ("function", "custom"):
        function = call.get(holder)
        if isinstance(function, dict):
            key = "arguments" if "arguments" in function else "input"
            if key in function:
                name = _text_or_none(function.get("name"))
                yield Lifted((*path, holder, key), function[key], "tool", name, call_id)
                return
    yield Lifted(path, call, "tool", _text_or_none(call.get("name")), call_id)


def make_parts(
    lifted: Sequence[Lifted], stand_ins: Mapping[str, tuple[str, str, str]] | None = None
) -> tuple[Part, ...]:
    """Part rows. ``stand_ins`` maps a dotted path to (file id, reference text, metadata JSON)."""
    parts = []
    for ordinal, item in enumerate(lifted):
        path = _CONTENT if item.path == (_CONTENT,) else join_path(item.path)
        if stand_ins and path in stand_ins:
            file_id, text, metadata = stand_ins[path]
            parts.append(
                Part(
                    ordinal,
                    item.type,
                    path,
                    storable(text),
                    None,
                    item.tool_name,
                    item.tool_call_id,
                    file_id,
                    metadata,
                )
            )
            continue
        is_text = isinstance(item.value, str)
        text = item.value if is_text else _dumps(item.value)
        clean = storable(text)
        exact = None if clean == text else json.dumps(text)
        parts.append(
            Part(
                ordinal,
                item.type,
                path,
                clean,
                exact,
                item.tool_name,
                item.tool_call_id,
                None,
                None if is_text else _JSON_VALUE,
            )
        )
    return tuple(parts)


def lift_deeper(message: Message, lifted: list[Lifted], paths: Collection[str]) -> list[Lifted]:
    """The parts, and one more for every path that none of them stands at.

    A path may lead into a part's own JSON value; that part then keeps null where the deeper one stood.
    """
    if not paths:
        return lifted
    known = {join_path(part.path) for part in lifted}
    deeper = [_lifted_at(message, path) for path in paths if path not in known]
    outer = {part.path for part in lifted}
    inner: dict[Steps, list[Steps]] = {}
    for item in deeper:
        for depth in range(1, len(item.path)):
            if item.path[:depth] in outer:
                inner.setdefault(item.path[:depth], []).append(item.path[depth:])
    return [*(_without(part, inner.get(part.path, ())) for part in lifted), *deeper]


def _lifted_at(message: Message, path: str) -> Lifted:
    steps: list[str | int] = []
    holder: Any = message
    for step in split_path(path):
        steps.append(int(step) if isinstance(holder, list) else step)
        holder = holder[steps[-1]]
    return Lifted(tuple(steps), holder, "file")


def _without(part: Lifted, inner: Sequence[Steps]) -> Lifted:
    if not inner:
        return part
    value = _copy(part.value)
    for path in inner:
        put_at(value, join_path(path), None)
    return replace(part, value=value)


def skeleton_of(message: Message, lifted: Sequence[Lifted]) -> str | None:
    """What remains of a message when its parts are out; None when it is just a storable role and content."""
    plain = list(message) == ["role", _CONTENT] and storable(message["role"]) == message["role"]
    if plain and len(lifted) == 1 and lifted[0].path == (_CONTENT,):
        return None
    rest: Any = _copy(message)
    for item in lifted:
        holder = rest
        for step in item.path[:-1]:
            holder = None if holder is None else holder[step]
        if holder is not None:
            holder[item.path[-1]] = None
    text = _dumps(rest)
    return text if storable(text) == text else json.dumps(rest, separators=(",", ":"))


def rebuild(stored: StoredMessage, read_file: Callable[[Part], Any] | None = None) -> Message:
    """The message as it came in. ``read_file`` gives the value of a part that moved to a file.

    Without ``read_file`` such a part shows its reference: the form that models see.
    """
    message: Message = (
        json.loads(stored.skeleton) if stored.skeleton else {"role": stored.head.role, "content": None}
    )
    for part in stored.parts:
        if part.path:
            put_at(message, part.path, part_value(part, read_file))
    return message


def part_value(part: Part, read_file: Callable[[Part], Any] | None = None) -> Any:
    """The value that a part stands for."""
    if part.file_id is not None:
        return read_file(part) if read_file else part.text
    text = part.text if part.exact is None else json.loads(part.exact)
    return json.loads(text) if part.metadata == _JSON_VALUE else text


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: item if type(item) is str else _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _text_or_none(value: Any) -> str | None:
    return storable(value) if isinstance(value, str) and value else None


# `json.dumps` would make an encoder at each call.
_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
