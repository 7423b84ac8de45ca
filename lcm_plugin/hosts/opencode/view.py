"""What a context that was made for opencode shows: messages, and the quotes that stand beside requests of its own list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lcm_plugin.assembly.recalled import InView
from lcm_plugin.hosts.agents.passages import MOST_TOKENS, ROOM
from lcm_plugin.hosts.agents.quotes import Read
from lcm_plugin.hosts.opencode.messages import host_of, to_core
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.blocks import text_of
from lcm_plugin.messages.shape import answer_ids
from lcm_plugin.types import Context

_SESSIONS = 64


class Quoted:
    """The quotes in each session's own list, by the message of opencode that they are a part of."""

    def __init__(self) -> None:
        self._beside: LruCache[str, dict[str, tuple[str, str]]] = LruCache(_SESSIONS)

    def learn(self, session: str, listed: Sequence[Mapping[str, Any]]) -> None:
        """Takes them from a list, in place of those of the list before."""
        found: dict[str, tuple[str, str]] = {}
        for one in listed:
            block = "\n".join(str(part["text"]) for part in one.get("parts") or () if _is_quote(part))
            if block and (core := to_core([one])):
                found[host_of(core[0])] = (text_of(core[0]), block)
        self._beside.put(session, found)

    def view(self, session: str, context: Context) -> InView:
        """What the model can read of a context.

        With a request that is compacted, or shortened, the quotes beside it are gone.
        """
        beside = self._beside.get(session) or {}
        read = Read()
        for message in context.messages:
            text, block = beside.get(host_of(message), ("", ""))
            if block and text == text_of(message):
                read.add(block)
            elif answer_ids(message):
                read.add(text_of(message))
        return InView(
            frozenset(one.ref for one in context.shown if not one.cuts and not one.cleared),
            quoted="\n".join(map(text_of, context.messages)),
            left_out=True,
            room=ROOM,
            free=MOST_TOKENS,
            quotes=read.quotes,
            places=read.places,
        )


def _is_quote(part: Mapping[str, Any]) -> bool:
    return bool(part.get("synthetic")) and "<recalled>" in str(part.get("text"))
