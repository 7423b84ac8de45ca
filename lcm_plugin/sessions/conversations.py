"""From what a host calls a session to its key, its access and its conversation."""

from __future__ import annotations

from lcm_plugin.lru import LruCache
from lcm_plugin.sessions.access import Access, SessionGate
from lcm_plugin.sessions.kinds import find_conversation
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import Conversation
from lcm_plugin.store.session_keys import is_cron
from lcm_plugin.store.transaction import read_ahead
from lcm_plugin.types import Session

_REMEMBERED = 4_096


class SessionDirectory:
    """Looks sessions up. A bare session id stands for the key it was seen under."""

    def __init__(self, store: Store, gate: SessionGate) -> None:
        self._store = store
        self._gate = gate
        self._numbers: LruCache[str, int] = LruCache(_REMEMBERED)

    def access(self, session: Session, reader: Reader | None = None) -> Access:
        """Whether a session may be read and written, only read, or neither."""
        if reader is not None or session.key or not self._gate.needs_lookup:
            return self._gate.access(session, reader)
        with self._store.read() as opened:
            return self._gate.access(session, opened)

    def keyed(self, session: Session) -> Session:
        """The session with a key: for a bare id the key it was seen under, else the id."""
        if session.key:
            return session
        with self._store.read() as reader:
            return Session(self._gate.key_of(session, reader), session.id)

    def access_of_key(self, session_key: str) -> Access:
        """The access of a known key."""
        return self._gate.access_of_key(session_key)

    def key_of(self, session: Session, reader: Reader) -> str:
        """The session's key, or the one that its id was seen under, else the id."""
        return self._gate.key_of(session, reader)

    def lineage(self, reader: Reader, session: Session) -> list[Conversation]:
        """All conversations under the session's key, archived ones included."""
        return list(reader.lane(self._gate.key_of(session, reader)))

    def conversation(self, reader: Reader, session: Session) -> Conversation | None:
        """The session's active conversation; None for an unbound or ignored session."""
        if not session.name:
            return None
        if self._gate.access(session, reader) is Access.NONE:
            return None
        keyed = Session(self._gate.key_of(session, reader), session.id)
        found = find_conversation(reader, keyed)
        if found is not None and keyed.key:
            self._numbers.put(keyed.key, found.conversation_id)
        return found

    def ask_ahead(self, reader: Reader, session: Session) -> None:
        """Says that the session's conversation is read next, with what stands before its talk and what is due."""
        number = self._numbers.get(session.key) if session.key and not is_cron(session.key) else None
        if number is None or self._gate.access(session) is Access.NONE:
            return
        read_ahead(
            reader,
            lambda: reader.find_conversation(session),
            lambda: reader.instructions(number),
            lambda: reader.pins(session.key or ""),
            lambda: reader.debt(number),
        )

    def writable_conversation(self, session: Session) -> Conversation | None:
        """The active conversation of a session that may be written to."""
        with self._store.read() as reader:
            return self.writable(reader, session)

    def writable(self, reader: Reader, session: Session) -> Conversation | None:
        """The active conversation of a session that may be written to, as a transaction sees it."""
        if self._gate.access(session, reader) is not Access.FULL:
            return None
        return self.conversation(reader, session)
