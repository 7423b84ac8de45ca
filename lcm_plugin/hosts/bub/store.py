"""The host's tape store, watched: nothing else tells that a tape was emptied, or cut by an anchor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from typing import Any, Protocol

from lcm_plugin.hosts.bub.tape import Entry


class Watcher(Protocol):
    """Hears of a tape, by its name, after something was done to it."""

    def tape_appended(self, tape: str, entry: Entry) -> None: ...
    async def tape_reset(self, tape: str) -> None: ...


class WatchedTapes:
    """Hands every call on to the host's own store."""

    def __init__(self, inner: Any, watcher: Watcher) -> None:
        self._inner = inner
        self._watcher = watcher

    async def list_tapes(self) -> list[str]:
        """The names of all tapes."""
        names: list[str] = await self._inner.list_tapes()
        return names

    async def fetch_all(self, query: Any) -> Iterable[Any]:
        """The entries that a query selects."""
        entries: Iterable[Any] = await self._inner.fetch_all(query)
        return entries

    async def append(self, tape: str, entry: Any) -> None:
        """Adds an entry."""
        await self._inner.append(tape, entry)
        self._watcher.tape_appended(tape, entry)

    async def reset(self, tape: str) -> None:
        """Empties a tape."""
        await self._inner.reset(tape)
        await self._watcher.tape_reset(tape)


async def watched_tapes(framework: Any, own: Watcher) -> AsyncIterator[Any]:
    """Yields the store that the host would use without us, watched, for as long as the host uses it."""
    from bub.store import AsyncTapeStoreAdapter, is_async_tape_store
    from bub.utils import maybe_context_manager

    async with AsyncExitStack() as stack:
        inner = await maybe_context_manager(_next_store(framework, own), stack)
        if inner is not None and not is_async_tape_store(inner):
            inner = AsyncTapeStoreAdapter(inner)
        yield None if inner is None else WatchedTapes(inner, own)


def _next_store(framework: Any, own: object) -> Any:
    """What the plugins after us provide."""
    implementations = list(reversed(framework.plugin_manager.hook.provide_tape_store.get_hookimpls()))
    places = [place for place, one in enumerate(implementations) if one.plugin is own]
    for implementation in implementations[places[0] + 1 :] if places else ():
        store = implementation.function()
        if store is not None:
            return store
    return None
