"""Which lane of talk a session id of the host belongs to, and who serves it now.

The host's unit is the session id; a compaction that does not happen in place gives a conversation a
new one. A lane keeps the key under which its first id was stored.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from lcm_plugin.forks import FreshLocks, join
from lcm_plugin.hosts.hermes.agent import Agent
from lcm_plugin.store.session_keys import hermes_key
from lcm_plugin.types import Session

_MAX_CHAIN = 100


class Lanes(FreshLocks):
    """Session ids and their keys. ``stored_key`` asks the store for the key of an id it has seen.

    While the store cannot be asked, as ``can_ask`` says, a new key is a guess that is not kept.
    """

    def __init__(
        self, stored_key: Callable[[str], str | None], can_ask: Callable[[], bool] = lambda: True
    ) -> None:
        self._stored_key = stored_key
        self._can_ask = can_ask
        self._keys: dict[str, str] = {}
        self._lock = threading.Lock()
        join(self)

    def continue_as(self, old_id: str, new_id: str) -> None:
        """A compaction renamed a session: the new id goes on in the old one's lane."""
        with self._lock:
            key = self._keys.get(old_id)
            if key is not None:
                self._keys[new_id] = key

    def session(self, session_id: str, platform: str, profile: str, session_db: Any = None) -> Session:
        """The lane of a session id: the one it was stored under, or a new one."""
        known = self.known(session_id, session_db)
        if known is not None:
            return known
        key = hermes_key(profile, platform, session_id)
        if self._can_ask():
            with self._lock:
                key = self._keys.setdefault(session_id, key)
        return Session(key=key, id=session_id)

    def known(self, session_id: str, session_db: Any = None) -> Session | None:
        """The lane of a session id, or None when it has none yet."""
        with self._lock:
            key = self._keys.get(session_id)
        if key is None:
            key = self._find(session_id, session_db)
            if key is None:
                return None
            with self._lock:
                key = self._keys.setdefault(session_id, key)
        return Session(key=key, id=session_id)

    def _find(self, session_id: str, session_db: Any) -> str | None:
        seen: set[str] = set()
        current: str | None = session_id
        while current and current not in seen and len(seen) < _MAX_CHAIN:
            seen.add(current)
            with self._lock:
                key = self._keys.get(current)
            key = key or self._stored_key(current)
            if key is not None:
                return key
            current = _compacted_from(session_db, current)
        return None


def _compacted_from(session_db: Any, session_id: str) -> str | None:
    """The session whose compaction made this one; branches and sub-agents begin lanes of their own."""
    get = getattr(session_db, "get_session", None)
    if get is None:
        return None
    row = get(session_id) or {}
    parent = row.get("parent_session_id")
    config = str(row.get("model_config") or "")
    if not parent or "_branched_from" in config or "_delegate_from" in config:
        return None
    return str(parent) if (get(parent) or {}).get("end_reason") == "compression" else None


class LiveEngines(FreshLocks):
    """The engines of the agents that are alive, by the session they are bound to, newest last.

    The host copies the registered engine for each agent, and its hooks name only a session. ``enter``
    is called by an engine whenever its agent's loop uses it, so that a hook on the same thread can
    tell whose it is: a background fork borrows its owner's session id, but not the owner's engine.
    """

    def __init__(self) -> None:
        self._engines: weakref.WeakSet[Agent] = weakref.WeakSet()
        self._lock = threading.Lock()
        join(self)
        self._local = threading.local()

    def add(self, engine: Agent) -> None:
        """Makes an engine findable."""
        with self._lock:
            self._engines.add(engine)

    def enter(self, engine: Agent) -> None:
        """This thread runs the loop of the engine's agent."""
        self._local.engine = weakref.ref(engine)

    def of_hook(self, session_id: str) -> Agent | None:
        """The engine whose agent fired a hook, or None when the hook is not about its session."""
        reference = getattr(self._local, "engine", None)
        engine = reference() if reference is not None else None
        if engine is not None:
            return engine if engine.session_id == session_id else None
        return self.of_session(session_id)

    def of_session(self, session_id: str) -> Agent | None:
        """The engine bound to a session last."""
        return max(self._where("session_id", session_id), key=_age, default=None)

    def of_gateway_key(self, key: str) -> Agent | None:
        """The engine bound last under a gateway's session key."""
        return max(self._where("gateway_key", key), key=_age, default=None)

    def any(self) -> bool:
        """Whether the host has made an engine of ours for any agent."""
        with self._lock:
            return bool(self._engines)

    def only(self) -> Agent | None:
        """The one engine that is bound, or None when there are none or several."""
        with self._lock:
            bound = [engine for engine in self._engines if engine.session_id]
        return bound[0] if len(bound) == 1 else None

    def newest_unbound(self) -> Agent | None:
        """The engine that left its session last and has no other yet."""
        with self._lock:
            return max((e for e in self._engines if not e.session_id), key=_age, default=None)

    def _where(self, name: str, value: str) -> list[Agent]:
        with self._lock:
            return [engine for engine in self._engines if value and getattr(engine, name) == value]


def _age(engine: Agent) -> int:
    return engine.bound_at
