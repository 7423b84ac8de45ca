"""Whatever a host hands over becomes JSON values; what cannot becomes a record that says so.

| value | stored as |
|---|---|
| text, number, true, false, None | itself; a subclass (an ``IntEnum`` member) as its plain value |
| mapping | an object; a key that is no text as JSON would write it, else as its ``repr`` |
| list, tuple; set | an array; a set's members in a fixed order |
| bytes | their text when they are UTF-8, else a ``data:`` URL in base64 |
| date, time, duration, Decimal, UUID, path, Enum, dataclass, pydantic model … | as pydantic writes it |
| an integer of more than about 4,000 digits | ``{"lcm_value": "int", "hex": "0x…"}`` |
| a container inside itself | ``{"lcm_value": "cycle"}`` |
| what is nested deeper than `MOST_DEPTH` | ``{"lcm_value": "list", "json": "[…]"}`` |
| anything else | ``{"lcm_value": "module.Type", "repr": "…"}`` |

Nothing here depends on addresses or on the order of a set, so that a message that comes again is the same one.
"""

from __future__ import annotations

import base64
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from collections.abc import Set as AnySet
from itertools import chain, repeat
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.types import HOST_DATA, Message

MARKER = "lcm_value"
MOST_DEPTH = 100
_MOST_VALUES = 1_000_000
_MOST_BITS = 14_000
_MOST_REPR = 2_000
_MOST_NOTES = 20
_MOST_PATH = 200
_MOST_KEPT = 200_000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_KEPT_KEYS = ("id", "name", "tool_call_id", "created_at", "timestamp")
_SCALARS = frozenset({str, int, float, bool, type(None)})


class NoMessage(InputError):
    """What was handed over is no message at all."""


def to_message(value: object) -> tuple[Message, tuple[str, ...]]:
    """A host's message as a dict of JSON values, and notes that say what was converted: ``.content[0].at: datetime``.

    Raises `NoMessage` for what is none: not a mapping, or without a role.
    """
    converting = _Conversion()
    if not isinstance(value, (dict, Mapping)):
        if type(value) in _SCALARS or isinstance(value, (str, bytes, list, tuple, AnySet, Iterator)):
            raise NoMessage(f"a message must be a dict, not {type(value).__name__}")
        name, value = type(value).__name__, converting.leaf(value)
        if not isinstance(value, dict) or MARKER in value:
            raise NoMessage(f"a message must be a dict, not {name}")
    role = value.get("role")
    if not isinstance(role, str) or not role.strip():
        raise NoMessage(f"a message needs a role such as 'user', not {safe_repr(role, 80)}")
    message: Message = converting.value(value)
    return message, tuple(converting.notes)


def broken_record(value: object, error: BaseException) -> Message:
    """A message in place of one that cannot be stored: its role and text, and what was wrong with it.

    The same message with the same fault gives the same record.
    """
    given = value if isinstance(value, Mapping) else {}
    role = _get(given, "role")
    reason = f"{type(error).__name__}: {_steady(_words_of(error))[:_MOST_REPR]}"
    kept = _texts(_get(given, "content") if given else value)
    marker = f"[LCM could not store this {type(value).__name__} whole: {reason}]"
    blocks = [{"type": "text", "text": text} for text in (kept, marker) if text.strip()]
    record: Message = {"role": role if isinstance(role, str) and role.strip() else "user", "content": blocks}
    for key in _KEPT_KEYS:
        if type(held := _get(given, key)) in (str, int, float) and len(safe_repr(held, 300)) < 300:
            record[key] = held
    data = _host_data(given)
    return {**record, HOST_DATA: data} if data else record


def to_json(value: object) -> Any:
    """Any value as JSON values. Raises `InputError` when it holds too many."""
    return _Conversion().value(value)


def as_message(value: object) -> Message:
    """The value as a message of JSON values; the broken record of what is none, or cannot be read."""
    try:
        return to_message(value)[0]
    except Exception as error:  # noqa: BLE001 - a foreign mapping may raise anything
        return broken_record(value, error)


