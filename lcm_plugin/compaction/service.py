"""Everything the engine asks of compaction, for one conversation and the model call it is for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from lcm_plugin.background import Background
from lcm_plugin.compaction.calibration import Calibration, Sample
from lcm_plugin.compaction.chunks import Chunk
from lcm_plugin.compaction.clearing import Clearing
from lcm_plugin.compaction.overflow import Refusal
from lcm_plugin.compaction.passes import PassRunner
from lcm_plugin.compaction.policy import Call, Limits, captures_only, host_compacts
from lcm_plugin.compaction.run import Compactor
from lcm_plugin.compaction.scheduler import Scheduler, Worker, WorkOff, WorkReport, call_of
from lcm_plugin.compaction.sweep import Sweeper, recent_growth
from lcm_plugin.compaction.undo import NEVER, LastCompaction
from lcm_plugin.compaction.windows import Budgets, Windows
from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import StoreError
from lcm_plugin.events import EventBus
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.sessions.access import Access
from lcm_plugin.sessions.conversations import SessionDirectory
from lcm_plugin.sessions.standing_rows import StandingRows
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import Conversation
from lcm_plugin.summarize.base import SummaryDraft
from lcm_plugin.summarize.summarizer import Summarizer
from lcm_plugin.types import CompactionDecision, CompactionResult, CompactionUndo, Reason, Sent, Session, Turn

_MOST_NEW_MESSAGES = 256
_MOST_CALLS = 4_096
_NOTHING = CompactionResult(False, Reason.NOTHING_ELIGIBLE, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Assessment:
    """Whether compaction is due for a conversation, and the limits of the model call for which that holds."""

    conversation: Conversation
    limits: Limits
    decision: CompactionDecision


class Compaction:
    """Decides, compacts, schedules, calibrates, for sessions that may be written to. Thread-safe."""

    def __init__(
        self,
        config: LcmConfig,
        store: Store,
        sessions: SessionDirectory,
        summarizer: Summarizer,
        counter: TokenCounter,
        calibration: Calibration,
        windows: Windows,
        budgets: Budgets,
        background: Background,
        events: EventBus,
        clock: Callable[[], int],
    ) -> None:
        passes = PassRunner(store, summarizer, counter, events, clock, config)
        self._config = config
        self._store = store
        self._sessions = sessions
        self._calibration = calibration
        self._windows = windows
        self._budgets = budgets
        self._background = background
        self._events = events
        self._clock = clock
        self._calls: LruCache[int, Call] = LruCache(_MOST_CALLS)
        self.last = LastCompaction(store, counter, config.timezone, clock)
        self._compactor = Compactor(
            store,
            Sweeper(store, passes, clock),
            Clearing(store, config, counter, events, self.last, clock),
            config,
            events,
            clock,
            calibration,
            calls_models=summarizer.completions.available,
            spent_until=summarizer.spent_until,
            last=self.last,
        )
        self._scheduler = Scheduler(
            store, self._compactor, background, events, clock, hard_wait_ms=config.hard_wait_ms
        )

    def last_call(self, conversation_id: int) -> Call | None:
        """The newest model call for which this process scheduled; None when there was none."""
        return self._calls.get(conversation_id)

    def known_limits(self, reader: Reader, conversation: Conversation | None) -> Limits:
        """The limits of `known_call`."""
        if conversation is None:
            return self._compactor.limits(Call(), "")
        return self.limits(
            reader, StandingRows.read(reader, conversation), self.known_call(reader, conversation)
        )

    def known_call(self, reader: Reader, conversation: Conversation) -> Call:
        """The newest model call that is known of a conversation, with the overhead that its host named.

        That is the one for which this process scheduled last, else the newer one of its debt and of its newest turn on
        record, else one with the default budget.
        """
        number = conversation.conversation_id
        if known := self.last_call(number):
            return known
        debt, sent = reader.debt(number), reader.sent_contexts(number, limit=1)
        if sent and (debt is None or sent[0].sent_at >= debt.requested_at):
            return Call(sent[0].budget, sent[0].overhead, sent[0].model or None)
        if debt is None:
            return Call()
        call = call_of(debt)
        beside = self._beside(StandingRows.read(reader, conversation), call)
        return replace(call, overhead=max(0, call.overhead - beside))

    def summary_target(self, reader: Reader, conversation_id: int, depth: int) -> int:
        """The size that a conversation's summaries of a depth aim at."""
        return self.known_limits(reader, reader.conversation(conversation_id)).target(depth)

    def evaluate(self, session: Session, call: Call) -> CompactionDecision:
        """Whether compaction of a session's conversation is due for a model call."""
        found = self._find(session, call)
        return found.decision if found else self._none_due(session, call)

    def assess(self, reader: Reader, rows: StandingRows, call: Call) -> Assessment:
        """Whether compaction is due for an active conversation, as a transaction sees it."""
        limits = self.limits(reader, rows, call)
        return Assessment(
            rows.conversation, limits, self._compactor.assess(reader, rows.conversation, limits)
        )

    def decide(
        self, reader: Reader, session: Session, rows: StandingRows | None, call: Call
    ) -> CompactionDecision:
        """The same for a session, which may have no conversation, or none that may be written to."""
        if rows is None or self._sessions.access(session, reader) is not Access.FULL:
            return self._none_due(session, call)
        return self.assess(reader, rows, call).decision

    def captures_only(self, session: Session) -> bool:
        """Whether the host compacts a session, by the settings or because it said so."""
        if captures_only(self._config, self._sessions.keyed(session).key):
            return True
        with self._store.read() as reader:
            conversation = self._sessions.writable(reader, session)
            return conversation is not None and self._is_left_to_host(reader, conversation)

    def leave_to_host(self, session: Session, yes: bool) -> bool:
        """Notes whether the host compacts a session's conversation; see `Engine.leave_to_host`."""
        conversation = self._sessions.writable_conversation(session)
        if conversation is None:
            return False
        number = conversation.conversation_id
        with self._store.read() as reader:
            if host_compacts(reader.debt(number)) == yes:
                return True
        # The reason of the debt is the mark: what runs ends, and what looks at the debt next gives it up.
        reason = Reason.HOST_COMPACTS if yes else Reason.BELOW_THRESHOLD
        with self._store.write() as writer:
            writer.request_compaction(number, str(reason), None, self._clock())
        return True

    def compact(self, session: Session, call: Call, *, force: bool) -> CompactionResult:
        """Compacts in this thread."""
        conversation = self._sessions.writable_conversation(session)
        return self._compact(conversation, call, force=force) if conversation else _NOTHING

    def preview(self, session: Session, call: Call) -> tuple[Chunk, SummaryDraft] | None:
        """The first chunk that a forced compaction would summarise now, with its text, which that compaction then keeps.

        None when there is none. Nothing is published; a model may be asked.
        """
        found = self._find(session, call)
        return self._compactor.preview(found.conversation.conversation_id, found.limits) if found else None

    def undo(self, session: Session) -> CompactionUndo:
        """Takes the last compaction back, as long as nothing else changed the context since."""
        conversation = self._sessions.writable_conversation(session)
        if conversation is None:
            return CompactionUndo(0, 0, 0, NEVER)
        result = self.last.undo(conversation)
        if not result.refusal:
            self._events.emit(
                "compaction.undone",
                conversation_id=conversation.conversation_id,
                session_key=conversation.session_key,
                summaries=result.summaries,
                token_before=result.tokens_before,
                token_after=result.tokens_after,
            )
        return result

    def schedule(
        self, session: Session, call: Call, *, wait: bool, decision: CompactionDecision | None = None
    ) -> CompactionDecision:
        """Starts what is due on a worker thread; with ``wait``, waits past the hard limit.

        Where ``decision`` says that nothing is due, the conversation is not looked at again.
        """
        if decision is not None and not decision.due:
            self._scheduler.drain_if_due()
            return decision
        found = self._find(session, call)
        if found is None:
            return self._none_due(session, call)
        conversation_id = found.conversation.conversation_id
        self._calls.put(conversation_id, call)
        self._scheduler.schedule(conversation_id, found.limits, found.decision, wait=wait)
        return found.decision

    def recover_overflow(
        self, session: Session, call: Call, refusal: Refusal, sent: Sent | None, given: int | None
    ) -> CompactionResult:
        """Learns from a provider that refused a call as too long, and compacts for what its model takes.

        ``given`` is the budget as the host named it; ``sent`` is the refused context's, else the newest known one.
        """
        conversation = self._sessions.writable_conversation(session)
        if conversation is None:
            return _NOTHING
        self._learn_limit(conversation, call, refusal, sent, given)
        fitting = replace(call, budget=self._budgets.capped(given, call.model))
        return self._fit_after_overflow(conversation, fitting)

    def _learn_limit(
        self, conversation: Conversation, call: Call, refusal: Refusal, sent: Sent | None, given: int | None
    ) -> None:
        number = conversation.conversation_id
        sent = sent or self._calibration.last_sent(number)
        tokens = sent.tokens + sent.overhead if sent else conversation.context_tokens + call.overhead
        self._windows.refused(call.model, tokens, refusal, given)
        if refusal.prompt:
            images, overhead = (sent.images, sent.overhead) if sent else (0, call.overhead)
            sample = Sample(number, tokens, refusal.prompt, overhead, images)
            self._calibration.observe(call.model, sample)
        self._events.emit(
            "compaction.overflow",
            level=logging.WARNING,
            conversation_id=conversation.conversation_id,
            session_key=conversation.session_key,
            model=call.model,
            tokens=tokens,
            limit=self._windows.limit(call.model, given),
            ceiling=self._windows.ceiling(call.model),
        )

    def _fit_after_overflow(self, conversation: Conversation, call: Call) -> CompactionResult:
        """Compacts at once if the context is larger than what the model takes."""
        tokens = conversation.context_tokens
        with self._store.read() as reader:
            limits = self.limits(reader, StandingRows.read(reader, conversation), call)
        if tokens <= limits.soft:
            return CompactionResult(False, Reason.BELOW_THRESHOLD, 0, tokens, tokens)
        result = self._compact(conversation, call, force=True)
        if not result.compacted:
            self._events.emit(
                "compaction.overflow_persists",
                level=logging.ERROR,
                conversation_id=conversation.conversation_id,
                tokens=tokens,
                reason=str(result.reason),
            )
        return result

    def note_usage(self, turn: Turn) -> None:
        """Learns from what the provider counted for an answered turn's last model call."""
        if turn.usage is None:
            return
        with self._store.read() as reader:
            conversation = self._sessions.writable(reader, turn.session)
            if conversation is None or self._is_left_to_host(reader, conversation):
                return  # What the host sent is not what was assembled.
            sent = turn.sent or self._calibration.last_sent(conversation.conversation_id)
            ours = _prompt_tokens(reader, conversation, sent) if sent else None
        model, prompt_tokens = turn.model, turn.usage.prompt_tokens
        if sent is None or ours is None or prompt_tokens <= 0:
            return
        try:
            self._windows.took(model, ours, prompt_tokens)
            number = conversation.conversation_id
            sample = Sample(number, ours, prompt_tokens, sent.overhead, sent.images)
            factor = self._calibration.observe(model, sample)
        except StoreError as error:
            self._events.emit("calibration.not_saved", level=logging.WARNING, error=str(error))
            return
        self._events.emit(
            "calibration.observed",
            level=logging.DEBUG,
            conversation_id=conversation.conversation_id,
            session_key=conversation.session_key,
            estimated=ours,
            observed=prompt_tokens,
            factor=round(factor, 3),
            hidden=self._calibration.hidden(model, conversation.conversation_id),
        )

    def work(
        self,
        stop: threading.Event,
        *,
        until_idle: bool,
        poll_seconds: float,
        check: WorkOff,
        map_items: WorkOff,
    ) -> WorkReport:
        """Works off debts, integrity jobs and maps of all conversations in this thread until it is stopped."""
        worker = Worker(self._store, self._compactor, self._clock, self._may_write, check, map_items)
        return worker.run(stop, until_idle=until_idle, poll_seconds=poll_seconds)

    def _find(self, session: Session, call: Call) -> Assessment | None:
        """The assessment of a session's conversation; None when there is none to write to."""
        with self._store.read() as reader:
            self._sessions.ask_ahead(reader, session)
            conversation = self._sessions.writable(reader, session)
            return (
                self.assess(reader, StandingRows.read(reader, conversation), call) if conversation else None
            )

    def _is_left_to_host(self, reader: Reader, conversation: Conversation) -> bool:
        if captures_only(self._config, conversation.session_key):
            return True
        return host_compacts(reader.debt(conversation.conversation_id))

    def _may_write(self, session_key: str) -> bool:
        return self._sessions.access_of_key(session_key) is Access.FULL

    def _none_due(self, session: Session, call: Call) -> CompactionDecision:
        limits = self._compactor.limits(call, session.key)
        reason = Reason.CAPTURE_ONLY if limits.captures_only else Reason.BELOW_THRESHOLD
        return CompactionDecision(False, reason, 0, limits.soft)

    def _compact(self, conversation: Conversation, call: Call, *, force: bool) -> CompactionResult:
        with self._store.read() as reader:
            limits = self.limits(reader, StandingRows.read(reader, conversation), call)
        return self._compactor.compact(
            conversation.conversation_id, limits, force=force, cancelled=lambda: self._background.closing
        )

    def limits(self, reader: Reader, rows: StandingRows, call: Call) -> Limits:
        """Instructions and pins stand before the talk or in it and are never compacted, so they count as overhead.

        So do the tokens that the provider counts in every call although nobody named them.
        Where the host keeps a list of its own, nothing is summarised before that is nearly full; then all that is owed
        is, so that the host need not wait for a model when it is.
        """
        conversation = rows.conversation
        whole = replace(call, overhead=max(0, call.overhead + self._beside(rows, call)))
        limits = self._compactor.limits(whole, conversation.session_key)
        if call.shown is None:
            return limits
        if _is_full_soon(reader, conversation, limits, call.shown):
            return limits.to_publish(conversation.raw_tokens)
        return limits.to_wait()

    def _beside(self, rows: StandingRows, call: Call) -> int:
        """The tokens of every call beside the talk that the host did not name."""
        return rows.tokens + self._calibration.hidden(call.model, rows.conversation.conversation_id)


def _prompt_tokens(reader: Reader, conversation: Conversation, sent: Sent) -> int | None:
    """Our count of an answered call: what was handed out, and what the turn added to it before the answer."""
    if sent.next_seq is None:
        return sent.tokens + sent.overhead
    heads = reader.heads(conversation.conversation_id, limit=_MOST_NEW_MESSAGES)
    if heads and heads[0].seq > sent.next_seq:
        return None
    since = [head for head in heads if head.seq >= sent.next_seq]
    answers = [n for n, head in enumerate(since) if head.role == "assistant"]
    before = since[: answers[-1]] if answers else since
    return sent.tokens + sent.overhead + sum(head.tokens for head in before if not head.hidden)


def _is_full_soon(reader: Reader, conversation: Conversation, limits: Limits, shown: int) -> bool:
    """Whether a list that the host keeps is within a few turns of where it asks for a context in its place."""
    if shown < limits.soft // 2:
        return False
    last = recent_growth(reader, conversation.conversation_id, 1)
    before = recent_growth(reader, conversation.conversation_id, 2) - last
    return shown + max(last, before) >= limits.soft
