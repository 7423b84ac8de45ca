"""What an agent's list looked like when the host last showed it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lcm_plugin.hosts.hermes.messages import Merges, from_host
from lcm_plugin.types import Message


class SeenList:
    """The newest list of one agent's session, and the one of the session before.

    The host hands over the wrong list at two moments: after a compaction the one before it, and at
    exit, when nothing was said since ``/new``, the one of the session before. Both are known by the
    very dicts they hold.
    """

    def __init__(self, new_merges: Callable[[], Merges] = Merges) -> None:
        self.raw: list[Any] = []
        self.listing: list[Message] = []
        self._before_session: list[Any] = []
        self._compacted: Any = None
        self._new_merges = new_merges
        self._merges = new_merges()

    def look(self, messages: Sequence[Any]) -> list[Message]:
        """Takes the list in and returns the conversation that it stands for."""
        self.raw = list(messages)
        self.listing = from_host(self.raw, self._merges)
        return self.listing

    def compacted(self, messages: Sequence[Any]) -> None:
        """A compaction gave the host a smaller list in place of this one."""
        self._compacted = messages[-1] if messages else None

    def leave(self) -> None:
        """The agent goes to another session; what it has shown so far belongs to the one it leaves."""
        self._before_session = self.raw or self._before_session
        self.raw, self.listing, self._compacted = [], [], None
        self._merges = self._new_merges()

    def is_stale(self, messages: Sequence[Any]) -> bool:
        """Whether a list handed over at a session's end is one of the wrong ones."""
        known = {id(message) for message in self._before_session}
        return any(id(message) in known or message is self._compacted for message in messages)
