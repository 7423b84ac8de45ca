"""Everything the engine asks of compaction, for one conversation and the model call it is for."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from lcm_plugin.compaction.background import Background
from lcm_plugin.compaction.calibration import Calibration
from lcm_plugin.compaction.compactor import Compactor
from lcm_plugin.compaction.overflow import MOST_TRIES, OverflowTries
from lcm_plugin.compaction.passes import PassRunner
from lcm_plugin.compaction.policy import Call, Limits
from lcm_plugin.compaction.scheduler import Scheduler
from lcm_plugin.compaction.sweep import Sweeper
from lcm_plugin.compaction.worker import Worker, WorkReport
from lcm_plugin.config import DEFAULT_BUDGET, LcmConfig
from lcm_plugin.errors import StoreError
from lcm_plugin.events import EventBus
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.store.base import Reader, Store
from lcm_plugin.store.records import Conversation
from lcm_plugin.summarize.summarizer import Summarizer
from lcm_plugin.types import CompactionDecision, CompactionResult, Reason

_MOST_NEW_MESSAGES = 256
_MOST_CALLS = 4_096


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether compaction is due for a conversation, and the limits of the model call for which that holds."""

    conversation: Conversation
    limits: Limits
    decision: CompactionDecision


class Compaction:
    """Decides, compacts, schedules, calibrates. Thread-safe."""

    def __init__(
        self,
        config: LcmConfig,
        store: Store,
        summarizer: Summarizer,
        counter: TokenCounter,
        calibration: Calibration,
        background: Background,
        events: EventBus,
        clock: Callable[[], int],
    ) -> None:
        passes = PassRunner(store, summarizer, counter, events, clock, config.timezone)
        self._store = store
        self._calibration = calibration
        self._background = background
        self._events = events
        self._clock = clock
        self._overflows = OverflowTries()
        self._calls: OrderedDict[int, Call] = OrderedDict()
        self._calls_lock = threading.Lock()
        self._compactor = Compactor(
            store,
            Sweeper(store, passes, clock),
            config,
            events,
            clock,
            calibration,
            calls_models=summarizer.completions.available,
            spent_until=summarizer.spent_until,
        )
        self._scheduler = Scheduler(
            store, self._compactor, background, events, clock, hard_wait_ms=config.hard_wait_ms
        )

    def last_call(self, conversation_id: int) -> Call | None:
        """The newest model call for which this process scheduled; None when there was none."""
        with self._calls_lock:
            return self._calls.get(conversation_id)

    def none_due(self, call: Call, session_key: str) -> CompactionDecision:
        """The decision about a session that has no conversation."""
        soft = self._compactor.limits(call, session_key).soft
        return CompactionDecision(False, Reason.BELOW_THRESHOLD, 0, soft)

    def look(self, reader: Reader, conversation: Conversation, call: Call) -> Outlook:
        """Whether compaction is due for an active conversation, as a transaction sees it."""
        limits = self._limits(reader, conversation, call)
        return Outlook(conversation, limits, self._compactor.judge(reader, conversation, limits))

    def compact(self, conversation: Conversation, call: Call, *, force: bool) -> CompactionResult:
        """Compacts in this thread."""
        with self._store.read() as reader:
            limits = self._limits(reader, conversation, call)
        return self._compactor.compact(
            conversation.conversation_id, limits, force=force, cancelled=lambda: self._background.closing
        )

    def schedule(self, outlook: Outlook, call: Call, *, wait: bool) -> None:
        """Starts what is due on a worker thread; with ``wait``, waits past the hard limit."""
        conversation_id = outlook.conversation.conversation_id
        with self._calls_lock:
            self._calls[conversation_id] = call
            self._calls.move_to_end(conversation_id)
            if len(self._calls) > _MOST_CALLS:
                self._calls.popitem(last=False)
        self._scheduler.schedule(conversation_id, outlook.limits, outlook.decision, wait=wait)

    def drain_now_and_then(self) -> None:
        """Starts what conversations still owe, if that was not done for a while."""
        self._scheduler.drain_now_and_then()

    def recover_overflow(self, conversation: Conversation, call: Call) -> CompactionResult:
        """Compacts for a provider that refused the last context as too long, at most three times in a row."""
        conversation_id = conversation.conversation_id
        if not self._overflows.another(conversation_id):
            tokens = conversation.context_tokens
            detail = (
                f"the provider refused the context {MOST_TRIES} times although it was compacted each time; "
                "what it refuses is not in the history (system prompt, tools, or one message)"
            )
            self._events.emit(
                "compaction.overflow_persists",
                level=logging.ERROR,
                conversation_id=conversation_id,
                tokens=tokens,
            )
            return CompactionResult(False, Reason.BUDGET_UNREACHABLE, 0, tokens, tokens, detail=detail)
        sent = self._calibration.last_sent(conversation_id)
        estimated = (sent.tokens if sent else conversation.context_tokens) + call.overhead
        factor = self._calibration.overflowed(call.model, estimated, call.budget or DEFAULT_BUDGET)
        self._events.emit(
            "compaction.overflow",
            level=logging.WARNING,
            conversation_id=conversation_id,
            tokens=estimated,
            factor=round(factor, 3),
        )
        return self.compact(conversation, call, force=True)

    @property
    def has_overflowed(self) -> bool:
        """Whether a provider refused a context since the last turn of its conversation that was answered."""
        return self._overflows.any

    def note_answer(self, conversation: Conversation, call: Call, prompt_tokens: int | None) -> None:
        """A turn was answered; ``prompt_tokens`` is what the provider counted for its last model call."""
        self._overflows.went_well(conversation.conversation_id)
        estimated = self._estimated_prompt(conversation, call) if prompt_tokens else None
        if estimated is None or not prompt_tokens:
            return
        try:
            factor = self._calibration.observe(call.model, estimated, prompt_tokens)
        except StoreError as error:
            self._events.emit("calibration.not_saved", level=logging.WARNING, error=str(error))
            return
        self._events.emit(
            "calibration.observed",
            level=logging.DEBUG,
            conversation_id=conversation.conversation_id,
            session_key=conversation.session_key,
            estimated=estimated,
            observed=prompt_tokens,
            factor=round(factor, 3),
        )

    def work(
        self,
        stop: threading.Event,
        *,
        until_idle: bool,
        poll_seconds: float,
        may_write: Callable[[str], bool],
        check: Callable[[Callable[[], bool]], int],
    ) -> WorkReport:
        """Works off debts and integrity jobs of all conversations in this thread until it is stopped."""
        worker = Worker(self._store, self._compactor, self._clock, may_write, check)
        return worker.run(stop, until_idle=until_idle, poll_seconds=poll_seconds)

    def _limits(self, reader: Reader, conversation: Conversation, call: Call) -> Limits:
        """The system prompt in force is pinned before the context, so it counts as overhead."""
        system = reader.newest_system(conversation.conversation_id)
        pinned = system.tokens if system else 0
        return self._compactor.limits(
            replace(call, overhead=call.overhead + pinned), conversation.session_key
        )

    def _estimated_prompt(self, conversation: Conversation, call: Call) -> int | None:
        """Our count of the turn's last model call: what was handed out, and what the turn added before it."""
        sent = self._calibration.last_sent(conversation.conversation_id)
        if sent is None:
            return None
        with self._store.read() as reader:
            heads = reader.heads(conversation.conversation_id, limit=_MOST_NEW_MESSAGES)
        if heads and heads[0].seq > sent.next_seq:
            return None
        since = [head for head in heads if head.seq >= sent.next_seq]
        answers = [n for n, head in enumerate(since) if head.role == "assistant"]
        before = since[: answers[-1]] if answers else since
        return sent.tokens + call.overhead + sum(head.tokens for head in before if not head.hidden)