def rough_size(value: object) -> int:
    """About how many characters a value has as JSON, from above for texts; for any value, and never raises."""
    size, left, seen = 0, _MOST_VALUES, set[int]()
    stack: list[Any] = [value]
    while stack and left:
        item, left = stack.pop(), left - 1
        # Nearly all is plain texts and dicts, which are told by their type: an abstract class takes far longer to ask.
        if (kind := type(item)) is str or isinstance(item, (str, bytes, bytearray)):
            size += len(item) + 2
        elif kind is dict or isinstance(item, (list, tuple, Mapping, AnySet)):
            if id(item) not in seen:
                seen.add(id(item))
                size += 2
                if kind is dict:
                    stack += item
                    stack += item.values()
                else:
                    stack.extend(_members(item))
        else:
            size += item.bit_length() // 3 + 1 if isinstance(item, int) else 8
    return size


def _members(container: Any) -> list[Any]:
    try:
        return [*container, *container.values()] if isinstance(container, Mapping) else list(container)
    except Exception:  # noqa: BLE001 - a foreign container may raise anything
        return []


def safe_repr(value: object, most: int = _MOST_REPR) -> str:
    """A value's ``repr`` without addresses and of a bounded length; never raises."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever a foreign __repr__ raises
        return f"<unprintable {type(value).__name__}>"
    text = _steady(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


class _Conversion:
    """One message on its way; ``notes`` name what was converted and where."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._path: list[str] = []
        self._open: set[int] = set()
        self._left = _MOST_VALUES

    def value(self, value: Any) -> Any:
        self._left -= 1
        kind = type(value)
        if kind is str or value is None or kind is bool or kind is float:
            return value
        if kind is int:
            return value if value.bit_length() < _MOST_BITS else self._huge(value)
        if isinstance(value, (dict, Mapping)):
            return self._within(value, self.mapping)
        if isinstance(value, (list, tuple)):
            return self._within(value, self._array)
        return self.leaf(value)

    def mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, item in list(value.items()):
            name = key if type(key) is str else self._name(key)
            while name in made:
                name += "'"
            if type(item) is str:
                self._left -= 1
                made[name] = item
                continue
            self._path.append(name)
            made[name] = self.value(item)
            self._path.pop()
        return made

    def leaf(self, value: Any) -> Any:
        """A value that is no container of JSON."""
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            return self.value(int(value))
        if isinstance(value, float):
            return float(value)
        self._note(type(value).__name__)
        if isinstance(value, AnySet):
            members = self._within(value, lambda one: self._array(list(one)))
            return sorted(members, key=lambda one: json.dumps(one, sort_keys=True)) if members else members
        if isinstance(value, (bytes, bytearray, memoryview)):
            return _text_of_bytes(bytes(value))
        known = None if isinstance(value, (Iterator, BaseException)) else _as_pydantic_writes(value)
        return self._within(value, lambda _: self.value(known[0])) if known else _marked(value)

    def _within(self, value: Any, convert: Any) -> Any:
        if id(value) in self._open:
            self._note("cycle")
            return {MARKER: "cycle"}
        if self._left < 0:
            raise InputError(f"more than {_MOST_VALUES:,} values in one message")
        if len(self._path) >= MOST_DEPTH:
            self._note("nesting")
            return {MARKER: type(value).__name__, "json": _flat_json(value)}
        self._open.add(id(value))
        try:
            return convert(value)
        finally:
            self._open.discard(id(value))

    def _array(self, value: Any) -> list[Any]:
        made = []
        for index, item in enumerate(value):
            self._path.append(f"[{index}]")
            made.append(self.value(item))
            self._path.pop()
        return made

    def _name(self, key: object) -> str:
        self._note(f"key {type(key).__name__}")
        if isinstance(key, str):
            return str.__str__(key)
        if key is None or isinstance(key, (bool, float)) or (isinstance(key, int) and key < 1 << 64):
            return json.dumps(key)
        return safe_repr(key, 200)

    def _huge(self, value: int) -> dict[str, str]:
        self._note("int")
        return {MARKER: "int", "hex": hex(value)}

    def _note(self, kind: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            steps = (step if step.startswith("[") else f".{step}" for step in self._path)
            self.notes.append(f"{''.join(steps)[:_MOST_PATH]}: {kind}")


def _as_pydantic_writes(value: object) -> tuple[Any] | None:
    """The value as pydantic serialises it, in a tuple of one; None when it does not know the type."""
    from pydantic_core import to_jsonable_python

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return (
                to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="constants", fallback=_marked),
            )
    except Exception:  # noqa: BLE001 - a foreign serialiser may raise anything
        return None


