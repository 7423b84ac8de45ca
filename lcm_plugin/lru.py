"""The one bounded cache: the entries used last stay."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar, overload

from lcm_plugin import forks

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
D = TypeVar("D")


class LruCache(forks.FreshLocks, Generic[K, V]):
    """Keeps entries up to ``most`` in all: their number, or what ``weigh`` gives for each. Thread-safe.

    The newest stays, however much it weighs. `functools.lru_cache` computes what it keeps; here a caller decides
    what is kept, and may take it out again.
    """

    def __init__(self, most: int, weigh: Callable[[V], int] = lambda value: 1) -> None:
        self._most = most
        self._weigh = weigh
        self._weight = 0
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()
        forks.join(self)

    @overload
    def get(self, key: K) -> V | None: ...

    @overload
    def get(self, key: K, default: D) -> V | D: ...

    def get(self, key: K, default: object = None) -> object:
        """The value of a key, which counts as used now."""
        with self._lock:
            if key not in self._entries:
                return default
            self._entries.move_to_end(key)
            return self._entries[key]

    def get_all(self, keys: Iterable[K]) -> dict[K, V]:
        """The values of those keys that have one; they count as used now."""
        found = {}
        with self._lock:
            for key in keys:
                if key in self._entries:
                    self._entries.move_to_end(key)
                    found[key] = self._entries[key]
        return found

    def put(self, key: K, value: V) -> None:
        """Keeps a value under a key in place of an older one."""
        with self._lock:
            self._drop(key)
            self._add(key, value)

    def put_new(self, key: K, value: V) -> V:
        """Keeps a value unless the key has one already; returns the one that is kept."""
        with self._lock:
            if key in self._entries:
                return self._entries[key]
            self._add(key, value)
            return value

    def pop(self, key: K) -> V | None:
        """Takes a value out."""
        with self._lock:
            return self._drop(key)

    def clear(self) -> None:
        """Takes all out."""
        with self._lock:
            self._entries.clear()
            self._weight = 0

    def _add(self, key: K, value: V) -> None:
        self._entries[key] = value
        self._weight += self._weigh(value)
        while self._weight > self._most and len(self._entries) > 1:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: K) -> V | None:
        if key not in self._entries:
            return None
        value = self._entries.pop(key)
        self._weight -= self._weigh(value)
        return value
