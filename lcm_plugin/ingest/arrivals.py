"""Whether a batch that somebody began to store arrived: asked after a kill between two databases."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_plugin.ingest.alignment import new_in_delta
from lcm_plugin.ingest.intake import Intake
from lcm_plugin.sessions.conversations import SessionDirectory
from lcm_plugin.store.protocol import Store
from lcm_plugin.types import Message, Session

_OTHERS = 256


class Arrivals:
    """Looks from a noted position on. Thread-safe."""

    def __init__(self, store: Store, directory: SessionDirectory, intake: Intake) -> None:
        self._store = store
        self._directory = directory
        self._intake = intake

    def position(self, session: Session) -> tuple[int, int]:
        """Conversation and seq of a session's next message; (0, 1) before its first."""
        with self._store.read() as reader:
            conversation = self._directory.conversation(reader, session)
        return (conversation.conversation_id, conversation.next_seq) if conversation else (0, 1)

    def arrived(self, session: Session, since: tuple[int, int], messages: Sequence[Message]) -> bool:
        """Whether a batch, which is stored whole or not at all, stands in its order behind a position."""
        items = self._intake.take(messages).incoming
        wanted = [items[index].identity for index in new_in_delta(items, [], set())]
        conversation_id, seq = since
        with self._store.read() as reader:
            if conversation_id == 0:
                conversation = self._directory.conversation(reader, session)
                conversation_id = conversation.conversation_id if conversation else 0
            limit = len(wanted) + _OTHERS
            heads = reader.heads(conversation_id, before_seq=seq + limit, limit=limit)
        found = [head.identity for head in heads if head.seq >= seq]
        rest = iter(found)
        return bool(wanted) and all(identity in rest for identity in wanted)
