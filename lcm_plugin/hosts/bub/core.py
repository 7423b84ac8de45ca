"""The plugin behind the host's hooks: called through its contract, left alone for a while when it fails.

While it fails the host works on with its own tape, which holds all that was said; what is missing is
taken from there later.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

from lcm_plugin.events import Event
from lcm_plugin.forks import FreshLocks, join
from lcm_plugin.hookspecs import hookimpl
from lcm_plugin.hosts.bub.tape import Entry, missing_ids, newest_ids, unseen
from lcm_plugin.maintenance.hook_health import EVERYWHERE
from lcm_plugin.recall.tools import tool_schemas
from lcm_plugin.types import Completer, Context, Message, Reset, Session, Turn

if TYPE_CHECKING:
    from lcm_plugin.config import LcmConfig
    from lcm_plugin.engine import Engine
    from lcm_plugin.plugin import LcmPlugin

logger = logging.getLogger("lcm_plugin.bub")

_PAUSE_SECONDS = 30.0
_NOTED = 256
_TURN = "turn"
_T = TypeVar("_T")


class Core(FreshLocks):
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
        self._faults: set[str] = set()
        self._lock = threading.Lock()
        join(self)
        self._seen: set[Session] = set()
        self._behind: set[str] = set()
        self._owed_resets: set[Session] = set()
        self._taped: dict[Session, list[str]] = {}
        self._taken_back: dict[Session, set[str]] = {}
        self._completer = completer
        self._manager = pluggy.PluginManager("lcm")
        self._registered: LcmPlugin | None = None

    @property
    def paused(self) -> bool:
        """Whether the plugin failed a short while ago."""
        with self._lock:
            return self._monotonic() < self._paused_until

    @property
    def _plugin(self) -> LcmPlugin:
        """The plugin, imported at first use: the host starts for many things that need none of it."""
        with self._lock:
            if self._registered is None:
                from lcm_plugin.plugin import register

                self._registered = register(self._manager, self.config, completer=self._completer)
                self._manager.register(self)
            return self._registered

    def engine(self) -> Engine | None:
        """The engine, opened at the first call; None while it cannot be."""
        return self._ask(lambda engine: engine, None)

    def open(self, selected: bool) -> None:
        """A turn begins: opens the engine and tells it whether the host asks us for its contexts."""
        engine = self.engine()
        if engine is None:
            self._plugin.health.failed(
                _TURN, EVERYWHERE, self.problem or "the engine failed; the log says where"
            )
        else:
            self._plugin.health.works(_TURN, EVERYWHERE)
            if not selected and engine.selected_by_host is None:
                logger.warning(
                    "LCM is loaded, but another plugin builds Bub's contexts, so that nothing is stored."
                )
            engine.selected_by_host = selected

    def serves(self, session: Session) -> bool:
        """Whether the session's context is ours: not when it is ignored or stateless, or nothing works."""
        from lcm_plugin.sessions.access import Access

        served = self._ask(lambda engine: engine.access(session) is Access.FULL, False)
        if served:
            self._seen.add(session)
        return served

    def captures_only(self, session: Session) -> bool:
        """Whether the host compacts the session itself."""
        return self._ask(lambda engine: engine.captures_only(session), False)

    def with_quotes(self, turn: Turn, messages: Sequence[Message]) -> list[Message]:
        """Stores a turn's messages; the host's own list, with what recall quotes for its newest request."""
        if turn.messages and not self._plugin.record(turn.session, turn.messages, turn.mode):
            return list(messages)

        def quoted(engine: Engine) -> list[Message]:
            room = engine.token_limit(turn.window, turn.overhead_tokens, turn.model)
            found = engine.quoted_beside(turn.session, messages, room)
            return [*messages[: found[0]], found[1], *messages[found[0] :]] if found else list(messages)

        return self._ask(quoted, list(messages))

    def before_turn(self, turn: Turn) -> Context | None:
        """The context of the next model call; None when the host's own is to be used."""
        context: Context | None = self._call("before_turn", turn=turn)
        return context

    def after_turn(self, turn: Turn) -> None:
        """Hands over an answer and what the provider counted."""
        self._call("after_turn", turn=turn)

    def follow(self, session: Session, entries: Sequence[Entry]) -> None:
        """Stores what the tape holds and the store does not."""
        if session in self._owed_resets:
            self.reset(session)
        if session.key in self._behind:
            # The plugin keeps what it could not store; it is stored first, or it would be found missing below.
            self.before_turn(Turn(session, [], mode="append"))
            if self.paused:
                return
            self._behind.discard(session.key)
        self._take_back(session, entries)
        missing = self._unseen(session, entries)
        if missing:
            self.before_turn(Turn(session, missing, mode="append"))

    def turn_taped(self, session: Session, entries: Sequence[Entry]) -> None:
        """A turn is on the tape now. What a later tape lacks of it was taken off by hand."""
        self._taped[session] = newest_ids(entries, _NOTED)

    def handoff(self, session: Session) -> None:
        """The host cut its context: what was said so far leaves ours, but for the deeper summaries."""
        self._call("before_reset", reset=Reset(session, "new"))

    def reset(self, session: Session) -> None:
        """The host emptied the session's tape. What cannot be done now is done before anything is stored."""
        self._taped.pop(session, None)
        self._taken_back.pop(session, None)
        result = self._call("before_reset", reset=Reset(session, "reset"))
        if result is None or not result.ok:
            self._owed_resets.add(session)
        else:
            self._owed_resets.discard(session)

    def tools(self) -> list[dict[str, Any]]:
        """Our tools as OpenAI function schemas."""
        return tool_schemas(self.config)

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
        return self._ask(lambda engine: engine.system_note(session), "")

    def news(self, session: Session) -> str:
        """What the user is to be told now, once; else the empty text."""
        return self._plugin.health.take_news(session)

    def close(self) -> None:
        """Lets compaction that runs come to its end, for as long as a turn would wait, and closes the engine."""
        if self._seen and (engine := self.engine()) is not None:
            engine.wait_idle(self.config.hard_wait_ms / 1000)
            for session in self._seen:
                self._call("session_end", session=session, reason="shutdown")
        if self._registered is not None:
            self._registered.close()

    @hookimpl
    def lcm_event(self, event: Event) -> None:
        """Hears of every failed hook."""
        if event.name == "hook.failed":
            self._behind.add(event.session_key or "")
            self._failed(str(event.fields.get("error")), str(event.fields.get("detail")))

    def _take_back(self, session: Session, entries: Sequence[Entry]) -> None:
        """Messages that were on the tape and are not any more leave the context, until they are there again.

        What an earlier process took back is looked up once.
        """
        known = self._taken_back.get(session)
        gone = missing_ids(entries, [*self._taped.get(session, ()), *(known or ())])
        if gone == known:
            return
        asked = gone | (set(newest_ids(entries, _NOTED)) if known is None else known)

        def change(engine: Engine) -> bool:
            with engine.store.read() as reader:
                found = reader.find_conversation(session)
                here = found.conversation_id if found else 0
                rows = reader.heads_with_host_ids(here, sorted(asked))
            engine.record.withdraw(session, [row.message_id for ref, row in rows.items() if ref in gone])
            back = [
                row.message_id
                for ref, row in rows.items()
                if row.withdrawn_at is not None and ref not in gone
            ]
            engine.record.restore(session, back)
            return True

        if self._ask(change, False):
            self._taken_back[session] = gone

    def _unseen(self, session: Session, entries: Sequence[Entry]) -> list[Message]:
        def look(engine: Engine) -> list[Message]:
            with engine.store.read() as reader:
                lane = [conversation.conversation_id for conversation in reader.lane(session.key)]
                return unseen(entries, lambda ids: reader.known_host_ids(lane, ids) if lane else set())

        return self._ask(look, [])

    def _ask(self, work: Callable[[Engine], _T], otherwise: _T) -> _T:
        """What the engine says; the other value while it cannot be opened or read."""
        if self.paused:
            return otherwise
        try:
            return work(self._plugin.engine)
        except Exception as error:  # noqa: BLE001 - the host must go on, and be told
            self._failed(type(error).__name__, str(error))
            return otherwise

    def _call(self, hook: str, **arguments: Any) -> Any:
        if self.paused:
            return None
        result = getattr(self._plugin, hook)(**arguments)
        if not self.paused:
            self.problem = ""
        return result

    def _failed(self, kind: str, detail: str) -> None:
        if not (kind.startswith("Store") or kind in ("SchemaError", "ConfigError")):
            self._faulty(kind)
            return
        with self._lock:
            self._paused_until = self._monotonic() + _PAUSE_SECONDS
            known, self.problem = detail == self.problem, detail
        if not known:
            logger.warning(
                "LCM is not working: %s. Bub goes on with its own tape; LCM tries again in %d seconds.",
                detail,
                _PAUSE_SECONDS,
            )

    def _faulty(self, kind: str) -> None:
        """One thing went wrong that the next call may do well. What it was about may hold what was said."""
        with self._lock:
            known = kind in self._faults
            self._faults.add(kind)
        if not known:
            logger.warning(
                "LCM failed at one thing (%s), and Bub went on without it; Bub's log says more.", kind
            )

    def _trouble(self) -> str:
        return f"LCM is not working: {self.problem or 'the log of Bub says why'}"
