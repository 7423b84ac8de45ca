"""Conversions that are made once: a host hands its whole list over at every call, and nearly all of it is as it was.

A value is known by its bytes, or by a copy of what it was, so that one that somebody changed in place is another one.
Only the objects in `FixedMessages`, which nobody changes, are known by their identity.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
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
_NEWEST = 32
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


class Line(Generic[_S]):
    """A list that only grows. What is made of its members is made once for each. Thread-safe.

    ``name`` tells lines apart and keeps nothing alive.
    """

    __slots__ = ("_columns", "name")

    def __init__(self) -> None:
        self.name = object()
        self._columns: dict[str, list[Any]] = {}

    def column(self, name: str, make: Callable[[_S], _T], members: list[_S]) -> list[_T]:
        """What ``make`` gives for each of the first members, which ``members`` are."""
        column = self._columns.get(name, [])
        if len(column) < len(members):
            # A list of its own, so that threads only ever put the same in each other's place.
            column = column + list(map(make, islice(members, len(column), None)))
            self._columns[name] = column
        return column[: len(members)]


class Grown(list[_T]):
    """A list of which the first ``shared`` members are the first ones of a line."""

    def __init__(self, members: Iterable[_T] = (), line: Line[Any] | None = None, shared: int = 0) -> None:
        super().__init__(members)
        self.line = line
        self.shared = shared if line else 0

    @property
    def line_name(self) -> object | None:
        """Which line the list begins as."""
        return self.line.name if self.line else None

    def column(self, name: str, make: Callable[[_T], Any]) -> list[Any]:
        """What ``make`` gives for each member; it is asked once for each of the line's."""
        if self.line is None or self.shared < len(self):
            return list(map(make, self))
        return self.line.column(name, make, self)


class FixedMessages(Grown[Message]):
    """Messages of the caller's own that nobody changes: the same object is the same message."""


@dataclass(frozen=True, slots=True)
class _List(Generic[_T]):
    """A list that was converted: copies of each part of its values, about how many bytes they take, the results.

    ``given`` are the values themselves, for as long as their identity counts, and ``given_line`` the line that the list
    began as, up to ``given_shared``.
    """

    copies: list[list[Any]]
    sizes: list[int]
    results: list[_T]
    line: Line[_T]
    weight: int = 0
    given: list[Any] = field(default_factory=list)
    given_line: object | None = None
    given_shared: int = 0


class ListConversions(Generic[_S, _T]):
    """Converts lists that grow, at the cost of what is new in them: of each name the newest list is kept. Thread-safe.

    The values are compared, place by place, with copies of those of the last list, from where this one begins in it;
    where both begin as one line does, nothing is compared. ``parts`` give all of a value that the result depends on,
    first what tells it best from others; by default that is the value itself. With ``exact`` 1, 1.0 and True are
    different values, which costs more for each value with a number in it. Nobody may change a result.
    """

    def __init__(self, *parts: Callable[[_S], Any], exact: bool) -> None:
        self._parts = parts
        self._exact = exact
        self._lists: LruCache[Hashable, _List[_T]] = LruCache(_MOST_BYTES, lambda known: known.weight)

    def __call__(
        self,
        name: Hashable,
        values: Sequence[_S],
        convert: Callable[[int], _T],
        *,
        closely: bool = True,
        again: bool = False,
    ) -> Grown[_T]:
        """The results of a list's values; ``convert`` makes the one of a place.

        ``again`` keeps the values themselves until the next call. Unless that compares ``closely``, it takes those that
        are the same objects to be as they were, but for the newest few.
        """
        fixed = isinstance(values, FixedMessages)
        last: _List[_T] = self._lists.get(name) or _List([[] for _ in self._parts or (0,)], [], [], Line())
        begun = _begins_as(last, values) or (0 if closely else _same_objects(last.given, values))
        fresh = values[begun:] if begun else values
        # A column for each part: a tuple for each value would be thousands of objects for the garbage collector.
        columns: list[list[Any]] = [list(map(part, fresh)) for part in self._parts] or [list(fresh)]
        start, same = _compared(last.copies, columns, fixed, begun)
        end, count = start + begun + len(same), begun + len(same)
        changed = [] if all(same) else [begun + n for n, is_same in enumerate(same) if not is_same]
        results, copies, sizes = last.results, last.copies, last.sizes
        is_longer = not start and not changed and len(values) >= len(results)
        line = last.line if is_longer else Line()
        weight = last.weight
        if not is_longer or len(values) > len(results):
            made = range(count, len(values))
            results = [*last.results[start:end], *[None] * len(made)]  # type: ignore[list-item]
            copies = [[*column[start:end], *[None] * len(made)] for column in last.copies]
            sizes = [*last.sizes[start:end], *[0] * len(made)]
            weight = weight if is_longer else sum(sizes)
            for place in (*changed, *made):
                results[place] = convert(place)
                parts = [column[place - begun] for column in columns]
                for column, part in zip(copies, parts, strict=True):
                    column[place] = part if fixed else _copied(part, self._exact)
                size = sum(map(rough_size, parts))
                weight += size - sizes[place]
                sizes[place] = size
        known = _List(
            copies,
            sizes,
            results,
            line,
            weight,
            list(values) if again else [],
            values.line_name if isinstance(values, Grown) else None,
            values.shared if isinstance(values, Grown) else 0,
        )
        self._lists.put(name, known)
        return Grown(results, line, len(results))


def _begins_as(last: _List[Any], values: Sequence[Any]) -> int:
    """How many values begin a list as they began the last one, since both begin as one line does."""
    if not isinstance(values, Grown) or values.line is None or values.line_name is not last.given_line:
        return 0
    return min(values.shared, last.given_shared, len(values), len(last.results))


def _same_objects(given: list[Any], values: Sequence[Any]) -> int:
    """How many values begin a list as they began the last one, but for its newest; 0 when any of them is another."""
    old = len(given) - _NEWEST
    return old if 0 < old <= len(values) and all(map(is_, islice(given, old), values)) else 0


def _compared(
    copies: list[list[Any]], columns: list[list[Any]], fixed: bool, begun: int
) -> tuple[int, list[bool]]:
    """Where a list begins in the last one, and which of its values are the same from there on, as far as that goes.

    The ``begun`` values before those of ``columns`` are the same in both.
    """
    try:
        start = copies[0].index(columns[0][0]) if columns[0] and not begun else 0
    except Exception:  # noqa: BLE001 - it is not there, or it is of a foreign class, which may raise anything
        start = 0
    begin = start + begun
    both = list(zip(copies, columns, strict=True))
    common = max(0, min(len(copies[0]) - begin, len(columns[0])))
    try:
        if not fixed and all(known[begin : begin + common] == column[:common] for known, column in both):
            return start, [True] * common
        equal = (map(is_ if fixed else eq, islice(known, begin, None), column) for known, column in both)
        same = list(map(bool, next(equal)))
        for others in equal:
            same = list(map(and_, same, map(bool, others)))
        return start, same
    except Exception:  # noqa: BLE001 - as above
        return (0, []) if not begun else (start, [False] * common)


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
