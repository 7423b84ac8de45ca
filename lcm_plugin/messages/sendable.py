"""Values that any HTTP client can send: JSON in UTF-8.

What is stored keeps what a host handed over, lone surrogates and NaN included; what goes to a model cannot.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from lcm_plugin.characters import encodable
from lcm_plugin.messages.convert import MOST_DEPTH

_LONGEST_NAME = 128
_TOOL_NAME = re.compile(rf"[\w.:-]{{1,{_LONGEST_NAME}}}")


def is_sendable(value: Any) -> bool:
    """Whether a value is valid JSON in UTF-8 as it is. A long text is looked at where it stands, not copied."""
    try:
        return _is_sendable(value)
    except RecursionError:
        return False


def _is_sendable(value: Any) -> bool:
    if isinstance(value, str):
        return value.isascii() or encodable(value) is value
    if isinstance(value, dict):
        return all(map(_is_key, value)) and all(map(_is_sendable, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_sendable, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, int)


def _is_key(key: Any) -> bool:
    if type(key) is str and key.isascii():
        return True
    return (key is None or isinstance(key, (str, int, float))) and _is_sendable(key)


def sendable(value: Any) -> Any:
    """The value with U+FFFD for lone surrogates and a text for NaN and infinities; the same object when fine."""
    return value if is_sendable(value) else mapped(value, _sendable_leaf)


def mapped(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """The value with ``leaf`` applied to all that is no dict or list, at any depth and without recursion.

    The same object when nothing changed. Texts that are keys go through ``leaf`` only when it keeps them texts.
    """
    stack = [_Frame([value], leaf)]
    while True:
        frame = stack[-1]
        if len(frame.made) == len(frame.items):
            stack.pop()
            if not stack:
                return frame.made[0]
            stack[-1].take(frame.result())
            continue
        item = frame.items[len(frame.made)]
        if isinstance(item, (dict, list)):
            stack.append(_Frame(item, leaf))
        else:
            frame.take(leaf(item))


def is_tool_name(name: Any) -> bool:
    """Whether some provider takes a text as the name of a tool. None takes spaces, brackets or a model's own marks."""
    return isinstance(name, str) and _TOOL_NAME.fullmatch(name) is not None


def tool_name(name: Any) -> str:
    """The name as providers take it; empty for what is none."""
    if not isinstance(name, str) or is_tool_name(name):
        return name if isinstance(name, str) else ""
    return re.sub(r"[^\w.:-]+", "_", name).strip("_")[:_LONGEST_NAME]


def is_json_object(text: str) -> bool:
    """Whether a text is one JSON object that can be sent as a value, too."""
    try:
        value = parse_json(text)
    except ValueError:
        return False
    return isinstance(value, dict) and ("\\u" not in text or is_sendable(value))


def parse_json(text: str) -> Any:
    """The value of a JSON text. Raises `ValueError` for what is none, or nested deeper than `MOST_DEPTH`."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deep") from None
    level, depth = [value], 0
    while level := [
        item for holder in level if isinstance(holder, (dict, list)) for item in _members(holder)
    ]:
        depth += 1
        if depth > MOST_DEPTH:
            raise ValueError("nested too deep")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


class _Frame:
    """A container on its way through `mapped`."""

    def __init__(self, holder: dict[str, Any] | list[Any], leaf: Callable[[Any], Any]) -> None:
        self._holder = holder
        self._leaf = leaf
        self._changed = False
        self.items = list(_members(holder))
        self.made: list[Any] = []

    def take(self, item: Any) -> None:
        self._changed = self._changed or item is not self.items[len(self.made)]
        self.made.append(item)

    def result(self) -> Any:
        if isinstance(self._holder, list):
            return self.made if self._changed else self._holder
        keys = [str(self._leaf(key)) for key in self._holder]
        same = not self._changed and all(map(str.__eq__, keys, self._holder))
        return self._holder if same else dict(zip(keys, self.made, strict=True))


def _members(holder: Any) -> Any:
    return holder.values() if isinstance(holder, dict) else holder


def _sendable_leaf(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    return value
