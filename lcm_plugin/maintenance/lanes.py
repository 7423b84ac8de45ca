"""Which conversations may be pruned: their class, how long nobody used them, and who is in reach."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lcm_plugin.sessions.globs import matches
from lcm_plugin.sessions.kinds import is_isolated
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation

DAY_MS = 86_400_000
_ONE_RUN_SEGMENTS = frozenset({"subagent", "run"})


class LaneKind(StrEnum):
    """Classes of conversations. A conversation is of the first that fits.

    ``orphan``: without a message. ``archived``: ended by a reset, a deletion or a rollover. ``cron`` and
    ``subagent``: lanes of scheduled jobs, and of sub-agents and single runs, that are still open. ``old``: any
    other open lane.
    """

    ORPHAN = "orphan"
    ARCHIVED = "archived"
    CRON = "cron"
    SUBAGENT = "subagent"
    OLD = "old"


# A person's open lane, and the fresh one that a reset leaves, are pruned only when asked for by name.
USUAL_KINDS = frozenset({LaneKind.ARCHIVED, LaneKind.CRON, LaneKind.SUBAGENT})
# How long nobody must have used an open conversation of each class, when no age is given.
IDLE_DAYS = {
    LaneKind.ORPHAN: 7,
    LaneKind.ARCHIVED: 0,
    LaneKind.CRON: 7,
    LaneKind.SUBAGENT: 7,
    LaneKind.OLD: 90,
}


@dataclass(frozen=True, slots=True)
class Selection:
    """What a person chose. ``older_than_ms`` is time since the last use; None means `IDLE_DAYS`.

    ``sessions`` is a glob over session keys; ``in_reach`` names the conversations that whoever asks may touch,
    None for all.
    """

    older_than_ms: int | None = None
    sessions: str | None = None
    kinds: frozenset[LaneKind] = USUAL_KINDS
    in_reach: frozenset[int] | None = None


def kind_of(conversation: Conversation) -> LaneKind:
    """The class of a conversation. Segments of a key are compared whole: ``subagents`` is no sub-agent."""
    if conversation.message_count == 0:
        return LaneKind.ORPHAN
    if not conversation.active:
        return LaneKind.ARCHIVED
    if is_isolated(conversation.session_key):
        return LaneKind.CRON
    if _ONE_RUN_SEGMENTS.intersection(conversation.session_key.split(":")):
        return LaneKind.SUBAGENT
    return LaneKind.OLD


def is_chosen(conversation: Conversation, selection: Selection, now: int) -> bool:
    """Whether a conversation is of a chosen class, in reach, and unused for long enough."""
    kind = kind_of(conversation)
    if kind not in selection.kinds:
        return False
    if selection.in_reach is not None and conversation.conversation_id not in selection.in_reach:
        return False
    if selection.sessions is not None and not matches(selection.sessions, conversation.session_key):
        return False
    idle = selection.older_than_ms
    return now - conversation.updated_at >= (IDLE_DAYS[kind] * DAY_MS if idle is None else idle)


def is_worked_on(reader: Reader, conversation_id: int, now: int) -> bool:
    """Whether somebody compacts a conversation at this moment."""
    debt = reader.debt(conversation_id)
    return debt is not None and debt.state == "running" and debt.lease_until >= now
