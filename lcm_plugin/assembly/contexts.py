"""Contexts for sessions: finds the conversation and the limits, has the context assembled, and reports it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from lcm_plugin.assembly.assembler import Assembler
from lcm_plugin.assembly.nearly_full import in_words, parts_of
from lcm_plugin.assembly.notices import IGNORED
from lcm_plugin.assembly.recalled import InView, taken_back_from
from lcm_plugin.assembly.render import Renderer
from lcm_plugin.assembly.request import Request
from lcm_plugin.compaction.calibration import Calibration
from lcm_plugin.compaction.service import Compaction
from lcm_plugin.compaction.tail import TailBounds
from lcm_plugin.compaction.windows import Budgets
from lcm_plugin.config import LcmConfig
from lcm_plugin.events import EventBus
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.blocks import text_of, user_speaks
from lcm_plugin.messages.convert import as_message, rough_size
from lcm_plugin.messages.markup import recalled_ids_of
from lcm_plugin.messages.tokens import files_in
from lcm_plugin.recall.active.service import ActiveRecall
from lcm_plugin.recall.scope import Scope
from lcm_plugin.sessions.access import Access
from lcm_plugin.sessions.context_log import ContextLog
from lcm_plugin.sessions.conversations import SessionDirectory
from lcm_plugin.sessions.notices import SessionNotices
from lcm_plugin.sessions.standing_rows import StandingRows
from lcm_plugin.store.insight.contexts import SentContext
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import Conversation, Item, message_ref
from lcm_plugin.turns import newest_request, turn_budget
from lcm_plugin.types import CompactionDecision, Context, Message, RunPosition, Sent, Session, Turn

_REQUESTS = 256
_CROWDED = 512


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a session's context is asked for with; as the arguments of `Engine.assemble`."""

    session: Session
    budget: int | None
    overhead: int
    prompt: str | None
    model: str | None
    run: RunPosition | None
    recall: bool


@dataclass(frozen=True, slots=True)
class _Made:
    """A context, and what it was made for and of; none where the ``decision`` comes first."""

    conversation: Conversation | None
    request: Request | None
    context: Context | None
    decision: CompactionDecision | None


