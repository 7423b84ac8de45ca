"""What is told of an assembled context."""

from __future__ import annotations

import logging
from typing import Any

from lcm_plugin.events import EventBus
from lcm_plugin.store.records import Conversation
from lcm_plugin.types import Context


def tell_assembled(events: EventBus, conversation: Conversation, context: Context) -> None:
    """An event for every context, and one more when a person should know something about it."""
    where: dict[str, Any] = {
        "conversation_id": conversation.conversation_id,
        "session_key": conversation.session_key,
        "session_id": conversation.session_id,
    }
    events.emit(
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
        events.emit("assembly.notice", level=level, over_budget=context.over_budget, **where)
