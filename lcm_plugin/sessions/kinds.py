"""Which conversation a session talks in.

A session key has one active conversation, whatever run comes. Cron lanes (``agent:<id>:cron:…``) are the
exception: each run id is a conversation of its own. A new run archives the one before (cause
``cron-rotation``); what an earlier run still has to say goes to its own conversation.
"""

from __future__ import annotations

from lcm_plugin.store.protocol import Reader, Writer
from lcm_plugin.store.records import ArchiveCause, Conversation
from lcm_plugin.store.session_keys import is_cron
from lcm_plugin.types import Session

ROTATION: ArchiveCause = "cron-rotation"


def find_conversation(reader: Reader, session: Session) -> Conversation | None:
    """The session's conversation; None when it has none yet."""
    if not _by_run(session):
        return reader.find_conversation(session)
    found = reader.conversation_of_run(session)
    if found is not None:
        return found if found.active or found.archive_cause == ROTATION else None
    current = reader.find_conversation(session)
    return current if current is not None and current.session_id is None else None


def open_conversation(
    writer: Writer, session: Session, now: int, known: Conversation | None = None
) -> Conversation:
    """The session's conversation, made when there is none; a cron lane's other run is archived then.

    ``known`` is what `find_conversation` gave in the same transaction.
    """
    if not _by_run(session):
        return writer.open_conversation(session, now, known)
    found = find_conversation(writer, session)
    if found is not None and not found.active:
        return found
    if found is None and (current := writer.find_conversation(session)) is not None:
        writer.archive(current.conversation_id, ROTATION, now)
    return writer.open_conversation(session, now)


def _by_run(session: Session) -> bool:
    return bool(session.id) and is_cron(session.key)
