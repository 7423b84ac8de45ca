"""The newest part of a session's record, and taking messages back.

A host may withdraw what was said: an undo, a retry, another branch. The record is append-only, so the rows
stay and can still be found; they only leave the context, and may come back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lcm_plugin.errors import InputError
from lcm_plugin.sessions.conversations import SessionDirectory
from lcm_plugin.sessions.withdrawal import Withdrawals
from lcm_plugin.store.protocol import Reader, Store, Writer, iterate_messages
from lcm_plugin.store.records import Conversation, MessageHead, StoredMessage
from lcm_plugin.types import Message, Session

_Change = Callable[[Writer, int, Sequence[MessageHead], int], object]


class Record:
    """Looks at stored messages from the newest back, and says which of them count. Thread-safe."""

    def __init__(
        self,
        store: Store,
        directory: SessionDirectory,
        rebuild: Callable[[StoredMessage], Message],
        withdrawals: Withdrawals,
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._directory = directory
        self._rebuild = rebuild
        self._withdrawals = withdrawals
        self._clock = clock

    def newest(
        self, session: Session, limit: int, *, before_seq: int | None = None, standing: bool = False
    ) -> list[StoredMessage]:
        """The newest ``limit`` messages (before a seq) of the active conversation, oldest first.

        ``standing`` leaves out those that were taken back and those that ``/new`` took out.
        """
        if limit < 1:
            raise InputError(f"a limit must be at least 1, not {limit}")
        with self._store.read() as reader:
            conversation = self._directory.conversation(reader, session)
            if conversation is None:
                return []
            heads = reader.heads(
                conversation.conversation_id, before_seq=before_seq, limit=limit, standing=standing
            )
            if standing and (since := _standing_since(reader, conversation)) > 1:
                heads = [head for head in heads if head.seq >= since]
            stored = reader.messages_by_id([head.message_id for head in heads])
        return [stored[head.message_id] for head in heads]

    def messages(self, session: Session) -> list[Message]:
        """All messages of the active conversation, in order, as they came in."""
        with self._store.read() as reader:
            conversation = self._directory.conversation(reader, session)
            rows = iterate_messages(reader, conversation.conversation_id) if conversation else ()
            return [self._rebuild(row) for row in rows]

    def whole(self, stored: StoredMessage) -> Message:
        """The message as it came in."""
        return self._rebuild(stored)

    def known_ids(self, session: Session, host_ids: Sequence[str]) -> set[str]:
        """Which of a host's own ids, written ``role:id``, the session's conversations hold."""
        with self._store.read() as reader:
            conversation = self._directory.conversation(reader, session)
            if conversation is None or not host_ids:
                return set()
            lane = {row.conversation_id for row in reader.lane(session.key)} | {conversation.conversation_id}
            return reader.known_host_ids(sorted(lane), list(host_ids))

    def stands(self, session: Session, seq: int) -> bool:
        """Whether the message at a place of the active conversation was not taken back."""
        rows = self.newest(session, 1, before_seq=seq + 1)
        return not rows or rows[0].head.seq != seq or rows[0].head.withdrawn_at is None

    def withdraw(self, session: Session, message_ids: Sequence[int]) -> None:
        """Takes messages out of the context; a summary that covers one is taken apart."""
        self._set(session, message_ids, self._withdrawals.withdraw)

    def restore(self, session: Session, message_ids: Sequence[int]) -> None:
        """Puts withdrawn messages back where they stood."""
        self._set(session, message_ids, self._withdrawals.bring_back)

    def _set(self, session: Session, message_ids: Sequence[int], change: _Change) -> None:
        conversation = self._directory.writable_conversation(session)
        if conversation is None or not message_ids:
            return
        with self._store.write() as writer:
            stored = writer.messages_by_id(message_ids)
            here = conversation.conversation_id
            heads = [row.head for row in stored.values() if row.head.conversation_id == here]
            change(writer, here, heads, self._clock())


def _standing_since(reader: Reader, conversation: Conversation) -> int:
    """The seq from which messages stand: where ``/new`` cut, unless it kept messages."""
    if conversation.restart_seq == 1:
        return 1
    oldest = reader.oldest_raw_items(conversation.conversation_id, limit=1)
    return min([conversation.restart_seq, *(item.ordinal for item in oldest)])
