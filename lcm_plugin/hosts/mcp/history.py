"""What the server reads: one database, opened at the first call, for one session or for all of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lcm_plugin.errors import InputError
from lcm_plugin.forks import FreshLocks, join
from lcm_plugin.hosts.mcp.sessions import describe_sessions
from lcm_plugin.hosts.mcp.tools import STATUS, Offered, offered
from lcm_plugin.sessions.globs import matches
from lcm_plugin.types import Session

if TYPE_CHECKING:
    from lcm_plugin.config import LcmConfig
    from lcm_plugin.engine import Engine

_READER = Session("lcm")
_MOST_SESSIONS = 200


class History(FreshLocks):
    """Answers the tools. Thread-safe.

    ``session`` is a session key, a session id, a conversation's number or a glob for one key; None for the
    whole database. Unless ``write`` is true the database is opened read-only, which is safe beside a host
    that uses it, and the tool that calls a model is not offered. A database that does not exist yet is
    looked for again at each call.
    """

    def __init__(self, config: LcmConfig, session: str | None = None, *, write: bool = False) -> None:
        self._config = config if session else config.model_copy(update={"recall_scope": "all"})
        self._session = session
        self._write = write
        self._opening = threading.Lock()
        join(self)
        self._engine: Engine | None = None
        self.reader = _READER

    @property
    def tools(self) -> list[Offered]:
        """The tools that `call` answers."""
        return offered(one_session=self._session is not None, asking=self._write)

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A tool's answer; what is wrong with the call is told in it as ``error`` and ``error_code``.

        Raises `LcmError` when there is no database to look into, or no such session in it.
        """
        names = [tool.name for tool in self.tools]
        if name not in names:
            raise InputError(f"there is no tool {name!r}; the tools are {', '.join(names)}")
        engine = self.engine()
        if name == STATUS:
            return self._status(engine, arguments)
        if self._session is None:
            return engine.call_tool(self.reader, name, _everywhere(name, arguments))
        chosen = engine.library.conversation(self._session)
        session = Session(chosen.session_key, chosen.session_id)
        return engine.call_tool(session, name, _here(arguments))

    def close(self) -> None:
        """Closes the database."""
        with self._opening:
            if self._engine is not None:
                self._engine.close()
                self._engine = None

    def engine(self) -> Engine:
        """The engine, opened at the first call. Raises `StoreError`."""
        from lcm_plugin.engine import Engine

        with self._opening:
            if self._engine is None:
                self._engine = Engine.open(self._config, read_only=not self._write)
            return self._engine

    def _status(self, engine: Engine, arguments: Mapping[str, Any]) -> dict[str, Any]:
        glob, limit = _status_arguments(arguments)
        found = [row for row in engine.library.conversations() if matches(glob, row.session_key)]
        if self._session is not None:
            key = engine.library.conversation(self._session).session_key
            found = [row for row in found if row.session_key == key]
        answer = describe_sessions(engine, found, limit)
        if self._session is None:
            totals = engine.library.status()
            answer |= {"conversations": totals.conversations, "messages": totals.messages}
        return answer


def _here(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments for one session: others are shown only where the call asks for them."""
    if "all_conversations" in arguments or "allConversations" in arguments:
        return dict(arguments)
    return {**arguments, "all_conversations": False}


def _everywhere(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    if "conversation_id" in arguments or "conversationId" in arguments:
        return dict(arguments)
    return {**arguments, "all_conversations": True}


def _status_arguments(arguments: Mapping[str, Any]) -> tuple[str, int]:
    unknown = sorted(set(arguments) - {"sessions", "limit"})
    if unknown:
        raise InputError(f"{STATUS}: unknown argument {unknown[0]!r}; it takes sessions and limit")
    glob, limit = arguments.get("sessions") or "**", arguments.get("limit", 20)
    if not isinstance(glob, str):
        raise InputError(f"{STATUS}: sessions must be text, not {glob!r}")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST_SESSIONS:
        raise InputError(f"{STATUS}: limit must be a number from 1 to {_MOST_SESSIONS}, not {limit!r}")
    return glob, limit
