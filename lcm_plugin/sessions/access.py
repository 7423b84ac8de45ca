"""Which sessions are ignored or stateless.

An ignored session is neither read nor written; a stateless one is read and never written. The globs match
the session key. Hooks that know only a session id are judged by the key that this id was last seen with:
in this process, or in the database for sessions that were stored before. Without any key the id is the key.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from lcm_plugin.lru import LruCache
from lcm_plugin.sessions.globs import matches_any
from lcm_plugin.types import Session

if TYPE_CHECKING:
    from lcm_plugin.config import LcmConfig
    from lcm_plugin.store.protocol import Reader

_REMEMBERED = 4_096


class Access(StrEnum):
    """What may be done with a session."""

    FULL = "full"
    READ_ONLY = "stateless"
    NONE = "ignored"


class SessionGate:
    """Answers what a session may do, and under which key. Thread-safe."""

    def __init__(self, config: LcmConfig) -> None:
        self._ignored = tuple(config.ignore_session_patterns)
        self._stateless = tuple(config.stateless_session_patterns) if config.skip_stateless_sessions else ()
        self._keys: LruCache[str, str] = LruCache(_REMEMBERED)

    def access(self, session: Session, reader: Reader | None = None) -> Access:
        """The session's access; ``reader`` finds the key of an id seen by an earlier process."""
        return self.access_of_key(self.key_of(session, reader))

    def access_of_key(self, session_key: str) -> Access:
        """The access of a known key: what workers ask, who have conversations and no sessions."""
        if matches_any(self._ignored, session_key):
            return Access.NONE
        if matches_any(self._stateless, session_key):
            return Access.READ_ONLY
        return Access.FULL

    def key_of(self, session: Session, reader: Reader | None = None) -> str:
        """The session's key; for a bare id the key it was seen under, else the id itself."""
        if session.key:
            if session.id:
                self._keys.put(session.id, session.key)
            return session.key
        if not session.id:
            return ""
        known = self._keys.get(session.id)
        if known is None and reader is not None:
            known = reader.session_key_of(session.id)
        return known or session.id

    @property
    def needs_lookup(self) -> bool:
        """Whether a bare session id must be looked up before it may be used."""
        return bool(self._ignored or self._stateless)
