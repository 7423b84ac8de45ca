"""Contexts for sessions: finds the conversation and the limits, has the context assembled, and reports it."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from lcm_plugin.assembly.assembler import Assembler
from lcm_plugin.assembly.notices import IGNORED
from lcm_plugin.assembly.request import Request
from lcm_plugin.compaction.calibration import Calibration
from lcm_plugin.compaction.service import Compaction
from lcm_plugin.compaction.tail import TailBounds
from lcm_plugin.compaction.windows import Budgets
from lcm_plugin.config import LcmConfig
from lcm_plugin.events import EventBus
from lcm_plugin.messages.tokens import files_in
from lcm_plugin.sessions.access import Access
from lcm_plugin.sessions.conversations import SessionDirectory
from lcm_plugin.sessions.notices import SessionNotices
from lcm_plugin.store.protocol import Store
from lcm_plugin.store.records import Conversation
from lcm_plugin.types import Context, RunPosition, Sent, Session


class Contexts:
    """Assembles the context of a session's next model call. Thread-safe."""

    def __init__(
        self,
        config: LcmConfig,
        store: Store,
        sessions: SessionDirectory,
        assembler: Assembler,
        budgets: Budgets,
        calibration: Calibration,
        compaction: Compaction,
        notices: SessionNotices,
        events: EventBus,
    ) -> None:
        self._config = config
        self._store = store
        self._sessions = sessions
        self._assembler = assembler
        self._budgets = budgets
        self._calibration = calibration
        self._compaction = compaction
        self._notices = notices
        self._events = events

    def assemble(
        self,
        session: Session,
        budget: int | None,
        overhead: int,
        prompt: str | None,
        model: str | None,
        run: RunPosition | None,
    ) -> Context:
        """The context within ``budget`` tokens less the overhead, with what the session was not told yet.

        It is noted as sent: the provider's next count is compared with it.
        """
        total, limit = self._budgets.total(budget, model), self._budgets.room(budget, overhead, model)
        with self._store.read() as reader:
            conversation = self._sessions.conversation(reader, session)
            if conversation is None:
                ignored = self._sessions.access(session) is Access.NONE
                return Context([], 0, notices=(IGNORED,) if ignored else self._notices.take(session))
            number = conversation.conversation_id
            call = self._budgets.call(budget, overhead, model, budget)
            limits = self._compaction.limits(reader, conversation, call)
            request = Request(
                budget=total,
                limit=limit,
                room=min(limit, self._calibration.room(total, overhead, model, number)),
                tail=TailBounds(limits.tail_count, limits.tail_tokens),
                prompt=prompt if prompt and prompt.strip() else None,
                model=model,
                by_relevance=self._config.prompt_aware_eviction,
                standing=self._config.standing_tokens(total),
                keep_latest_of=tuple(self._config.keep_latest_of),
                run=run,
            )
            context = self._assembler.assemble(reader, conversation, request)
        if news := self._notices.take(session):
            context = replace(context, notices=(*context.notices, *news))
        sent = Sent(context.tokens, overhead, conversation.next_seq, files_in(context.messages))
        self._calibration.sent(number, sent)
        self._report(conversation, context)
        return replace(context, sent=sent)

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
        if context.notices:
            level = logging.WARNING if context.over_budget else logging.INFO
            self._events.emit("assembly.notice", level=level, over_budget=context.over_budget, **where)
