"""A message as typed parts, and back again, byte for byte.

The text of every part is taken out of the message and stored once; what remains (key order, unknown
keys, block structure) is the *skeleton*. A part's path says where its text belongs: ``content``,
``content.0.text``, ``tool_calls.1.function.arguments``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lcm_plugin.messages.paths import join_path, put_at, split_path
from lcm_plugin.store.records import PART_TYPES, Part, StoredMessage
from lcm_plugin.types import Message

_TEXT_BLOCKS = frozenset({"text", "input_text", "output_text"})
_CALL_BLOCKS = frozenset({"tool_use", "tool_call", "function_call", "server_tool_use"})
_RESULT_BLOCKS = frozenset({"tool_result", "function_call_output"})
_REASONING_BLOCKS = frozenset({"thinking", "reasoning", "redacted_thinking"})
_REASONING_KEYS = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
MEDIA_PATHS = (
    ("image_url", "url"),
    ("image_url",),
    ("source", "data"),
    ("source", "url"),
    ("input_audio", "data"),
    ("file", "file_data"),
    ("file_data",),
    ("data",),
    ("base64",),
    ("url",),
)
_JSON_VALUE = '{"json":true}'


@dataclass(frozen=True, slots=True)
class Lifted:
    """A value taken out of a message: where it stood, and what kind of block it is."""

    path: tuple[str | int, ...]
    value: Any
    type: str
    tool_name: str | None = None
    tool_call_id: str | None = None


def lift(message: Message) -> list[Lifted]:
    """The parts of a message, in order."""
    return [*_lift_reasoning(message), *_lift_content(message), *_lift_calls(message)]


def _lift_reasoning(message: Message) -> Iterator[Lifted]:
    for key in _REASONING_KEYS:
        if message.get(key):
            yield Lifted((key,), message[key], "reasoning")


def _lift_content(message: Message) -> Iterator[Lifted]:
    content = message.get("content")
    is_result = message["role"] in ("tool", "function")
    kind = "tool" if is_result else "text"
    name = _text_or_none(message.get("name") or message.get("tool_name")) if is_result else None
    call_id = _text_or_none(message.get("tool_call_id")) if is_result else None
    if isinstance(content, list):
        for index, block in enumerate(content):
            yield from _lift_block(block, ("content", index), kind, name, call_id)
    elif content is not None:
        yield Lifted(("content",), content, kind, name, call_id)
    if isinstance(message.get("refusal"), str):
        yield Lifted(("refusal",), message["refusal"], "text")


def _lift_block(
    block: Any, path: tuple[str | int, ...], kind: str, name: str | None, call_id: str | None
) -> Iterator[Lifted]:
    if not isinstance(block, dict):
        yield Lifted(path, block, kind, name, call_id)
        return
    block_type = str(block.get("type", ""))
    if block_type in _TEXT_BLOCKS and "text" in block:
        yield Lifted((*path, "text"), block["text"], kind, name, call_id)
    elif block_type in _REASONING_BLOCKS:
        key = next(
            (key for key in ("thinking", "text", "reasoning", "data", "summary") if block.get(key)), None
        )
        yield Lifted((*path, key) if key else path, block[key] if key else block, "reasoning")
    elif block_type in _CALL_BLOCKS:
        key = next((key for key in ("input", "arguments", "args") if key in block), None)
        yield Lifted(
            (*path, key) if key else path,
            block[key] if key else block,
            "tool",
            _text_or_none(block.get("name")),
            _text_or_none(block.get("call_id") or block.get("id")),
        )
    elif block_type in _RESULT_BLOCKS:
        yield from _lift_result(block, path)
    elif media := media_path(block):
        yield Lifted((*path, *media), _at(block, media), "file")
    else:
        yield Lifted(path, block, block_type if block_type in PART_TYPES else kind, name, call_id)


def _lift_result(block: Message, path: tuple[str | int, ...]) -> Iterator[Lifted]:
    call_id = _text_or_none(block.get("tool_use_id") or block.get("call_id"))
    name = _text_or_none(block.get("name"))
    key = next((key for key in ("content", "output") if key in block), None)
    if key is None:
        yield Lifted(path, block, "tool", name, call_id)
    elif isinstance(block[key], list):
        for index, inner in enumerate(block[key]):
            yield from _lift_block(inner, (*path, key, index), "tool", name, call_id)
    else:
        yield Lifted((*path, key), block[key], "tool", name, call_id)


def _lift_calls(message: Message) -> Iterator[Lifted]:
    calls = message.get("tool_calls")
    for index, call in enumerate(calls if isinstance(calls, list) else []):
        yield from _lift_call(call, ("tool_calls", index))
    function = message.get("function_call")
    if isinstance(function, dict) and "arguments" in function:
        yield Lifted(
            ("function_call", "arguments"), function["arguments"], "tool", _text_or_none(function.get("name"))
        )


def _lift_call(call: Any, path: tuple[str | int, ...]) -> Iterator[Lifted]:
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


def calls_made(message: Message) -> tuple[str, ...]:
    """Ids of the tool calls that a message makes."""
    found = [call.get("id") for call in _dicts(message.get("tool_calls"))]
    found += [
        block.get("call_id") or block.get("id")
        for block in _dicts(message.get("content"))
        if str(block.get("type")) in _CALL_BLOCKS
    ]
    return tuple(_one_line(call_id) for call_id in found if isinstance(call_id, str) and call_id)


def calls_answered(message: Message) -> tuple[str, ...]:
    """Ids of the tool calls that a message answers."""
    found = [message.get("tool_call_id")] if message["role"] == "tool" else []
    found += [
        block.get("tool_use_id") or block.get("call_id")
        for block in _dicts(message.get("content"))
        if str(block.get("type")) in _RESULT_BLOCKS
    ]
    return tuple(_one_line(call_id) for call_id in found if isinstance(call_id, str) and call_id)


def has_reasoning(message: Message) -> bool:
    """Whether a message carries reasoning, in a key of its own or in a block."""
    if any(message.get(key) for key in _REASONING_KEYS):
        return True
    return any(str(block.get("type")) in _REASONING_BLOCKS for block in _dicts(message.get("content")))


def make_parts(
    lifted: Sequence[Lifted], stand_ins: Mapping[str, tuple[str, str, str]] | None = None
) -> tuple[Part, ...]:
    """Part rows. ``stand_ins`` maps a dotted path to (file id, reference text, metadata JSON)."""
    parts = []
    for ordinal, item in enumerate(lifted):
        path = join_path(item.path)
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


def lift_deeper(message: Message, lifted: Sequence[Lifted], paths: Iterable[str]) -> list[Lifted]:
    """The parts, and one more for every path that none of them stands at.

    A path may lead into a part's own JSON value; that part then keeps null where the deeper one stood.
    """
    known = {join_path(part.path) for part in lifted}
    deeper = [_lifted_at(message, path) for path in paths if path not in known]
    return [*(_without(part, deeper) for part in lifted), *deeper]


def _lifted_at(message: Message, path: str) -> Lifted:
    steps: list[str | int] = []
    holder: Any = message
    for step in split_path(path):
        steps.append(int(step) if isinstance(holder, list) else step)
        holder = holder[steps[-1]]
    return Lifted(tuple(steps), holder, "file")


def _without(part: Lifted, deeper: Sequence[Lifted]) -> Lifted:
    depth = len(part.path)
    inner = [
        item.path[depth:] for item in deeper if len(item.path) > depth and item.path[:depth] == part.path
    ]
    if not inner:
        return part
    value = _copy(part.value)
    for path in inner:
        put_at(value, join_path(path), None)
    return replace(part, value=value)


def skeleton_of(message: Message, lifted: Sequence[Lifted]) -> str | None:
    """What remains of a message when its parts are out; None when it is just role and content."""
    if list(message) == ["role", "content"] and len(lifted) == 1 and lifted[0].path == ("content",):
        return None
    rest: Any = _copy(message)
    for item in lifted:
        holder = rest
        for step in item.path[:-1]:
            holder = None if holder is None else holder[step]
        if holder is not None:
            holder[item.path[-1]] = None
    text = json.dumps(rest, ensure_ascii=False, separators=(",", ":"))
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


def storable(text: str) -> str:
    """The text without what a database refuses: NUL and lone surrogates become U+FFFD."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def media_path(block: Any) -> tuple[str, ...] | None:
    """Where an image, sound or file block keeps its data; None for any other block."""
    for path in MEDIA_PATHS:
        if isinstance(_at(block, path), str):
            return path
    return None


def _at(value: Any, path: Sequence[str]) -> Any:
    for step in path:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text_or_none(value: Any) -> str | None:
    return storable(value) if isinstance(value, str) and value else None


def _one_line(call_id: str) -> str:
    return storable(call_id).replace("\n", " ")


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
