"""Sub-agents: a conversation of their own, begun with the end of their parent's, and a grant to read it.

The host names the parent at a turn (``Turn.metadata["parent_session_key"]``). The child starts with the
newest raw messages of the parent's context, as copies in its own conversation, and may read the parent's
history with the recall tools until it ends. The parent is never changed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from lcm_plugin.events import EventBus
from lcm_plugin.ingest.ingestor import Ingestor
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.sessions.access import Access, SessionGate
from lcm_plugin.sessions.kinds import find_conversation
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import Item, Part, StoredMessage
from lcm_plugin.types import Session

PARENT_KEY = "parent_session_key"
_PAGE = 200


class Subagents:
    """Bootstraps children and keeps their grants, which end with them and with this process. Thread-safe."""

    def __init__(
        self,
        store: Store,
        gate: SessionGate,
        ingestor: Ingestor,
        events: EventBus,
        read_part: Callable[[Part], str],
        max_tokens: int,
    ) -> None:
        self._store = store
        self._gate = gate
        self._ingestor = ingestor
        self._events = events
        self._read_part = read_part
        self._max_tokens = max_tokens
        self._lock = threading.Lock()
        self._granted: dict[str, frozenset[int]] = {}

    def bootstrap(self, child: Session, parent: Session) -> int:
        """Grants the child its parent's conversation and copies its end if the child has no message yet.

        Returns how many messages were copied. Ignored and stateless sessions get and give nothing.
        """
        with self._store.read() as reader:
            if not self._may(reader, child, parent):
                return 0
            source = find_conversation(reader, Session(self._gate.key_of(parent, reader), parent.id))
            own = find_conversation(reader, child)
            if source is None:
                return 0
            with self._lock:
                self._granted[child.key] = frozenset({source.conversation_id})
            if own is not None and own.message_count:
                return 0
            rows = self._newest(reader, source.conversation_id)
            messages = [rebuild(row, self._read_part) for row in rows]
        taken = self._ingestor.seed(child, messages, [row.head.created_at for row in rows])
        self._events.emit(
            "session.bootstrapped",
            level=logging.INFO,
            session_key=child.key,
            parent_conversation_id=source.conversation_id,
            messages=taken,
        )
        return taken

    def granted(self, session_key: str) -> frozenset[int]:
        """The conversations, beside its own, that a session may read."""
        with self._lock:
            return self._granted.get(session_key, frozenset())

    def end(self, session_key: str) -> None:
        """The child is over: its grant ends."""
        with self._lock:
            self._granted.pop(session_key, None)

    def _may(self, reader: Reader, child: Session, parent: Session) -> bool:
        parent_key = self._gate.key_of(parent, reader)
        if not child.key or not parent_key or child.key == parent_key:
            return False
        return (
            self._gate.access_of_key(child.key) is Access.FULL
            and self._gate.access_of_key(parent_key) is Access.FULL
        )

    def _newest(self, reader: Reader, conversation_id: int) -> list[StoredMessage]:
        """The newest whole groups of the context's raw messages that fit, in order."""
        chosen: list[Item] = []
        group: list[Item] = []
        used, before = 0, None
        while page := reader.newest_items(conversation_id, before=before, limit=_PAGE):
            for item in reversed(page):
                if item.message is None:
                    return _load(reader, chosen)
                if item.message.hidden or item.message.role == "system":
                    continue
                group.append(item)
                if item.message.seq > min(one.message.group_seq for one in group if one.message):
                    continue
                if _is_open(group):
                    group = []
                    continue
                used += sum(one.tokens for one in group)
                if used > self._max_tokens:
                    return _load(reader, chosen)
                chosen += group
                group = []
            before = page[0].ordinal
        return _load(reader, chosen)


def _is_open(group: list[Item]) -> bool:
    """Whether a call of the group still waits for its result."""
    heads = [item.message for item in group if item.message]
    answers = {answer for head in heads for answer in head.answers}
    return any(call not in answers for head in heads for call in head.calls)


def _load(reader: Reader, newest_first: list[Item]) -> list[StoredMessage]:
    ids = [item.message.message_id for item in reversed(newest_first) if item.message]
    found = reader.messages_by_id(ids)
    return [found[message_id] for message_id in ids]
