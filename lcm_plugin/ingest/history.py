"""The end of a conversation, and where a ``/new`` or ``/reset`` cut it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lcm_plugin.ingest.matching import Incoming
from lcm_plugin.messages.blocks import is_instruction
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation, MessageHead
from lcm_plugin.store.session_keys import is_cron
from lcm_plugin.types import Session

_MOST_ENDED = 8


@dataclass(frozen=True, slots=True)
class Past:
    """What is ``stored`` last in the conversation and stands, split where the user began anew.

    ``before`` is what was said until then, in the lane's ``ended`` conversations if need be; ``since``
    comes after. ``lane`` are the conversations in which the host's own ids stay known.
    """

    conversation: Conversation | None
    lane: tuple[int, ...]
    stored: Sequence[MessageHead]
    before: Sequence[MessageHead]
    since: Sequence[MessageHead]
    ended: Sequence[MessageHead]
    whole: bool

    @property
    def first_talk(self) -> int | None:
        """The seq of the first message that stands since the user began anew; None when it lies further back."""
        if not self.whole and len(self.since) == len(self.stored):
            return None
        return next((head.seq for head in self.since if not is_instruction(head.role)), None)

    def first_after(self, root: int) -> int | None:
        """The seq of the first talk that stands behind a row; None when it lies further back."""
        if not self.whole and not (self.since and self.since[0].seq <= root + 1):
            return None
        return next(
            (head.seq for head in self.since if head.seq > root and not is_instruction(head.role)), None
        )

    def has_prompt(self, item: Incoming) -> bool:
        """Whether an item is the system message that a ``/new`` left in place."""
        if item.role != "system" or len(self.since) == len(self.stored):
            return False
        prompts = [head.identity for head in self.stored if head.role == "system"]
        return bool(prompts) and prompts[-1] == item.identity


def past_from(reader: Reader, session: Session, conversation: Conversation, seq: int) -> Past:
    """What stands from a row on, of a list whose messages before it are known."""
    rows = reader.heads_after(conversation.conversation_id, seq - 1)
    stored = [head for head in rows if head.withdrawn_at is None]
    members = {row.conversation_id for row in _lane(reader, session)} | {conversation.conversation_id}
    return Past(conversation, tuple(sorted(members)), stored, [], stored, [], whole=False)


def past_of(reader: Reader, session: Session, conversation: Conversation | None, window: int) -> Past:
    """The newest ``window`` messages that a session's new ones may repeat."""
    lane = _lane(reader, session)
    stored = reader.heads(conversation.conversation_id, limit=window, standing=True) if conversation else []
    restart = conversation.restart_seq if conversation else 1
    ended = _ended(reader, lane, window) if len(stored) < window else []
    before = [*ended, *(head for head in stored if head.seq < restart)]
    members = {row.conversation_id for row in lane} | (
        {conversation.conversation_id} if conversation else set()
    )
    since = [head for head in stored if head.seq >= restart]
    whole = len(stored) < window
    return Past(conversation, tuple(sorted(members)), stored, before, since, ended, whole)


def _lane(reader: Reader, session: Session) -> list[Conversation]:
    """The conversations of a session's key. A cron lane's runs have nothing to do with each other."""
    return reader.lane(session.key) if session.key and not is_cron(session.key) else []


def _ended(reader: Reader, lane: Sequence[Conversation], window: int) -> list[MessageHead]:
    """The end of what the lane's archived conversations hold, as one row of messages."""
    heads: list[MessageHead] = []
    for row in [row for row in reversed(lane) if not row.active][:_MOST_ENDED]:
        heads = [*reader.heads(row.conversation_id, limit=window - len(heads), standing=True), *heads]
        if len(heads) >= window:
            break
    return heads
