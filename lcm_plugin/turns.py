"""What the plugin remembers between two hook calls of a session, and the host's live copy of a turn."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lcm_plugin.ingest.identity import identity_of
from lcm_plugin.ingest.messages import calls_answered, calls_made
from lcm_plugin.types import Context, Message, Session, Turn

_SESSIONS = 256
_MESSAGES = 512


def turn_budget(turn: Turn) -> int | None:
    """The token budget that a host gives: the model's window, when it says so."""
    return turn.window if turn.window and turn.window > 0 else None


@dataclass(slots=True)
class _Lane:
    handed_over: deque[Message] = field(default_factory=lambda: deque(maxlen=_MESSAGES))
    waiting: list[Message] = field(default_factory=list)


class TurnMemory:
    """Knows which message objects a host has handed over already, and what could not be stored yet.

    A delta that comes twice (a hook called twice, or before and after a turn) is known by the message
    objects themselves, so that honest repeats with equal words are kept. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lanes: OrderedDict[str, _Lane] = OrderedDict()

    def unseen(self, turn: Turn) -> list[Message]:
        """What to store: the whole list, or of a delta what is new, after what waits from before."""
        if turn.mode == "sync":
            return list(turn.messages)
        with self._lock:
            lane = self._lane(turn.session)
            known = {id(message) for message in lane.handed_over}
            fresh = [message for message in turn.messages if id(message) not in known]
            lane.handed_over.extend(fresh)
            return [*lane.waiting, *fresh]

    def stored(self, session: Session) -> None:
        """Everything that `unseen` returned is stored."""
        with self._lock:
            self._lane(session).waiting.clear()

    def keep(self, turn: Turn, messages: Sequence[Message]) -> int:
        """A delta could not be stored: it goes first next time. Returns how many messages wait."""
        if turn.mode == "sync":
            return 0
        with self._lock:
            lane = self._lane(turn.session)
            lane.waiting = list(messages)
            return len(lane.waiting)

    def forget(self, session: Session) -> None:
        """A session was reset or ended; what still waits to be stored is kept."""
        with self._lock:
            self._lane(session).handed_over.clear()

    def _lane(self, session: Session) -> _Lane:
        key = session.key or session.id or ""
        lane = self._lanes.setdefault(key, _Lane())
        self._lanes.move_to_end(key)
        while len(self._lanes) > _SESSIONS:
            oldest = next((name for name, other in self._lanes.items() if not other.waiting), None)
            if oldest is None or oldest == key:
                break
            del self._lanes[oldest]
        return lane


def with_live_copies(context: Context, turn: Turn, count: Callable[[Any], int]) -> Context:
    """The context with the host's own copies of the current turn, from its newest user message on.

    A host may have decorated them (a task list, a date). Only copies that are the same message and do
    not grow past what the context was allowed replace the stored ones.
    """
    if turn.mode != "sync" or context.over_budget:
        return context
    mine, theirs = _newest_user(context.messages), _newest_user(turn.messages)
    if mine is None or theirs is None:
        return context
    live = list(turn.messages[theirs:])
    own = context.messages[mine:]
    if len(own) > len(live) or not all(map(_same, own, live)):
        return context
    copies = [dict(message) for message in live[: len(own)]]
    tokens = context.tokens + sum(count(copy) - count(old) for copy, old in zip(copies, own, strict=True))
    budget = turn_budget(turn)
    if budget is not None and tokens + turn.overhead_tokens > budget:
        return context
    return replace(context, messages=[*context.messages[:mine], *copies], tokens=tokens)


def _newest_user(messages: Sequence[Message]) -> int | None:
    return next((n for n in range(len(messages) - 1, -1, -1) if messages[n].get("role") == "user"), None)


def _same(stored: Message, live: Message) -> bool:
    """Whether a host's message is the stored one, decorations of a user's text allowed."""
    if stored.get("role") != live.get("role"):
        return False
    if stored.get("role") != "user":
        same_calls = calls_made(stored) == calls_made(live) and calls_answered(stored) == calls_answered(live)
        return same_calls and identity_of(stored) == identity_of(live)
    one, other = stored.get("content"), live.get("content")
    if isinstance(one, str) and isinstance(other, str):
        return one.strip() in other
    return identity_of(stored) == identity_of(live)
