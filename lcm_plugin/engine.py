"""The composition root: one engine per database, one public API.

The engine builds the services and hands each call to the one that knows. Its methods are synchronous
and thread-safe; async hosts call them through a worker thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from lcm_plugin import forks
from lcm_plugin.assembly.assembler import Request
from lcm_plugin.assembly.notices import IGNORED
from lcm_plugin.assembly.recall_note import recall_note
from lcm_plugin.assembly.report import tell_assembled
from lcm_plugin.compaction.overflow import refusal_of
from lcm_plugin.compaction.policy import Call
from lcm_plugin.compaction.service import Outlook
from lcm_plugin.compaction.undo import NEVER
from lcm_plugin.compaction.worker import WorkReport
from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import EngineClosed, InputError
from lcm_plugin.events import Listener
from lcm_plugin.maintenance.hook_health import HookHealth
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.messages.tokens import files_in
from lcm_plugin.recall.tools import TOOL_NAMES
from lcm_plugin.services import Services, build_services
from lcm_plugin.sessions.access import Access
from lcm_plugin.sessions.lifecycle import Pruned
from lcm_plugin.sessions.notices import SessionNotices
from lcm_plugin.store.open import open_store
from lcm_plugin.store.protocol import Reader, Store, iterate_messages
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
    Reason,
    RepairOutcome,
    RepairPlan,
    RunPosition,
    Sent,
    Session,
    Turn,
)

CHECK_SECONDS = 60.0
"""The longest integrity check inside a host; the pauses for hooks count. What it found until then is its result."""


def system_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Engine:
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
        self.session_notices = SessionNotices()
        self.hook_health = HookHealth(lambda: config, clock)
        self._completer = completer
        self._assumed: set[str | None] = set()
        self._closed = False
        self._take_services(build_services(config, store, completer, clock))
        store.on_moved(self._file_moved)
        forks.join(self)

    def before_fork(self) -> None:
        """Lets no connection go into a new process that could not be used there."""
        self.store.before_fork()

    def after_fork_in_parent(self) -> None:
        """Goes on as before."""
        self.store.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """Goes on with locks, threads and connections of its own; work in the background is the parent's."""
        self.store.after_fork_in_child()
        self.background.after_fork()
        self.troubles.after_fork()
        self.session_notices = SessionNotices()
        self._take_services(
            build_services(self.config, self.store, self._completer, self.clock, self._services)
        )

    def _take_services(self, services: Services) -> None:
        self._services = services
        self.events = services.events
        self.troubles = services.troubles
        self.counter = services.counter
        self.gate = services.gate
        self.payloads = services.payloads
        self.summarizer = services.summarizer
        self.library = services.library
        self.record = services.record
        self.background = services.background
        self.calibration = services.calibration
        self.windows = services.windows
        self.recount = services.recount
        self.subagents = services.subagents
        self.recall = services.recall
        self.retention = services.retention
        self.redaction = services.redaction
        self.doctor = services.doctor
        self.doctor.failures = lambda: self.hook_health.failures()
        self.integrity_jobs = services.integrity_jobs
        self._sessions = services.directory
        self.arrivals = services.arrivals
        self._ingestor = services.ingestor
        self._lifecycle = services.lifecycle
        self._assembler = services.assembler
        self._compaction = services.compaction
        self.last_call = services.compaction.last_call
        self.known_limits = services.compaction.known_limits
        self.undoable_compaction = services.compaction.last.undoable
        self._read_part = services.read_part

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
        return cls(config, open_store(config, read_only=read_only, create=create), completer, clock=clock)

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
        self._check_open()
        access = self.access(session)
        if access is not Access.FULL:
            reason = f"the session is {access}"
            self.events.emit("ingest.skipped", level=logging.DEBUG, session_key=session.key, reason=reason)
            return IngestReport(0, len(messages), reason)
        if not session.key and not session.id:
            raise InputError("a session needs a key or an id")
        return self._ingestor.ingest(self._sessions.keyed(session), messages, mode)

    def messages(self, session: Session) -> list[Message]:
        """The stored messages of a session's active conversation, in order, as they came in."""
        self._check_open()
        with self.store.read() as reader:
            conversation = self._sessions.conversation(reader, session)
            if conversation is None:
                return []
            return [
                rebuild(stored, self._read_part)
                for stored in iterate_messages(reader, conversation.conversation_id)
            ]

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
    ) -> Context:
        """The context of the next model call, within ``budget`` tokens less the host's overhead.

        Reasoning that another ``model`` wrote is left out. ``run`` is what `ingest` said of the host's list: with
        several runs in one session the context ends as this list does. Raises `InputError` for a budget below 1.
        """
        self._check_open()
        total, limit = self._budget(budget, model), self.token_limit(budget, overhead_tokens, model)
        with self.store.read() as reader:
            conversation = self._sessions.conversation(reader, session)
            if conversation is None:
                ignored = self._sessions.access(session) is Access.NONE
                return Context([], 0, notices=(IGNORED,) if ignored else self.session_notices.take(session))
            number = conversation.conversation_id
            request = Request(
                budget=total,
                limit=limit,
                room=min(limit, self.calibration.room(total, overhead_tokens, model, number)),
                tail_messages=self.config.fresh_tail_count,
                prompt=prompt if prompt and prompt.strip() else None,
                model=model,
                by_relevance=self.config.prompt_aware_eviction,
                run=run,
            )
            context = self._assembler.assemble(reader, conversation, request)
        if news := self.session_notices.take(session):
            context = replace(context, notices=(*context.notices, *news))
        sent = Sent(context.tokens, overhead_tokens, conversation.next_seq, files_in(context.messages))
        self.calibration.sent(number, sent)
        tell_assembled(self.events, conversation, context)
        return replace(context, sent=sent)

    def token_limit(
        self, budget: int | None = None, overhead_tokens: int = 0, model: str | None = None
    ) -> int:
        """How many tokens a context may have: the budget, capped by settings and model, less the overhead."""
        ceiling = self.windows.ceiling(model)
        total = self._budget(budget, model)
        return max(0, (total if ceiling is None else min(total, ceiling)) - overhead_tokens)

    def note_assumed_window(self, model: str | None) -> None:
        """Nobody said how long a model's context may be: warns of it once per model."""
        if model in self._assumed or self.config.max_assembly_token_budget or self.windows.limit(model, None):
            return
        self._assumed.add(model)
        self.events.emit(
            "turn.window_assumed", level=logging.WARNING, model=model, window=self._budget(None, model)
        )

    def system_note(self, session: Session) -> str:
        """What to add to the system prompt: what summaries are and which tools look behind them.

        The same text at every turn; empty for an ignored session.
        """
        self._check_open()
        if not self.config.enabled or self.access(session) is Access.NONE:
            return ""
        return recall_note(TOOL_NAMES)

    def context_items(self, session: Session) -> list[ContextItem]:
        """The active context's pointers, in order."""
        self._check_open()
        found: list[ContextItem] = []
        with self.store.read() as reader:
            conversation = self._sessions.conversation(reader, session)
            after = 0
            while conversation and (
                page := reader.oldest_items(conversation.conversation_id, after=after, limit=1_000)
            ):
                found += [
                    ContextItem(item.ordinal, item.kind, item.ref, item.depth, item.tokens) for item in page
                ]
                after = page[-1].ordinal
        return found

    # -- compaction

    def evaluate(
        self,
        session: Session,
        budget: int | None = None,
        *,
        overhead_tokens: int = 0,
        model: str | None = None,
        window: int | None = None,
    ) -> CompactionDecision:
        """Whether compaction is due now."""
        self._check_open()
        call = self._call(budget, overhead_tokens, model, window)
        outlook = self._look(session, call)
        return outlook.decision if outlook else self._compaction.none_due(call, session.key)

    def assess(self, reader: Reader, conversation: Conversation, call: Call) -> CompactionDecision:
        """Whether compaction of a conversation is due for a model call, as a transaction sees it."""
        return self._compaction.look(reader, conversation, call).decision

    def compact(
        self,
        session: Session,
        force: bool = False,
        budget: int | None = None,
        *,
        overhead_tokens: int = 0,
        model: str | None = None,
        window: int | None = None,
    ) -> CompactionResult:
        """Compacts now, in this thread: what is due, or with ``force`` as far as it goes."""
        self._check_open()
        call = self._call(budget, overhead_tokens, model, window)
        conversation = self._sessions.writable_conversation(session)
        if conversation is None:
            return CompactionResult(False, Reason.NOTHING_ELIGIBLE, 0, 0, 0)
        return self._compaction.compact(conversation, call, force=force)

    def undo_compaction(self, session: Session) -> CompactionUndo:
        """Takes the last compaction back: what its summaries were made from stands in the context again.

        ``refusal`` of the result says why not, for instance because the context was changed since. No compaction
        after it that only keeps the bill low takes the same words away; a limit of the settings does, from the next
        message on, and the hard limit at once.
        """
        self._check_open()
        conversation = self._sessions.writable_conversation(session)
        if conversation is None:
            return CompactionUndo(0, 0, 0, NEVER)
        return self._compaction.undo(conversation)

    def schedule_compaction(
        self,
        session: Session,
        budget: int | None = None,
        *,
        overhead_tokens: int = 0,
        model: str | None = None,
        window: int | None = None,
        wait: bool = True,
        decision: CompactionDecision | None = None,
    ) -> CompactionDecision:
        """Starts compaction that is due, and indexing for search, on a worker thread.

        Past the hard limit it waits, once and at most ``hard_wait_ms``, unless ``wait`` is false. ``decision`` is
        what `evaluate` said a moment ago; when nothing was due, the conversation is not looked at again.
        """
        self._check_open()
        self.background.submit("search-index", self._index)
        if decision is not None and not decision.due:
            self._compaction.drain_now_and_then()
            return decision
        call = self._call(budget, overhead_tokens, model, window)
        outlook = self._look(session, call)
        if outlook is None:
            return self._compaction.none_due(call, session.key)
        self._compaction.schedule(outlook, call, wait=wait)
        return outlook.decision

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
        self._check_open()
        call = self._call(budget, overhead_tokens, model, window)
        refusal, conversation = refusal_of(error), self._sessions.writable_conversation(session)
        if refusal is None or conversation is None:
            return CompactionResult(False, Reason.NOTHING_ELIGIBLE, 0, 0, 0)
        sent = sent or self.calibration.last_sent(conversation.conversation_id)
        refused = sent.tokens + sent.overhead if sent else conversation.context_tokens + overhead_tokens
        self._compaction.recover_overflow(conversation, call, refused, refusal, budget)
        return self._compaction.fit_after_overflow(
            conversation, self._call(budget, overhead_tokens, model, window)
        )

    def note_usage(self, turn: Turn) -> None:
        """Takes what the provider counted for an answered turn's last model call.

        From it the engine learns, per model, how far its own counts are off (`calibration`).
        """
        self._check_open()
        if turn.usage is None:
            return
        conversation = self._sessions.writable_conversation(turn.session)
        if conversation is not None:
            self._compaction.note_answer(conversation, turn.model, turn.sent, turn.usage.prompt_tokens)

    def work(
        self, stop: threading.Event, *, until_idle: bool = False, poll_seconds: float = 2.0
    ) -> WorkReport:
        """Works off compaction debts and integrity jobs in this thread until ``stop`` is set.

        With ``until_idle`` it ends when nothing is due any more. Other processes may do the same.
        """
        self._check_open()
        self.background.submit("search-index", self._index)
        report = self._compaction.work(
            stop,
            until_idle=until_idle,
            poll_seconds=poll_seconds,
            may_write=lambda key: self.gate.access_of_key(key) is Access.FULL,
            check=self.integrity_jobs.work_off,
        )
        if until_idle:
            self.recall.catch_up(stop.is_set)
            self.recount.run(stop.is_set)
        return report

    # -- sessions

    def new_session(self, session: Session, retain_depth: int | None = None) -> Pruned:
        """``/new``: prunes the context by retain depth; stored rows stay."""
        self._check_open()
        depth = self.config.new_session_retain_depth if retain_depth is None else retain_depth
        if self.access(session) is not Access.FULL:
            return Pruned(depth)
        return self._lifecycle.prune(self._sessions.keyed(session), depth)

    def preview_new(self, session: Session, retain_depth: int | None = None) -> Pruned:
        """What `new_session` would keep and take out."""
        self._check_open()
        depth = self.config.new_session_retain_depth if retain_depth is None else retain_depth
        if self.access(session) is not Access.FULL:
            return Pruned(depth)
        return self._lifecycle.preview(self._sessions.keyed(session), depth)

    def undo_new(self, session: Session) -> int:
        """Puts back what the last ``/new`` pruned and returns how many items; 0 when it is too late."""
        self._check_open()
        return (
            self._lifecycle.undo(self._sessions.keyed(session)) if self.access(session) is Access.FULL else 0
        )

    def reset_session(self, session: Session) -> Conversation | None:
        """``/reset``: archives the conversation and starts a fresh one; returns what was archived."""
        self._check_open()
        if self.access(session) is not Access.FULL:
            return None
        return self._lifecycle.reset(self._sessions.keyed(session))

    def end_session(self, session: Session, reason: str) -> Conversation | None:
        """A run ended: ``deleted`` archives, ``restart``, ``shutdown``, ``idle``, ``rollover`` change nothing.

        What a sub-agent was granted ends with it, for whatever reason.
        """
        self._check_open()
        keyed = self._sessions.keyed(session)
        self.subagents.end(keyed.key)
        if self.access(session) is not Access.FULL:
            return None
        return self._lifecycle.end(keyed, reason)

    def bootstrap_session(self, child: Session, parent: Session) -> int:
        """A sub-agent begins: copies the end of its parent's context and grants it the parent's history.

        Returns how many messages were copied; 0 for a child that has begun already.
        """
        self._check_open()
        return self.subagents.bootstrap(child, parent)

    # -- tools, commands, health

    def call_tool(self, session: Session, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Runs one of the recall tools; what goes wrong comes back as ``{"error": …}``."""
        self._check_open()
        return self.recall.call(session, name, arguments)

    def command(self, session: Session, text: str) -> CommandResult:
        """Answers a ``/lcm …`` chat command."""
        self._check_open()
        from lcm_plugin.commands import run_command

        return run_command(self, session, text)

    def check(self, session: Session | None = None) -> IntegrityReport:
        """Checks the whole database, or one session's conversations."""
        self._check_open()
        conversations = None
        if session is not None:
            with self.store.read() as reader:
                conversations = tuple(reader.lane(self.gate.key_of(session, reader)))
        return self.doctor.check(conversations, selected_by_host=self.selected_by_host)

    def plan_repairs(self, report: IntegrityReport) -> RepairPlan:
        """What ``doctor apply`` would do about a report's findings."""
        self._check_open()
        from lcm_plugin.maintenance.repair import plan_repairs

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
        from lcm_plugin.maintenance.backup import back_up, copy_name

        name = target or copy_name(self.store.location, self.clock())
        return back_up(self.store, self.payloads.folder, name).path

    @property
    def default_budget(self) -> int:
        """The token budget when a host names none."""
        return self._budget(None, None)

    def count_tokens(self, value: Any) -> int:
        """Tokens of a text, a message, a list of messages or any JSON value."""
        return self.counter.anything(value)

    # -- life

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hands every event to a listener; returns the function that ends it."""
        return self.events.subscribe(listener)

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Waits (seconds) until no background work is left; False when the time is over first."""
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

    # -- inside

    def _file_moved(self, moved: FileMoved) -> None:
        """Tells everybody, and forgets what was known of a replaced file's rows: its ids may now mean others."""
        if moved.saved:
            self._take_services(
                build_services(self.config, self.store, self._completer, self.clock, self._services)
            )
        text = str(moved)
        self.session_notices.add(f"{text[0].upper()}{text[1:]}.")
        self.events.emit(
            "store.moved", level=logging.WARNING, saved=moved.saved, missing=moved.missing, detail=text
        )

    def _index(self) -> None:
        self.recall.catch_up(self._should_stop)
        self.recount.run(self._should_stop)
        if not self.background.closing and self.integrity_jobs.is_due():
            self.background.submit("integrity-jobs", self._check_one)

    def _check_one(self) -> None:
        """One check that was asked for, bounded, while no hook is running."""
        self.integrity_jobs.work_off(self._should_stop, most=1, seconds=CHECK_SECONDS)

    def _should_stop(self) -> bool:
        self.background.make_way()
        return self.background.closing

    def _check_open(self) -> None:
        if self._closed:
            raise EngineClosed("the engine is closed")

    def access(self, session: Session) -> Access:
        """Whether a session may be read and written, only read, or neither."""
        return self._sessions.access(session)

    def _look(self, session: Session, call: Call) -> Outlook | None:
        """Whether compaction is due for a session's conversation; None when there is none to write to."""
        with self.store.read() as reader:
            conversation = self._sessions.writable(reader, session)
            return self._compaction.look(reader, conversation, call) if conversation else None

    def _call(self, budget: int | None, overhead: int, model: str | None, window: int | None) -> Call:
        ceiling, total = self.windows.ceiling(model), self._budget(budget, model)
        return Call(total if ceiling is None else min(total, ceiling), overhead, model, window)

    def _budget(self, budget: int | None, model: str | None) -> int:
        if budget is not None and budget < 1:
            raise InputError(f"a budget must be at least 1 token, not {budget}")
        limit, total = self.windows.limit(model, budget), self.config.budget(budget)
        return total if limit is None else min(total, limit)
