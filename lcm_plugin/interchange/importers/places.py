"""Where an imported lane lies in the store, and where a new one goes."""

from __future__ import annotations

from lcm_plugin.interchange.importers.records import Lane
from lcm_plugin.store.protocol import Reader, Writer
from lcm_plugin.store.records import ArchiveCause, Conversation
from lcm_plugin.types import Session

EARLIER: ArchiveCause = "rollover"
BRANCH: ArchiveCause = "session-end"


def find_imported(reader: Reader, key: str, head_id: str) -> Conversation | None:
    """The conversation that an earlier run made for a lane: the one that holds its head."""
    return reader.conversation_holding(key, head_id)


def open_for(writer: Writer, lane: Lane, key: str, at: int) -> tuple[Conversation, str]:
    """A new conversation for a lane, and a remark when it could not become the active one."""
    session = Session(key, lane.name)
    if lane.branch:
        return writer.open_archived(session, BRANCH, at), ""
    if not lane.live:
        return writer.open_archived(session, EARLIER, at), ""
    if writer.find_conversation(Session(key)) is None:
        return writer.open_conversation(session, at), ""
    remark = f"{key} has an active conversation of its own: kept as an earlier one of the same key"
    return writer.open_archived(session, EARLIER, at), remark
