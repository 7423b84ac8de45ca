"""Conversions that are made once: a host hands its whole list over at every call, and nearly all of it is as it was.

A value is known by its bytes, or by a copy of what it was, so that one that somebody changed in place is another one.
Only the objects in `FixedMessages`, which nobody changes, are known by their identity.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import and_, eq, is_
from typing import Any, Generic, TypeVar

from lcm_plugin.lru import LruCache
from lcm_plugin.messages.convert import rough_size
from lcm_plugin.types import Message

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


class FixedMessages(list[Message]):
    """Messages of the caller's own that nobody changes: the same object is the same message."""


@dataclass(frozen=True, slots=True)
class _List(Generic[_T]):
    """A list that was converted: copies of each part of its values, about how many bytes they take, the results."""

    copies: list[list[Any]]
    sizes: list[int]
    results: list[_T]


class ListConversions(Generic[_S, _T]):
    """Converts lists that grow, at the cost of what is new in them: of each name the newest list is kept. Thread-safe.

    The values are compared, place by place, with copies of those of the last list, from where this one begins in it.
    ``parts`` give all of a value that the result depends on, first what tells it best from others; by default that is
    the value itself. With ``exact`` 1, 1.0 and True are different values, which costs more for each value with a number
    in it. Nobody may change a result.
    """

    def __init__(self, *parts: Callable[[_S], Any], exact: bool) -> None:
        self._parts = parts
        self._exact = exact
        self._lists: LruCache[Hashable, _List[_T]] = LruCache(_MOST_BYTES, lambda known: sum(known.sizes))

    def __call__(self, name: Hashable, values: Sequence[_S], convert: Callable[[int], _T]) -> list[_T]:
        """The results of a list's values; ``convert`` makes the one of a place."""
        # A column for each part: a tuple for each value would be thousands of objects for the garbage collector.
        columns: list[list[Any]] = [list(map(part, values)) for part in self._parts] or [list(values)]
        fixed = isinstance(values, FixedMessages)
        last: _List[_T] = self._lists.get(name) or _List([[] for _ in columns], [], [])
        start, same = _compared(last.copies, columns, fixed)
        end = start + len(same)
        results = last.results[start:end]
        changed = [] if all(same) else [place for place, is_same in enumerate(same) if not is_same]
        if not changed and len(same) == len(values) == len(last.results):
            return results
        for place in changed:
            results[place] = convert(place)
        results += map(convert, range(len(same), len(values)))
        copies, sizes = [column[start:end] for column in last.copies], last.sizes[start:end]
        sizes += [0] * (len(values) - len(same))
        for column in copies:
            column += [None] * (len(values) - len(same))
        for place in (*changed, *range(len(same), len(values))):
            parts = [column[place] for column in columns]
            for column, part in zip(copies, parts, strict=True):
                column[place] = part if fixed else _copied(part, self._exact)
            sizes[place] = sum(map(rough_size, parts))
        self._lists.put(name, _List(copies, sizes, results))
        return results[:]


def _compared(copies: list[list[Any]], columns: list[list[Any]], fixed: bool) -> tuple[int, list[bool]]:
    """Where a list begins in the last one, and which of its values are the same from there on, as far as that goes."""
    try:
        start = copies[0].index(columns[0][0]) if columns[0] else 0
    except Exception:  # noqa: BLE001 - it is not there, or it is of a foreign class, which may raise anything
        start = 0
    both = list(zip(copies, columns, strict=True))
    common = min(len(copies[0]) - start, len(columns[0]))
    try:
        if not fixed and all(known[start : start + common] == column[:common] for known, column in both):
            return start, [True] * common
        equal = (map(is_ if fixed else eq, islice(known, start, None), column) for known, column in both)
        same = list(map(bool, next(equal)))
        for others in equal:
            same = list(map(and_, same, map(bool, others)))
        return start, same
    except Exception:  # noqa: BLE001 - as above
        return 0, []


class _Exactly:
    """Equals the values with these bytes; without any it equals none."""

    __slots__ = ("_bytes",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, written: bytes = b"") -> None:
        self._bytes = written

    def __eq__(self, other: Any) -> bool:
        try:
            return bool(self._bytes) and marshal.dumps(other, _FORMAT) == self._bytes
        except ValueError:
            return False


def _copied(essence: Any, exact: bool) -> Any:
    """A copy that equals the same value and no other one; one that equals none of what is no JSON."""
    try:
        copy, has_numbers = _copy(essence)
        return _Exactly(marshal.dumps(essence, _FORMAT)) if exact and has_numbers else copy
    except (ValueError, RecursionError):
        return _Exactly()


def _copy(value: Any) -> tuple[Any, bool]:
    """A copy of a JSON value or of a tuple of such values and classes, and whether there are numbers in it."""
    kind = type(value)
    if value is None or kind is str or kind is type or isinstance(value, type):
        return value, False
    if kind in (int, float, bool):
        return value, True
    if kind is dict:
        if not all(type(key) is str for key in value):
            raise ValueError("a key is no text")
        items = [_copy(item) for item in value.values()]
        return dict(zip(value, (copy for copy, _ in items), strict=True)), any(found for _, found in items)
    if kind in (list, tuple):
        items = [_copy(item) for item in value]
        return kind(copy for copy, _ in items), any(found for _, found in items)
    raise ValueError(f"a {kind.__name__} is no JSON")
