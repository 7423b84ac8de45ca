"""How a session is pruned (/new), archived (/reset) and ended. Stored rows are never deleted here.

Each change is one transaction, run again when the database server went away in the middle of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.events import EventBus
from lcm_plugin.sessions.conversations import SessionDirectory
from lcm_plugin.sessions.kinds import open_conversation
from lcm_plugin.store.protocol import Reader, Store, Writer
from lcm_plugin.store.records import ArchiveCause, Conversation
from lcm_plugin.store.retry import retry_lost
from lcm_plugin.types import Session

# All other reasons (restart, shutdown, idle, rollover, new, reset, unknown …) end a run, not its lane.
_ARCHIVES: dict[str, ArchiveCause] = {
    "deleted": "session-deleted",
    "deletion": "session-deleted",
    "end": "session-end",
    "ended": "session-end",
}


@dataclass(frozen=True, slots=True)
class Pruned:
    """What ``/new`` keeps and takes out of the context. Token amounts are what the items cost there.

    ``deepest`` is the depth of the deepest summary in the context, -1 for none.
    """

    retain_depth: int = -1
    kept_messages: int = 0
    kept_summaries: int = 0
    kept_tokens: int = 0
    dropped_messages: int = 0
    dropped_summaries: int = 0
    dropped_tokens: int = 0
    deepest: int = -1


class Lifecycle:
    """Changes of a session's conversation as a whole."""

    def __init__(
        self,
        store: Store,
        sessions: SessionDirectory,
        events: EventBus,
        clock: Callable[[], int],
        retain_depth: int,
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._retain_depth = retain_depth
        self._events = events
        self._clock = clock

    def preview(self, session: Session, retain_depth: int | None = None) -> Pruned:
        """What `prune` would do."""
        depth = self._depth(retain_depth)
        with self._store.read() as reader:
            conversation = self._sessions.writable(reader, session)
            return _split(reader, conversation, depth) if conversation else Pruned(depth)

    def prune(self, session: Session, retain_depth: int | None = None) -> Pruned:
        """Takes items out of the context by depth: -1 nothing, 0 raw messages, d also what is below depth d.

        Without a depth the settings' one holds. Its cost in this process does not depend on how much there is to
        take out.
        """
        depth, now = self._depth(retain_depth), self._clock()
        pruned, conversation = retry_lost(lambda: self._prune(session, depth, now))
        if conversation is None:
            return pruned
        self._tell(
            "session.pruned",
            conversation,
            retain_depth=depth,
            kept_tokens=pruned.kept_tokens,
            dropped_tokens=pruned.dropped_tokens,
        )
        return pruned

    def undo(self, session: Session) -> int:
        """Puts back what the newest ``/new`` took out; 0 when there is nothing or the context changed since."""
        restored, conversation = retry_lost(lambda: self._undo(session))
        if conversation is not None and restored:
            self._tell("session.restored", conversation, items=restored)
        return restored

    def reset(self, session: Session) -> Conversation | None:
        """Archives the conversation and opens a fresh one; None when there was nothing to archive."""
        conversation = self._archive(session, "manual-reset", reopen=True)
        if conversation is not None:
            self._tell("session.reset", conversation, messages=conversation.message_count)
        return conversation

    def end(self, session: Session, reason: str) -> Conversation | None:
        """Ends a run: deletion and the end of a lane archive, all else keeps the conversation as it is."""
        cause = _ARCHIVES.get(reason.strip().lower())
        if cause is None:
            return None
        conversation = self._archive(session, cause, reopen=False)
        if conversation is not None:
            self._tell("session.archived", conversation, cause=cause)
        return conversation

    def _prune(self, session: Session, retain_depth: int, now: int) -> tuple[Pruned, Conversation | None]:
        with self._store.write() as writer:
            conversation = self._sessions.writable(writer, session)
            if conversation is None:
                return Pruned(retain_depth), None
            pruned = _split(writer, conversation, retain_depth)
            writer.prune(conversation.conversation_id, retain_depth, "new", now)
        return pruned, conversation

    def _undo(self, session: Session) -> tuple[int, Conversation | None]:
        with self._store.write() as writer:
            conversation = self._sessions.writable(writer, session)
            if conversation is None:
                return 0, None
            return writer.restore_snapshot(conversation.conversation_id, self._clock()), conversation

    def _archive(self, session: Session, cause: ArchiveCause, *, reopen: bool) -> Conversation | None:
        """Archives the session's conversation; with ``reopen``, only one that holds messages."""
        tried: list[Conversation] = []

        def archive() -> Conversation | None:
            with self._store.write() as writer:
                if tried and _is_archived(writer, tried[-1]):
                    return tried[-1]
                conversation = self._sessions.writable(writer, session)
                if conversation is None or (reopen and conversation.message_count == 0):
                    return None
                tried.append(conversation)
                now = self._clock()
                writer.archive(conversation.conversation_id, cause, now)
                if reopen:
                    open_conversation(writer, Session(conversation.session_key, session.id), now)
            return conversation

        return retry_lost(archive, idempotent=True)

    def _depth(self, given: int | None) -> int:
        """The retain depth that holds. Raises `InputError` for one that is none."""
        depth = self._retain_depth if given is None else given
        if isinstance(depth, bool) or not isinstance(depth, int) or depth < -1:
            raise InputError(f"the retain depth must be a whole number, -1 (keep all) or more, not {depth!r}")
        return depth

    def _tell(self, event: str, conversation: Conversation, **fields: Any) -> None:
        self._events.emit(
            event,
            conversation_id=conversation.conversation_id,
            session_key=conversation.session_key,
            session_id=conversation.session_id,
            **fields,
        )


def _is_archived(writer: Writer, conversation: Conversation) -> bool:
    now = writer.conversation(conversation.conversation_id)
    return now is not None and not now.active


def _split(reader: Reader, conversation: Conversation, retain_depth: int) -> Pruned:
    depths = reader.context_depths(conversation.conversation_id)
    kept = {depth: row for depth, row in depths.items() if depth >= retain_depth}
    dropped = {depth: row for depth, row in depths.items() if depth < retain_depth}
    keeps_raw = retain_depth == -1
    raw = (conversation.raw_items, conversation.raw_tokens)
    return Pruned(
        retain_depth=retain_depth,
        kept_messages=raw[0] if keeps_raw else 0,
        kept_summaries=_sum(kept, 0),
        kept_tokens=_sum(kept, 1) + (raw[1] if keeps_raw else 0),
        dropped_messages=0 if keeps_raw else raw[0],
        dropped_summaries=_sum(dropped, 0),
        dropped_tokens=_sum(dropped, 1) + (0 if keeps_raw else raw[1]),
        deepest=max(depths, default=-1),
    )


def _sum(rows: Mapping[int, tuple[int, int]], column: int) -> int:
    return sum(row[column] for row in rows.values())