def _marked(value: object) -> dict[str, str]:
    kind = type(value)
    return {MARKER: f"{kind.__module__}.{kind.__qualname__}", "repr": safe_repr(value)}


def _text_of_bytes(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"data:application/octet-stream;base64,{base64.b64encode(data).decode()}"


def _flat_json(value: Any) -> str:
    """JSON text of what is nested too deep to be walked by calls."""
    pieces: list[str] = []
    opened: list[tuple[int, str, Iterator[tuple[str, Any]]]] = []
    inside: set[int] = set()
    waiting: Iterator[tuple[str, Any]] = iter([("", value)])
    while True:
        step = next(waiting, None)
        if step is None:
            if not opened:
                return "".join(pieces)
            ident, closing, waiting = opened.pop()
            inside.discard(ident)
            pieces.append(closing)
            continue
        label, item = step
        pieces.append(label)
        if id(item) in inside:
            pieces.append(json.dumps({MARKER: "cycle"}))
        # Calls of Python functions at each step would cost most of the time on a deep stack.
        elif isinstance(item, (list, tuple)):
            pieces.append("[")
            opened.append((id(item), "]", waiting))
            inside.add(id(item))
            waiting = zip(chain(("",), repeat(",")), item, strict=False)
        elif isinstance(item, Mapping):
            pieces.append("{")
            opened.append((id(item), "}", waiting))
            inside.add(id(item))
            waiting = _labelled(item)
        else:
            pieces.append(json.dumps(_Conversion().value(item)))
        if len(pieces) > _MOST_VALUES:
            raise InputError(f"more than {_MOST_VALUES:,} values in one message")


def _labelled(holder: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """The members of an object, each with the text that stands before it."""
    for number, (key, member) in enumerate(holder.items()):
        label = f"{json.dumps(str(key))}:"
        yield f",{label}" if number else label, member


def _steady(text: str) -> str:
    return _ADDRESS.sub("", text)


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever a foreign __str__ raises
        return ""


def _get(value: Mapping[Any, Any], key: str) -> Any:
    try:
        return value.get(key)
    except Exception:  # noqa: BLE001 - a foreign mapping may raise anything
        return None


def _host_data(given: Mapping[Any, Any]) -> dict[str, Any]:
    """What the host keeps with the message and finds it by, when that part of it is sound."""
    try:
        data = _Conversion().value(_get(given, HOST_DATA))
    except Exception:  # noqa: BLE001 - whatever a foreign value raises
        return {}
    return data if isinstance(data, dict) else {}


def _texts(content: Any) -> str:
    """The words of a content that cannot be stored as it is."""
    if isinstance(content, str):
        return content[:_MOST_KEPT]
    if not isinstance(content, (list, tuple)):
        return "" if content is None else safe_repr(content)
    found: list[str] = []
    for block in content[:1_000]:
        text = _get(block, "text") if isinstance(block, Mapping) else block
        if isinstance(text, str):
            found.append(text[:_MOST_KEPT])
    return "\n".join(found)[:_MOST_KEPT]
