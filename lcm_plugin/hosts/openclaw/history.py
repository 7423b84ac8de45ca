"""OpenClaw's own history of a session beside what is stored: what was taken back there, or begun anew."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lcm_plugin.characters import storable
from lcm_plugin.engine import Engine
from lcm_plugin.messages.identity import host_id_of
from lcm_plugin.store.records import Conversation, StoredMessage
from lcm_plugin.types import Message, Session

_ROWS = 64
_MOST_ROWS = 65_536


def follow(engine: Engine, session: Session, history: Sequence[Message]) -> bool:
    """Takes back and restores what OpenClaw did, and says whether the session's talk is stored here.

    OpenClaw's rewind and its change to another branch give a session another history under another run id; its reset
    gives it an empty one.
    """
    with engine.store.read() as reader:
        conversation = reader.find_conversation(session)
    if conversation is None:
        return False
    listed = {name for message in history if (name := host_id_of(message))}
    rows = _rows_since_known(engine, session, listed)
    known = [place for place, row in enumerate(rows) if row.head.host_id in listed]
    if not known:
        return not _began_anew(engine, session, conversation, history)
    standing = [place for place in known if rows[place].head.withdrawn_at is None]
    newest = max(standing, default=-1)
    back = [rows[place].head.message_id for place in known if rows[place].head.withdrawn_at is not None]
    gone = [row.head.message_id for row in rows[newest + 1 :] if row.head.withdrawn_at is None]
    engine.record.withdraw(session, gone)
    engine.record.restore(session, back)
    return True


def reply_at_the_end(engine: Engine, session: Session) -> list[Message]:
    """The answers behind the newest request or result: a context ends before them, and here the prompt comes behind."""
    rows = engine.record.newest(session, _ROWS, standing=True)
    shown = [row for row in rows if not row.head.hidden]
    last = max((place for place, row in enumerate(shown) if row.head.role != "assistant"), default=-1)
    return [engine.record.whole(row) for row in shown[last + 1 :]]


def _rows_since_known(engine: Engine, session: Session, listed: Collection[str]) -> list[StoredMessage]:
    """The newest rows, back to one at least that stands and is listed."""
    limit = _ROWS
    while True:
        rows = engine.record.newest(session, limit)
        found = any(row.head.withdrawn_at is None and row.head.host_id in listed for row in rows)
        if found or not listed or len(rows) < limit or limit >= _MOST_ROWS:
            return rows
        limit *= 4


def _began_anew(
    engine: Engine, session: Session, conversation: Conversation, history: Sequence[Message]
) -> bool:
    """Archives the talk of which OpenClaw has nothing any more."""
    same_run = session.id is None or storable(session.id) == conversation.session_id
    if (history and same_run) or not conversation.message_count:
        return False
    engine.reset_session(session)
    return True
