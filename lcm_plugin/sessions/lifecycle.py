"""How a session is pruned (/new), archived (/reset) and ended. Stored rows are never deleted here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lcm_plugin.errors import InputError
from lcm_plugin.store.base import Store, Writer
from lcm_plugin.store.records import ArchiveCause, Conversation, Item
from lcm_plugin.types import Session

_PAGE = 1_000
_ARCHIVES: dict[str, ArchiveCause] = {
    "deleted": "session-deleted",
    "deletion": "session-deleted",
    "end": "session-end",
}


@dataclass(frozen=True, slots=True)
class Pruned:
    """What ``/new`` kept and took out of the context. Token amounts are what the items cost there."""

    kept_summaries: int
    dropped_summaries: int
    dropped_messages: int
    kept_tokens: int
    deepest: int


class Lifecycle:
    """Changes of a session's conversation as a whole."""

    def __init__(self, store: Store, clock: Callable[[], int]) -> None:
        self._store = store
        self._clock = clock

    def prune(self, session: Session, retain_depth: int) -> Pruned:
        """Takes items out of the context by depth: -1 nothing, 0 raw messages, d what is below depth d."""
        if retain_depth < -1:
            raise InputError(f"the retain depth must be -1 or more, not {retain_depth}")
        with self._store.write() as writer:
            conversation = writer.find_conversation(session)
            if conversation is None:
                return Pruned(0, 0, 0, 0, -1)
            items = _all_items(writer, conversation)
            dropped = [item for item in items if not _is_retained(item, retain_depth)]
            if dropped:
                writer.remove_items(
                    conversation.conversation_id, [item.ordinal for item in dropped], "new", self._clock()
                )
        kept = [item for item in items if _is_retained(item, retain_depth)]
        return Pruned(
            kept_summaries=sum(item.message is None for item in kept),
            dropped_summaries=sum(item.message is None for item in dropped),
            dropped_messages=sum(item.message is not None for item in dropped),
            kept_tokens=sum(item.tokens for item in kept),
            deepest=max((item.depth for item in items), default=-1),
        )

    def undo(self, session: Session) -> int:
        """Puts back what the newest ``/new`` took out; 0 when there is nothing or the context changed since."""
        with self._store.write() as writer:
            conversation = writer.find_conversation(session)
            return writer.restore_snapshot(conversation.conversation_id, self._clock()) if conversation else 0

    def reset(self, session: Session) -> Conversation | None:
        """Archives the active conversation and opens a fresh one; None when there was nothing to archive."""
        with self._store.write() as writer:
            conversation = writer.find_conversation(session)
            if conversation is None or conversation.message_count == 0:
                return None
            now = self._clock()
            writer.archive(conversation.conversation_id, "manual-reset", now)
            writer.open_conversation(Session(conversation.session_key, session.id), now)
            return conversation

    def end(self, session: Session, reason: str) -> Conversation | None:
        """Ends a run: deletion archives, all else keeps the conversation as it is."""
        cause = _ARCHIVES.get(reason.strip().lower())
        if cause is None:
            return None
        with self._store.write() as writer:
            conversation = writer.find_conversation(session)
            if conversation is not None:
                writer.archive(conversation.conversation_id, cause, self._clock())
            return conversation


def _is_retained(item: Item, retain_depth: int) -> bool:
    return retain_depth == -1 or (item.message is None and item.depth >= retain_depth)


def _all_items(writer: Writer, conversation: Conversation) -> list[Item]:
    items: list[Item] = []
    after = 0
    while page := writer.oldest_items(conversation.conversation_id, after=after, limit=_PAGE):
        items += page
        after = page[-1].ordinal
    return items