class Contexts:
    """Assembles the context of a session's next model call. Thread-safe."""

    def __init__(
        self,
        config: LcmConfig,
        store: Store,
        sessions: SessionDirectory,
        renderer: Renderer,
        assembler: Assembler,
        active_recall: ActiveRecall,
        budgets: Budgets,
        calibration: Calibration,
        compaction: Compaction,
        notices: SessionNotices,
        context_log: ContextLog,
        clock: Callable[[], int],
        events: EventBus,
        index: Callable[[], int],
        count: Callable[[Message], int],
    ) -> None:
        """``index`` indexes for search what is pending, for a short time, and returns how many rows."""
        self._config = config
        self._store = store
        self._sessions = sessions
        self._renderer = renderer
        self._assembler = assembler
        self._active_recall = active_recall
        self._budgets = budgets
        self._calibration = calibration
        self._compaction = compaction
        self._notices = notices
        self._context_log = context_log
        self._clock = clock
        self._events = events
        self._index = index
        self._count = count
        self._quoted: LruCache[tuple[str, str, int], str] = LruCache(_REQUESTS)
        self._crowded: LruCache[int, str] = LruCache(_CROWDED)

    def assemble(
        self,
        session: Session,
        budget: int | None,
        overhead: int,
        prompt: str | None,
        model: str | None,
        run: RunPosition | None,
        recall: bool,
    ) -> Context:
        """The context within ``budget`` tokens less the overhead, with what the session was not told yet.

        It is noted as sent: the provider's next count is compared with it, and the turn's record is written with the
        answer.
        """
        began = perf_counter()
        made = self._made(_Asked(session, budget, overhead, prompt, model, run, recall))
        return self._handed_out(session, overhead, made, began)

    def assemble_turn(
        self, turn: Turn, comes_first: Callable[[CompactionDecision], bool]
    ) -> tuple[CompactionDecision, Context | None]:
        """Whether compaction is due for a turn's model call, and its context, both as one transaction sees them.

        There is no context where ``comes_first`` says of the decision that something is to be done before.
        """
        began, budget = perf_counter(), turn_budget(turn)
        asked = _Asked(
            turn.session, budget, turn.overhead_tokens, turn.prompt, turn.model, turn.run, turn.recall
        )
        call = self._budgets.call(budget, turn.overhead_tokens, turn.model, budget)
        made = self._made(
            asked, lambda reader, rows: self._compaction.decide(reader, turn.session, rows, call), comes_first
        )
        assert made.decision is not None
        if made.context is None:
            return made.decision, None
        return made.decision, self._handed_out(turn.session, turn.overhead_tokens, made, began)

    def _handed_out(self, session: Session, overhead: int, made: _Made, began: float) -> Context:
        """The context, noted as sent."""
        conversation, context = made.conversation, made.context
        assert context is not None
        if conversation is not None and made.request is not None:
            ms = round(1_000 * (perf_counter() - began))
            self._context_log.note(
                self._call(conversation, made.request, overhead, context, ms), context.shown
            )
        news = self._notices.take(session) if conversation or not context.notices else ()
        if news:
            context = replace(context, notices=(*context.notices, *news))
        if conversation is None:
            return context
        sent = Sent(context.tokens, overhead, conversation.next_seq, files_in(context.messages))
        self._calibration.sent(conversation.conversation_id, sent)
        self._report(conversation, context)
        return replace(context, sent=sent)

    def look_ahead(
        self, session: Session, budget: int | None, overhead: int, model: str | None, recall: bool
    ) -> Context:
        """The context that the next call would be given; nothing is noted as sent."""
        context = self._made(_Asked(session, budget, overhead, None, model, None, recall)).context
        assert context is not None
        return context

    def bytes_of(self, reader: Reader, refs: Sequence[str]) -> dict[str, tuple[int, int]]:
        """How many bytes, as JSON, and tokens stored messages and summaries take in a context now, by id."""
        numbers = [int(ref[4:]) for ref in refs if ref.startswith("msg_")]
        summaries = reader.summaries([ref for ref in refs if ref.startswith("sum_")])
        items = [
            *(
                Item(row.head.seq, "message", row.head.tokens, message=row.head)
                for row in reader.messages_by_id(numbers).values()
            ),
            *(
                Item(one.first_seq, "summary", one.tokens, one.depth, summary_id=one.summary_id)
                for one in summaries.values()
            ),
        ]
        return {
            one.ref: (len(json.dumps(one.message, ensure_ascii=False).encode()), one.tokens)
            for one in self._renderer.render(reader, items)
            if one is not None
        }

    def _made(
        self,
        asked: _Asked,
        decide: Callable[[Reader, StandingRows | None], CompactionDecision] | None = None,
        comes_first: Callable[[CompactionDecision], bool] = lambda decision: False,
    ) -> _Made:
        decision = None
        # Raises for a budget that cannot be one, also where nothing is stored yet.
        room = self._budgets.room(asked.budget, asked.overhead, asked.model)
        with self._store.read() as reader:
            self._sessions.ask_ahead(reader, asked.session)
            conversation = self._sessions.conversation(reader, asked.session)
            rows = StandingRows.read(reader, conversation) if conversation else None
            if decide is not None and comes_first(decision := decide(reader, rows)):
                return _Made(conversation, None, None, decision)
            if rows is None:
                ignored = self._sessions.access(asked.session) is Access.NONE
                return _Made(None, None, Context([], 0, notices=(IGNORED,) if ignored else ()), decision)
            request = self._request(reader, rows, asked, room)
            context = self._assembler.assemble(reader, rows, request)
        number = rows.conversation.conversation_id
        if self._active_recall.lags(number) and self._index():
            with self._store.read() as reader:
                rows = StandingRows.read(reader, rows.conversation)
                context = self._assembler.assemble(reader, rows, request)
        return _Made(conversation, request, context, decision)

    def _request(self, reader: Reader, rows: StandingRows, asked: _Asked, limit: int) -> Request:
        """What a context of a conversation is wanted for."""
        budget, overhead, model, prompt = asked.budget, asked.overhead, asked.model, asked.prompt
        total = self._budgets.total(budget, model)
        number = rows.conversation.conversation_id
        limits = self._compaction.limits(reader, rows, self._budgets.call(budget, overhead, model, budget))
        return Request(
            budget=total,
            limit=limit,
            room=min(limit, self._calibration.room(total, overhead, model, number)),
            tail=TailBounds(limits.tail_count, limits.tail_tokens),
            prompt=prompt if prompt and prompt.strip() else None,
            model=model,
            by_relevance=self._config.prompt_aware_eviction,
            standing=self._config.standing_tokens(total),
            keep_latest_of=tuple(self._config.keep_latest_of),
            run=asked.run,
            recall=asked.recall,
        )

    def _call(
        self, conversation: Conversation, request: Request, overhead: int, context: Context, ms: int
    ) -> SentContext:
        """What a context was made for."""
        number, asked = conversation.conversation_id, context.request
        decision = None if context.recalled else self._active_recall.decided_for(number, asked)
        return SentContext(
            conversation_id=number,
            request_id=int(asked[4:]) if asked else 0,
            sent_at=self._clock(),
            tokens=context.tokens,
            budget=request.budget,
            overhead=overhead,
            room=request.room,
            made_ms=ms,
            over_budget=context.over_budget,
            model=request.model or "",
            policy=self._config.context_policy,
            quotes=context.recalled,
            no_quotes=decision.reason if decision else "",
            notices=(*context.notices, *([in_words(context.crowded)] if context.crowded else [])),
        )

    def beside_own_list(self, turn: Turn) -> Context:
        """The list of a host that compacts itself, as it is, with what recall quotes for its newest request."""
        own: list[Message] = list(turn.messages)
        room = self._budgets.room(turn_budget(turn), turn.overhead_tokens, turn.model)
        quoted = self.quoted_beside(turn.session, [as_message(message) for message in own], room)
        if quoted is not None:
            own.insert(*quoted)
        tokens = rough_size(own) // 4
        return Context(
            own,
            tokens,
            notices=self._notices.take(turn.session),
            recalled=tuple(map(message_ref, recalled_ids_of(text_of(quoted[1])))) if quoted else (),
            sent=Sent(tokens, turn.overhead_tokens, None),
        )

    def quoted_beside(
        self, session: Session, messages: Sequence[Message], room: int
    ) -> tuple[int, Message] | None:
        """What recall quotes for the newest request of a host's own list, and where in it that goes.

        It is decided once for a request, so that the list only grows while a turn runs. ``room`` is how many tokens
        the list may have.
        """
        at = newest_request(messages)
        if at is None:
            return None
        asked = text_of(messages[at])
        request = (session.name, asked, sum(user_speaks(message) for message in messages))
        quotes = self._quoted.get(request)
        if quotes is None:
            free = room - sum(map(self._count, messages))
            quotes = self.quotes_for(session, asked, messages[: at + 1], room, free)
            self._quoted.put(request, quotes)
        return (at, {"role": "user", "content": quotes}) if quotes else None

    def quotes_for(
        self,
        session: Session,
        asked: str,
        shown: Sequence[Message],
        room: int,
        free: int,
        quoted_before: frozenset[str] = frozenset(),
        among: Callable[[Reader], Scope | None] = lambda reader: None,
    ) -> str:
        """What recall quotes for a request, of what a host's list does not show; or an empty text.

        ``quoted_before``: messages whose quotes beside earlier requests the host still sends. ``among``: where to look,
        if the host says so; else it is what the session may search, once something of it is stored.
        """
        if self._sessions.access(session) is Access.NONE:
            return ""
        with self._store.read() as reader:
            conversation, scope = self._sessions.conversation(reader, session), among(reader)
            if conversation is None or not conversation.message_count:
                view = InView(quoted="\n".join(map(text_of, shown)), room=room, free=free)
                first = scope and self._active_recall.within(reader, session.key, scope, asked, view)
                return str(first.message["content"]) if first else ""
            left_out = len(shown) + 1 < conversation.message_count
            before = shown[:-1] if shown and text_of(shown[-1]) == asked else shown
            view = InView(
                quoted="\n".join(map(text_of, shown)),
                left_out=left_out,
                room=room,
                free=free,
                quoted_before=quoted_before,
                taken_back=taken_back_from(reader, conversation.conversation_id, before),
            )
            recalled = self._active_recall.for_text(reader, conversation, asked, view, scope)
        return str(recalled.message["content"]) if recalled else ""

    def _report(self, conversation: Conversation, context: Context) -> None:
        """Emits an event for every context, and one more when a person should know something about it."""
        where: dict[str, Any] = {
            "conversation_id": conversation.conversation_id,
            "session_key": conversation.session_key,
            "session_id": conversation.session_id,
        }
        self._events.emit(
            "assembly.done",
            level=logging.DEBUG,
            tokens=context.tokens,
            messages=len(context.messages),
            summaries=len(context.summaries),
            over_budget=context.over_budget,
            **where,
        )
        self._report_crowded(where, context)
        if context.notices:
            level = logging.WARNING if context.over_budget else logging.INFO
            self._events.emit("assembly.notice", level=level, over_budget=context.over_budget, **where)

    def _report_crowded(self, where: Mapping[str, Any], context: Context) -> None:
        """Emits an event, once a turn, when the model is told that its context is nearly full."""
        number, fixed = where["conversation_id"], context.crowded
        if fixed is None:
            self._crowded.pop(number)
        elif self._crowded.get(number) != context.request:
            self._crowded.put(number, context.request)
            parts = ", ".join(f"{name} {tokens}" for name, tokens in parts_of(fixed).items() if tokens)
            self._events.emit(
                "assembly.nearly_full",
                level=logging.WARNING,
                tokens=fixed.tokens,
                budget=fixed.budget,
                parts=parts,
                **where,
            )
