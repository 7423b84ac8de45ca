"""The composition root: one engine per database, one public API.

The engine builds the services and hands each call to the one that knows. Its methods are synchronous
and thread-safe; async hosts call them through a worker thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from lcm_plugin import forks
from lcm_plugin.arguments import checked
from lcm_plugin.assembly.recall_note import recall_note
from lcm_plugin.compaction.overflow import refusal_of
from lcm_plugin.compaction.scheduler import WorkReport
from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import EngineClosed
from lcm_plugin.events import Listener
from lcm_plugin.maintenance.backup import back_up, copy_name
from lcm_plugin.maintenance.hook_health import HookHealth
from lcm_plugin.maintenance.repair import plan_repairs
from lcm_plugin.recall.tools import tool_names
from lcm_plugin.services import ServiceHolder, Services, build_services
from lcm_plugin.sessions.access import Access
from lcm_plugin.sessions.lifecycle import Pruned
from lcm_plugin.store.open import open_store
from lcm_plugin.store.protocol import Store, iterate_items
from lcm_plugin.store.records import Conversation, FileMoved
from lcm_plugin.types import (
    CommandResult,
    CompactionDecision,
    CompactionResult,
    CompactionUndo,
    Completer,
    Context,
    ContextItem,
    IngestMode,
    IngestReport,
    IntegrityReport,
    Message,
    Pin,
    Reason,
    RepairOutcome,
    RepairPlan,
    RunPosition,
    Sent,
    Session,
    Turn,
)


def system_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@checked
class Engine(ServiceHolder, forks.FreshLocks):
    """Lossless context management over one database."""

    def __init__(
        self,
        config: LcmConfig,
        store: Store,
        completer: Completer | None = None,
        *,
        clock: Callable[[], int] = system_clock,
    ) -> None:
        self.config = config
        self.store = store
        self.clock = clock
        # None until a host asks for a context, or says that it uses another engine.
        self.selected_by_host: bool | None = None
        self.hook_health = HookHealth(lambda: config, clock)
        self._completer = completer
        self._closed = False
        self._take_services(build_services(config, store, completer, clock))
        store.on_moved(self._file_moved)
        forks.join(store)
        forks.join(self)

    @classmethod
    def open(
        cls,
        config: LcmConfig | None = None,
        completer: Completer | None = None,
        *,
        clock: Callable[[], int] = system_clock,
        read_only: bool = False,
        create: bool = True,
    ) -> Self:
        """Opens the configured database, migrating it, and making it unless ``create`` is false.

        Raises `StoreUnavailable` when it cannot be used, `SchemaError` when a newer version wrote it.
        """
        config = config or LcmConfig()
        engine = cls(config, open_store(config, read_only=read_only, create=create), completer, clock=clock)
        if not read_only:
            engine._live.idle.opened()
        return engine

    # -- messages

    def ingest(
        self, session: Session, messages: Sequence[Message], mode: IngestMode = "append"
    ) -> IngestReport:
        """Stores what is new of a host's delta (``append``) or whole list (``sync``), all or nothing.

        With ``whole`` nothing follows the list's last message: what is stored behind it is taken back. ``state`` is a
        whole list under ids that stay: other words under a stored id are an edit. ``part`` is a whole list, the newest
        part of one or a delta, under ids that may be new each time; it never takes back all. With ``all`` every message
        is new. Raises `InputError` naming the message that cannot be stored.
        """
        services = self._live
        report = services.ingestor.ingest(session, messages, mode)
        services.idle.arrived(report.stored)
        return report

    def messages(self, session: Session) -> list[Message]:
        """A session's stored messages, as they came in; where one was edited, its former version stands behind them."""
        return self._live.record.messages(session)

    # -- context

    def assemble(
        self,
        session: Session,
        budget: int | None = None,
        overhead_tokens: int = 0,
        prompt: str | None = None,
        *,
        model: str | None = None,
        run: RunPosition | None = None,
        recall: bool = True,
    ) -> Context:
        """The context of the next model call, within ``budget`` tokens less the host's overhead.

        Reasoning of another ``model`` is left out, without ``recall`` quotes too. Raises `InputError` for a budget below 1.
        """
        return self._live.contexts.assemble(session, budget, overhead_tokens, prompt, model, run, recall)

    def token_limit(
        self, budget: int | None = None, overhead_tokens: int = 0, model: str | None = None
    ) -> int:
        """How many tokens a context may have: the budget, capped by settings and model, less the overhead."""
        return self.budgets.room(budget, overhead_tokens, model)

    def system_note(self, session: Session) -> str:
        """What to add to the system prompt: what summaries are and which tools look behind them.

        The same text at every turn; empty for an ignored session.
        """
        self._check_open()
        if not self.config.enabled or self.access(session) is Access.NONE:
            return ""
        return recall_note(tool_names(self.config))

    def context_items(self, session: Session) -> list[ContextItem]:
        """The active context's pointers, in order."""
        self._check_open()
        with self.store.read() as reader:
            conversation = self.sessions.conversation(reader, session)
            items = iterate_items(reader, conversation.conversation_id) if conversation else ()
            return [ContextItem(one.ordinal, one.kind, one.ref, one.depth, one.tokens) for one in items]

    def pin(self, session: Session, what: str) -> Pin:
        """Keeps a text, or a message's words by its id, in every context of the session; raises as `Pins.pin`."""
        return self.pin_board.pin(session, what)

    def pins(self, session: Session) -> list[Pin]:
        """The session's pins, oldest first."""
        return list(self.pin_board.board(session).pins)

    def unpin(self, session: Session, *names: str) -> list[Pin]:
        """Removes pins by id, by the id of a pinned message, or ``all``, and returns them; `NotFound` for others."""
        return self.pin_board.unpin(session, names)

    # -- compaction

    def evaluate(
        self,
        session: Session,
        budget: int | None = None,
        *,
        overhead_tokens: int = 0,
        model: str | None = None,
        window: int | None = None,
        shown_tokens: int | None = None,
    ) -> CompactionDecision:
        """Whether compaction is due now.

        ``shown_tokens`` names the size of a list that the host keeps itself and replaces by a context once it is full.
        """
        call = self.budgets.call(budget, overhead_tokens, model, window, shown=shown_tokens)
        return self._live.compaction.evaluate(session, call)

    def compact(
        self,
        session: Session,
        force: bool = False,
        budget: int | None = None,
        *,
        overhead_tokens: int = 0,
        model: str | None = None,
        window: int | None = None,
        focus: str = "",
        shown_tokens: int | None = None,
    ) -> CompactionResult:
        """Compacts now: what is due, or with ``force`` as far as it goes; what has words of ``focus`` stays in detail."""
        call = self.budgets.call(budget, overhead_tokens, model, window, focus, shown_tokens)
        return self._live.compaction.compact(session, call, force=force)

    def captures_only(self, session: Session) -> bool:
        """Whether a session is stored, searched and quoted from, while its host compacts: nothing is compacted here."""
        return self._live.compaction.captures_only(session)

    def leave_to_host(self, session: Session, yes: bool = True) -> bool:
        """The host compacts this session's conversation itself, whatever the settings say; no longer, if not ``yes``.

        It is kept in the database until `reset_session`. False when nothing is stored of the session yet.
        """
        return self._live.compaction.leave_to_host(session, yes)

    def undo_compaction(self, session: Session) -> CompactionUndo:
        """Takes the last compaction back: what its summaries were made from stands in the context again.

        ``refusal`` of the result says why not, for instance because the context was changed since. No compaction
        after it that only keeps the bill low takes the same words away; a limit of the settings does, from the next
        message on, and the hard limit at once.
        """
        return self._live.compaction.undo(session)

    def schedule_compaction(
        self,
        session: Session,
        budget: int | None = None,
        *,
        overhead_tokens: int = 0,
        model: str | None = None,
        window: int | None = None,
        shown_tokens: int | None = None,
        wait: bool = True,
        decision: CompactionDecision | None = None,
    ) -> CompactionDecision:
        """Starts compaction that is due, and indexing for search, on a worker thread.

        Past the hard limit it waits, once and at most ``hard_wait_ms``, unless ``wait`` is false. ``decision`` is
        what `evaluate` said a moment ago; when nothing was due, the conversation is not looked at again.
        """
        services = self._live
        services.idle.start()
        call = self.budgets.call(budget, overhead_tokens, model, window, shown=shown_tokens)
        return services.compaction.schedule(session, call, wait=wait, decision=decision)

    def recover_overflow(
        self,
        session: Session,
        budget: int | None = None,
        *,
        overhead_tokens: int = 0,
        model: str | None = None,
        window: int | None = None,
        error: bool | str | BaseException = True,
        sent: Sent | None = None,
    ) -> CompactionResult:
        """A provider refused the last context as too long: learns the model's limit, and compacts for it now.

        ``error`` is the provider's text or exception: a limit that it names holds for the model from now on.
        Without one each refusal takes a fifth off, so that a host may try until the context fits. ``sent`` is
        the refused `Context.sent`. An error about something else changes nothing.
        """
        services, refusal = self._live, refusal_of(error)
        call = self.budgets.call(budget, overhead_tokens, model, window)
        if refusal is None:
            return CompactionResult(False, Reason.NOTHING_ELIGIBLE, 0, 0, 0)
        return services.compaction.recover_overflow(session, call, refusal, sent, budget)

    def note_usage(self, turn: Turn) -> None:
        """Takes what the provider counted for an answered turn's last model call.

        From it the engine learns, per model, how far its own counts are off (`calibration`).
        """
        self._live.compaction.note_usage(turn)

    def work(
        self, stop: threading.Event, *, until_idle: bool = False, poll_seconds: float = 2.0
    ) -> WorkReport:
        """Works off compaction debts, integrity jobs and maps in this thread until ``stop`` is set.

        With ``until_idle`` it ends when nothing is due any more. Other processes may do the same.
        """
        services = self._live
        services.idle.start_index()
        report = services.compaction.work(
            stop,
            until_idle=until_idle,
            poll_seconds=poll_seconds,
            check=services.integrity_jobs.work_off,
            map_items=services.maps.work_off,
        )
        if until_idle:
            services.idle.finish(stop.is_set)
        return report

    # -- sessions

    def access(self, session: Session) -> Access:
        """Whether a session may be read and written, only read, or neither."""
        return self.sessions.access(session)

    def new_session(self, session: Session, retain_depth: int | None = None) -> Pruned:
        """``/new``: prunes the context by retain depth; stored rows stay."""
        return self._live.lifecycle.prune(session, retain_depth)

    def preview_new(self, session: Session, retain_depth: int | None = None) -> Pruned:
        """What `new_session` would keep and take out."""
        return self._live.lifecycle.preview(session, retain_depth)

    def undo_new(self, session: Session) -> int:
        """Puts back what the last ``/new`` pruned and returns how many items; 0 when it is too late."""
        return self._live.lifecycle.undo(session)

    def reset_session(self, session: Session) -> Conversation | None:
        """``/reset``: archives the conversation and starts a fresh one; returns what was archived."""
        return self._live.lifecycle.reset(session)

    def end_session(self, session: Session, reason: str) -> Conversation | None:
        """A run ended: ``deleted`` archives, ``restart``, ``shutdown``, ``idle``, ``rollover`` change nothing."""
        # What a sub-agent was granted ends with it, for whatever reason.
        self._live.subagents.end(self.sessions.keyed(session).key)
        return self._live.lifecycle.end(session, reason)

    def bootstrap_session(self, child: Session, parent: Session) -> int:
        """Grants a sub-agent its parent's history and copies the end of its context; how many messages, 0 once begun."""
        return self._live.subagents.bootstrap(child, parent)

    # -- tools, commands, health

    def call_tool(
        self, session: Session, name: str, arguments: Mapping[str, Any], most_chars: int | None = None
    ) -> dict[str, Any]:
        """Runs a recall tool, for at most ``most_chars`` of JSON text; errors come back as ``{"error": …}``."""
        return self._live.recall.call(session, name, arguments, most_chars=most_chars)

    def command(self, session: Session, text: str) -> CommandResult:
        """Answers a ``/lcm …`` chat command."""
        from lcm_plugin.commands import run_command  # which a host's turn does not need

        self._check_open()
        return run_command(self, session, text)

    def check(self, session: Session | None = None) -> IntegrityReport:
        """Checks the whole database, or one session's conversations."""
        self._check_open()
        conversations = None
        if session is not None:
            with self.store.read() as reader:
                conversations = self.sessions.lineage(reader, session)
        return self.doctor.check(conversations, selected_by_host=self.selected_by_host)

    def plan_repairs(self, report: IntegrityReport) -> RepairPlan:
        """What ``doctor apply`` would do about a report's findings."""
        self._check_open()
        return plan_repairs(report)

    def repair(self, plan: RepairPlan, *, backup: bool = True, destructive: bool = False) -> RepairOutcome:
        """Carries out a plan, step by step, after a checked copy of the database.

        Steps that delete or end something are left out unless ``destructive``. Raises `StoreUnavailable`
        when the copy cannot be made; then nothing stored was changed.
        """
        self._check_open()
        return self.doctor.repair(plan, self.backup if backup else None, destructive=destructive)

    def backup(self, target: str | None = None) -> str:
        """Writes a checked copy of the database and its files; beside it, with the time, unless named.

        Returns its path. Raises `StoreUnavailable` for a server's database, which is copied with its own tools.
        """
        self._check_open()
        name = target or copy_name(self.store.location, self.clock())
        return back_up(self.store, self.payloads.folder, name).path

    def count_tokens(self, value: Any) -> int:
        """Tokens of a text, a message, a list of messages or any JSON value."""
        return self.counter.anything(value)

    # -- life

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hands every event to a listener; returns the function that ends it."""
        return self.events.subscribe(listener)

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Waits (seconds) until no background work is left, indexing for search too; False when the time is over first."""
        return self.background.wait_idle(timeout)

    def close(self) -> None:
        """Stops background work and closes the database. Later calls raise `EngineClosed`."""
        if self._closed:
            return
        self._closed = True
        self.summarizer.cancel()
        self.background.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def after_fork_in_child(self) -> None:
        """Goes on with services of its own; work in the background is the parent's."""
        super().after_fork_in_child()
        self._rebuild_services()

    # -- inside

    @property
    def _live(self) -> Services:
        """The services. Raises `EngineClosed` once the engine is closed."""
        self._check_open()
        return self._services

    def _check_open(self) -> None:
        if self._closed:
            raise EngineClosed("the engine is closed")

    def _rebuild_services(self) -> None:
        self._take_services(
            build_services(self.config, self.store, self._completer, self.clock, self._services)
        )

    def _file_moved(self, moved: FileMoved) -> None:
        """Informs every session, and forgets what was known of a replaced file's rows: its ids may now mean others."""
        if moved.saved:
            self._rebuild_services()
        text = str(moved)
        self.session_notices.add(f"{text[0].upper()}{text[1:]}.")
        self.events.emit(
            "store.moved", level=logging.WARNING, saved=moved.saved, missing=moved.missing, detail=text
        )
