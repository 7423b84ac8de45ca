"""The pluggy plugin: hook calls in, engine calls out, and never an exception into the host's turn.

Importing or registering it opens nothing; the engine is opened at the first hook call.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import pluggy

from lcm_plugin import forks
from lcm_plugin.compaction.overflow import Refusal, refusal_of
from lcm_plugin.config import LcmConfig
from lcm_plugin.config.file import load_config
from lcm_plugin.engine import Engine, system_clock
from lcm_plugin.errors import ConfigError, LcmError, StoreError
from lcm_plugin.events import Event, is_interrupt, log_failure
from lcm_plugin.hookspecs import PROJECT, HostHooks, PluginHooks, hookimpl
from lcm_plugin.ingest.recorder import Recorder
from lcm_plugin.maintenance.hook_health import HookHealth
from lcm_plugin.sessions.access import Access
from lcm_plugin.sessions.names import keep_names
from lcm_plugin.sessions.subagents import PARENT_KEY
from lcm_plugin.store.retry import retry_lost
from lcm_plugin.turns import lane_of, own_list, turn_budget, with_live_copies
from lcm_plugin.types import (
    LIST_MODES,
    CommandResult,
    CompactionDecision,
    Completer,
    CompletionRequest,
    CompletionResult,
    Context,
    IngestMode,
    IngestReport,
    Reason,
    Reset,
    Session,
    Turn,
)

logger = logging.getLogger("lcm_plugin")
_T = TypeVar("_T")
_MOST_LOOKS = 4


class LcmPlugin(forks.FreshLocks):
    """An object to register with a `pluggy.PluginManager` of project ``lcm``.

    ``config`` defaults to environment, settings file and defaults, read at the first hook call. ``completer`` is the
    model that writes summaries; a host's plugin may implement ``lcm_complete`` instead, found once `attach` was called.
    """

    def __init__(
        self,
        config: LcmConfig | None = None,
        *,
        completer: Completer | None = None,
        engine: Engine | None = None,
        clock: Callable[[], int] = system_clock,
    ) -> None:
        self._config = config if config is not None or engine is None else engine.config
        self._completer = completer
        self._clock = clock
        self._opening = threading.Lock()
        self._manager: pluggy.PluginManager | None = None
        self._recorder = Recorder(self._settings, self._tell)
        self._engine = engine
        self.health = engine.hook_health if engine is not None else HookHealth(self._settings, clock)
        if engine is not None:
            engine.subscribe(self._tell_host)
        forks.join(self)

    @property
    def engine(self) -> Engine:
        """The engine, opened at first use; raises `LcmError` saying why it cannot be."""
        with self._opening:
            if self._engine is None:
                self._engine = Engine.open(self._settings(), self._complete_or_none(), clock=self._clock)
                self._engine.hook_health = self.health
                self._engine.subscribe(self._tell_host)
            return self._engine

    def record(self, session: Session, messages: Sequence[Any], mode: IngestMode) -> bool:
        """Stores messages outside of a turn; False when they wait, or were refused, and an event says why."""

        def work() -> bool:
            self._recorder.store(lambda: self.engine, session, messages, mode)
            return True

        return bool(self.guard("record", session, work, lambda: False))

    def guard(
        self, hook: str, session: Session, work: Callable[[], _T], fallback: Callable[[], _T | None]
    ) -> _T | None:
        """The work's result; on any exception an event, one clear log line, and the fallback, else None.

        For an adapter's own calls of the engine, too: a failure is counted and shown like a hook's.
        """
        try:
            return self.counted(hook, session, work)
        except BaseException as error:
            if is_interrupt(error):
                raise
        with suppress(Exception):
            return fallback()
        return None

    def counted(self, hook: str, session: Session, work: Callable[[], _T]) -> _T:
        """The same for a host that must learn of a failure: it is raised again."""
        try:
            done = self.health.timed(hook, work)
        except BaseException as error:
            if not is_interrupt(error):
                self._report(hook, session, error)
            raise
        self.health.works(hook, session)
        return done

    @property
    def waiting_in_memory(self) -> int:
        """About how many bytes of messages wait to be stored and could not even be written to the waiting file."""
        return self._recorder.in_memory

    def attach(self, manager: pluggy.PluginManager) -> None:
        """Lets the plugin call the hooks that others implement: ``lcm_complete``, ``lcm_event``."""
        self._manager = manager

    def close(self) -> None:
        """Closes the engine; a later hook call opens it again."""
        self._recorder.settle()
        with self._opening:
            if self._engine is not None:
                self._engine.close()
                self._engine = None

    @hookimpl
    def before_turn(self, turn: Turn) -> Context | None:
        """Stores what is new and assembles; on any failure the host's own list comes back unchanged."""
        return self.guard("before_turn", lane_of(turn), lambda: self._before(turn), lambda: self._own(turn))

    @hookimpl
    def after_turn(self, turn: Turn) -> None:
        """Stores what happened and starts compaction that is due."""
        self.guard("after_turn", lane_of(turn), lambda: self._after(turn), lambda: None)

    @hookimpl
    def before_reset(self, reset: Reset) -> CommandResult | None:
        """Prunes for ``/new``, archives for ``/reset``, and says what was kept."""
        session = lane_of(reset)
        return self.guard(
            "before_reset", session, lambda: self._reset(reset), lambda: self._unavailable(session)
        )

    @hookimpl
    def session_end(self, session: Session, reason: str) -> None:
        """Ends a run; the engine stays open."""
        self.guard("session_end", session, lambda: self._end(session, reason), lambda: None)

    @hookimpl
    def lcm_tools(self) -> list[dict[str, Any]]:
        """The schemas of the recall tools, and of those that the settings give agents beside."""
        from lcm_plugin.recall.tools import tool_schemas

        return tool_schemas(self.settings())

    @hookimpl
    def lcm_call_tool(
        self, session: Session, name: str, arguments: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Runs one of our tools; None for a tool that is not ours."""
        from lcm_plugin.recall.tools import ALL_TOOL_NAMES

        if name not in ALL_TOOL_NAMES:
            return None
        return self.guard(
            "lcm_call_tool",
            session,
            lambda: self.engine.call_tool(session, name, arguments),
            lambda: {"error": self._unavailable(session).text},
        )

    @hookimpl
    def lcm_commands(self) -> list[dict[str, str]]:
        """The chat commands with a line of help each."""
        from lcm_plugin.commands import command_list

        return command_list()

    @hookimpl
    def lcm_run_command(self, session: Session, text: str) -> CommandResult | None:
        """Answers ``/lcm …`` and ``/lossless …``; None for any other text."""
        from lcm_plugin.commands import is_command

        if not is_command(text):
            return None
        return self.guard(
            "lcm_run_command",
            session,
            lambda: self._command(session, text),
            lambda: self._unavailable(session),
        )

    def _command(self, session: Session, text: str) -> CommandResult:
        answer = self.engine.command(session, text)
        news = self.health.take_news(session)
        return replace(answer, text=f"{news}\n\n{answer.text}") if news else answer

    def _before(self, turn: Turn) -> Context | None:
        for _ in range(_MOST_LOOKS):
            reason, report = self._store(turn)
            if reason:
                return self._fall_back(turn, reason)
            if report is not None and report.run is not None:
                turn = replace(turn, run=report.run)
            engine = self.engine
            engine.selected_by_host = True
            context = self._assembled(turn)
            # Another run may have taken this turn's request for one that was edited away, just meanwhile.
            if (
                turn.mode not in LIST_MODES
                or turn.run is None
                or engine.record.stands(turn.session, turn.run.turn)
            ):
                break
        if not context.messages:
            return self._fall_back(turn, "no stored message can be sent")
        return context

    def _assembled(self, turn: Turn) -> Context:
        with self.engine.background.foreground():
            return retry_lost(lambda: next_context(self.engine, turn))

    def _fall_back(self, turn: Turn, reason: str) -> Context | None:
        self.engine.events.emit(
            "assembly.fallback", level=logging.DEBUG, session_key=turn.session.key, reason=reason
        )
        return own_list(turn)

    def _after(self, turn: Turn) -> None:
        if not self._store(turn)[0] and self.engine.access(turn.session) is Access.FULL:
            with self.engine.background.foreground():
                end_turn(self.engine, turn)

    def _store(self, turn: Turn) -> tuple[str, IngestReport | None]:
        """Stores what a turn brings, unless there is a reason to leave it alone, which is returned."""
        reason = ""

        def opened() -> Engine | None:
            nonlocal reason
            engine = self.engine
            if not engine.config.enabled:
                reason = "the plugin is disabled"
            elif engine.access(turn.session) is Access.NONE:
                reason = "the session is ignored"
            else:
                _begin(engine, turn)
            return None if reason else engine

        report = self._recorder.store(opened, turn.session, turn.messages, turn.mode)
        if report is not None and turn.metadata:
            keep_names(self.engine.store, self.engine.sessions.keyed(turn.session), turn.metadata)
        return reason, report

    def _reset(self, reset: Reset) -> CommandResult:
        from lcm_plugin.commands import apply_reset

        # What waits was said before the reset.
        self._recorder.store(lambda: self.engine, reset.session, (), "append")
        self._recorder.forget(reset.session)
        return apply_reset(self.engine, reset)

    def _end(self, session: Session, reason: str) -> None:
        try:
            self._recorder.store(lambda: self.engine, session, (), "append")
        finally:
            self._recorder.forget(session)
        self.engine.end_session(session, reason)

    def _report(self, hook: str, session: Session, error: BaseException) -> None:
        try:
            lane, kind = session.name, type(error).__name__
            if isinstance(error, (StoreError, ConfigError)):
                logger.warning("lcm %s failed for session %r: %s: %s", hook, lane, kind, error)
            else:
                level = logging.WARNING if isinstance(error, LcmError) else logging.ERROR
                log_failure(logger, "lcm %s failed for session %r", hook, lane, error=error, level=level)
            failure = self.health.failed(hook, session, error)
            fields = {"hook": hook, "error": kind, "in_a_row": failure.in_a_row, "detail": str(error)}
            self._tell_host(Event("hook.failed", logging.WARNING, session_key=session.key, fields=fields))
        except Exception:  # noqa: BLE001 - a session or an error that cannot even be named
            logger.warning("lcm %s failed for a %s as session", hook, type(session).__name__)

    def _own(self, turn: Turn) -> Context | None:
        """The host's own list, with what its user is to be told once."""
        own = own_list(turn)
        if own is None:
            return None
        news = self.health.take_news(turn.session)
        return replace(own, notices=(news,)) if news else own

    def _unavailable(self, session: Session) -> CommandResult:
        """The answer while nothing works: what failed last, and since when."""
        from lcm_plugin.commands.health import failure_pairs
        from lcm_plugin.text import inline

        failing = [one for one in self.health.failures(session) if one.in_a_row]
        self.health.take_news(session)
        lines = [f"- {name}: {text}" for name, text in failure_pairs(failing, "UTC", inline)]
        return CommandResult("\n".join(["Lossless context management cannot answer.", *lines]), ok=False)

    def settings(self) -> LcmConfig | None:
        """The settings in force; None while they cannot be read."""
        try:
            return self._settings()
        except ConfigError:
            return None

    def _settings(self) -> LcmConfig:
        return self._engine.config if self._engine is not None else self._config or load_config()

    def _complete_or_none(self) -> Completer | None:
        if self._completer is not None:
            return self._completer
        manager = self._manager
        if manager is None or not manager.hook.lcm_complete.get_hookimpls():
            return None
        return self._complete

    def _complete(self, request: CompletionRequest) -> str | CompletionResult | None:
        assert self._manager is not None
        answer: str | CompletionResult | None = self._manager.hook.lcm_complete(request=request)
        return answer

    def _tell(self, event: Event) -> None:
        """Delivers an event as the engine's own are; to the host alone while no engine is open."""
        if self._engine is None:
            self._tell_host(event)
        else:
            self._engine.events.emit(
                event.name, level=event.level, session_key=event.session_key, **event.fields
            )

    def _tell_host(self, event: Event) -> None:
        if self._manager is None:
            return
        try:
            self._manager.hook.lcm_event(event=event)
        except BaseException as error:
            if is_interrupt(error):
                raise
            log_failure(logger, "a host's lcm_event failed on %s", event.name, error=error)


def register(
    manager: pluggy.PluginManager, config: LcmConfig | None = None, *, completer: Completer | None = None
) -> LcmPlugin:
    """Adds the contract and the plugin to a host's manager, and returns the plugin."""
    added = LcmPlugin(config, completer=completer)
    manager.add_hookspecs(HostHooks)
    manager.add_hookspecs(PluginHooks)
    manager.register(added, name=PROJECT)
    added.attach(manager)
    return added


def next_context(engine: Engine, turn: Turn) -> Context:
    """The context of a turn whose messages are stored; compaction that is due then goes on behind it."""
    if turn_budget(turn) is None:
        engine.budgets.note_assumed(turn.model)
    decision, context = engine.assemble_turn(turn, lambda found: _comes_first(turn, found))
    if context is not None:
        # Only now, so that what a turn sees does not depend on how fast a thread is.
        engine.schedule_compaction(turn.session, **_call_of(turn), wait=False, decision=decision)
    elif decision.left_to_host:
        return engine.beside_own_list(turn)
    else:
        _make_room(engine, turn)
        made = engine.assemble_turn(turn, lambda found: False)[1]
        assert made is not None
        context = made
    limit = engine.token_limit(turn_budget(turn), turn.overhead_tokens, turn.model)
    return with_live_copies(context, turn, engine.count_tokens, limit)


def end_turn(engine: Engine, turn: Turn) -> None:
    """Takes the provider's counts of a turn whose messages are stored, and starts compaction that is due."""
    if _refused(turn) is None:
        retry_lost(lambda: engine.note_usage(turn))
    overhead = turn.sent.overhead if turn.sent else turn.overhead_tokens
    call = _call_of(turn) | {"overhead_tokens": overhead}
    retry_lost(lambda: engine.schedule_compaction(turn.session, **call, wait=False))


def _comes_first(turn: Turn, decision: CompactionDecision) -> bool:
    """Whether a turn's context is not to be assembled yet: it is too large for a model call, or the host's own."""
    if decision.left_to_host:
        return turn.mode in LIST_MODES
    return _refused(turn) is not None or decision.reason is Reason.OVER_HARD_LIMIT


def _make_room(engine: Engine, turn: Turn) -> None:
    """Compacts a context that is too large for a model call."""
    call = _call_of(turn)
    if _refused(turn) is not None:
        engine.recover_overflow(turn.session, **call, error=turn.metadata["overflow"], sent=turn.sent)
    else:
        engine.schedule_compaction(turn.session, **call, wait=True)


def _refused(turn: Turn) -> Refusal | None:
    """What the provider said when it refused the turn's last context as too long; None when it did not."""
    return refusal_of(turn.metadata.get("overflow"))


def _call_of(turn: Turn) -> dict[str, Any]:
    """What a turn says about its model call, as the engine's arguments."""
    return {
        "budget": turn_budget(turn),
        "overhead_tokens": turn.overhead_tokens,
        "model": turn.model,
        "window": turn_budget(turn),
    }


def _begin(engine: Engine, turn: Turn) -> None:
    """What comes before the messages of a turn: the parent's history, and a word on a window that is none."""
    if turn.window is not None and turn_budget(turn) is None:
        engine.events.emit(
            "turn.no_window",
            level=logging.WARNING,
            session_key=turn.session.key,
            window=turn.window,
            used=engine.budgets.total(None, None),
        )
    parent = turn.metadata.get(PARENT_KEY)
    if isinstance(parent, str) and parent:
        engine.bootstrap_session(turn.session, Session(parent))


plugin = LcmPlugin()
