"""Conversions that are made once: a host hands its whole list over at every call, and nearly all of it is as it was.

A value is known by its bytes and not by its identity, so that one that somebody changed in place is another one.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

_FORMAT = (
    2  # The newest one whose bytes depend on the values alone, not on which of them are shared or interned.
)
_MOST_BYTES = 16 * 1024 * 1024
_LONGEST = _MOST_BYTES // 16
_S = TypeVar("_S")
_T = TypeVar("_T")


class Conversions(Generic[_S, _T]):
    """A pure function of values, with the results for the newest of them. Thread-safe.

    ``essence`` gives all of a value that the result depends on; by default that is the value itself. What is no JSON
    is converted each time. Nobody may change a result.
    """

    def __init__(self, convert: Callable[[_S], _T], essence: Callable[[_S], Any] | None = None) -> None:
        self._convert = convert
        self._essence = essence
        # Of two generations the older one goes as a whole, which costs less than an order of use.
        self._newer: dict[bytes, _T] = {}
        self._older: dict[bytes, _T] = {}
        self._size = 0

    def __call__(self, value: _S) -> _T:
        """The value converted."""
        essence: Any = self._essence(value) if self._essence else value
        if _is_long(essence):
            return self._convert(value)
        try:
            key = marshal.dumps(essence, _FORMAT)
        except ValueError:
            return self._convert(value)
        found = self._newer.get(key)
        if found is not None:
            return found
        found = self._older.get(key)
        if found is None:
            found = self._convert(value)
            if not _is_json(essence):
                return found
        self._keep(key, found)
        return found

    def known(self, values: Iterable[_S]) -> list[_T | None]:
        """What is known already of each value; None of those that are to be converted."""
        newer, dumps = self._newer, marshal.dumps
        essences: Iterable[Any] = map(self._essence, values) if self._essence else values
        found: list[_T | None] = []
        for essence in essences:
            # As `_is_long`, but without a call for each message.
            text = essence.get("content") if type(essence) is dict else None
            if type(text) is str and len(text) > _LONGEST:
                found.append(None)
                continue
            try:
                found.append(newer.get(dumps(essence, _FORMAT)))
            except ValueError:
                found.append(None)
        return found

    def _keep(self, key: bytes, result: _T) -> None:
        if len(key) > _LONGEST:
            return
        self._size += len(key)
        if self._size > _MOST_BYTES // 2:
            self._older, self._newer, self._size = self._newer, {}, len(key)
        self._newer[key] = result


def _is_long(value: Any) -> bool:
    """Whether a message's text is longer than what is kept, so that its bytes would be a copy for nothing."""
    text = value.get("content") if isinstance(value, dict) else None
    return isinstance(text, str) and len(text) > _LONGEST


def _is_json(value: Any) -> bool:
    """Whether a value, or all in a tuple, is of JSON values: `marshal` writes whatever holds bytes as these bytes."""
    try:
        return bool(json.loads(json.dumps(value)) == (list(value) if isinstance(value, tuple) else value))
    except (TypeError, ValueError, RecursionError):
        return False
