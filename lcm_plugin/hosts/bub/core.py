"""The plugin behind the host's hooks: called through its contract, left alone for a while when it fails.

While it fails the host works on with its own tape, which holds all that was said; what is missing is
taken from there later.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

from lcm_plugin.events import Event
from lcm_plugin.hookspecs import hookimpl
from lcm_plugin.hosts.bub.tape import Entry, open_handoff, unseen
from lcm_plugin.plugin import register
from lcm_plugin.sessions.gate import Access
from lcm_plugin.types import Completer, Context, Message, Reset, Session, Turn

if TYPE_CHECKING:
    from lcm_plugin.config import LcmConfig
    from lcm_plugin.engine import Engine

logger = logging.getLogger("lcm_plugin.bub")

_PAUSE_SECONDS = 30.0


class Core:
    """One engine for all sessions of this process. Making it opens nothing. Thread-safe; never raises."""

    def __init__(
        self,
        config: LcmConfig,
        *,
        completer: Completer | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self.problem = ""
        self._monotonic = monotonic
        self._paused_until = float("-inf")
        self._told = ""
        self._lock = threading.Lock()
        self._seen: set[Session] = set()
        self._behind: set[str] = set()
        self._handoffs: dict[str, str] = {}
        self._manager = pluggy.PluginManager("lcm")
        self._plugin = register(self._manager, config, completer=completer)
        self._manager.register(self)

    @property
    def paused(self) -> bool:
        """Whether the plugin failed a short while ago."""
        with self._lock:
            return self._monotonic() < self._paused_until

    def engine(self) -> Engine | None:
        """The engine, opened at the first call; None while it cannot be."""
        if self.paused:
            return None
        try:
            return self._plugin.engine
        except Exception as error:  # noqa: BLE001 - the host must go on, and be told
            self._failed(str(error))
            return None

    def open(self, selected: bool) -> None:
        """Opens the engine and tells it whether the host asks us for its contexts."""
        engine = self.engine()
        if engine is not None:
            if not selected and engine.selected_by_host is None:
                logger.warning("LCM is loaded, but another plugin builds Bub's contexts, so that nothing is stored.")
            engine.selected_by_host = selected

    def serves(self, session: Session) -> bool:
        """Whether the session's context is ours: not when it is ignored or stateless, or nothing works."""
        engine = self.engine()
        if engine is None or engine.access(session) is not Access.FULL:
            return False
        self._seen.add(session)
        return True

    def before_turn(self, turn: Turn) -> Context | None:
        """The context of the next model call; None when the host's own is to be used."""
        context: Context | None = self._call("before_turn", turn=turn)
        return context

    def after_turn(self, turn: Turn) -> None:
        """Hands over an answer and what the provider counted."""
        self._call("after_turn", turn=turn)

    def follow(self, session: Session, entries: Sequence[Entry]) -> None:
        """Stores what the tape holds and the store does not, and carries out a handoff at its end."""
        if session.key in self._behind:
            # The plugin keeps what it could not store; it is stored first, or it would be found missing below.
            self.before_turn(Turn(session, [], mode="append"))
            if self.paused:
                return
            self._behind.discard(session.key)
        missing = self._unseen(session, entries)
        if missing:
            self.before_turn(Turn(session, missing, mode="append"))
        date = open_handoff(entries)
        if date is not None and self._handoffs.get(session.key) != date:
            self._handoffs[session.key] = date
            self._call("before_reset", reset=Reset(session, "new"))

    def reset(self, session: Session) -> None:
        """The host emptied the session's tape."""
        self._call("before_reset", reset=Reset(session, "reset"))

    def tools(self) -> list[dict[str, Any]]:
        """The recall tools as OpenAI function schemas."""
        return self._plugin.lcm_tools()

    def call_tool(self, session: Session, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A recall tool's result."""
        result = self._call("lcm_call_tool", session=session, name=name, arguments=arguments)
        return result if isinstance(result, dict) else {"error": self._trouble()}

    def command(self, session: Session, text: str) -> str:
        """The answer to ``/lcm …``."""
        result = self._call("lcm_run_command", session=session, text=text)
        return result.text if result is not None else self._trouble()

    def note(self, session: Session) -> str:
        """What the system prompt should say about summaries and tools; empty while nothing works."""
        engine = self.engine()
        return engine.system_note(session) if engine is not None else ""

    def close(self) -> None:
        """Lets compaction that runs come to its end, for as long as a turn would wait, and closes the engine."""
        if self._seen and (engine := self.engine()) is not None:
            engine.wait_idle(self.config.hard_wait_ms / 1000)
            for session in self._seen:
                self._call("session_end", session=session, reason="shutdown")
        self._plugin.close()

    @hookimpl
    def lcm_event(self, event: Event) -> None:
        """Hears of every failed hook."""
        if event.name == "hook.failed":
            self._behind.add(event.session_key or "")
            self._failed(str(event.fields.get("error")))

    def _unseen(self, session: Session, entries: Sequence[Entry]) -> list[Message]:
        engine = self.engine()
        if engine is None:
            return []
        try:
            with engine.store.read() as reader:
                lane = [conversation.conversation_id for conversation in reader.lane(session.key)]
                return unseen(entries, lambda ids: reader.known_host_ids(lane, ids) if lane else set())
        except Exception as error:  # noqa: BLE001 - the host must go on, and be told
            self._failed(str(error))
            return []

    def _call(self, hook: str, **arguments: Any) -> Any:
        if self.paused:
            return None
        result = getattr(self._manager.hook, hook)(**arguments)
        if not self.paused:
            self.problem = self._told = ""
        return result

    def _failed(self, why: str) -> None:
        with self._lock:
            self._paused_until = self._monotonic() + _PAUSE_SECONDS
            self.problem = why
            known, self._told = why == self._told, why
        if not known:
            logger.warning(
                "LCM is not working: %s. Bub goes on with its own tape; LCM tries again in %d seconds.",
                why,
                _PAUSE_SECONDS,
            )

    def _trouble(self) -> str:
        return f"LCM is not working: {self.problem or 'the log says why'}"
