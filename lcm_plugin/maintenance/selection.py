"""Selects the conversations that may be pruned: by class, by time since the last use, and by reach."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from lcm_plugin.errors import InputError
from lcm_plugin.sessions.globs import matches
from lcm_plugin.store.integrity import DAY_MS
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation
from lcm_plugin.store.session_keys import is_cron, is_single_run

_AGE = re.compile(r"(\d{1,6})\s*(m|h|d|w|y)", re.ASCII)
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,3})?)\s*(B|KB|MB|GB|TB)?", re.ASCII)
_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000, "y": 365 * 86_400_000}
_BYTES = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


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
# Days without use after which an open conversation of each class may go, when no age is given.
IDLE_DAYS = {
    LaneKind.ORPHAN: 7,
    LaneKind.ARCHIVED: 0,
    LaneKind.CRON: 7,
    LaneKind.SUBAGENT: 7,
    LaneKind.OLD: 90,
}


@dataclass(frozen=True, slots=True)
class Selection:
    """A person's choice. ``older_than_ms`` is time since the last use; None means `IDLE_DAYS`.

    ``sessions`` is a glob over session keys; ``in_reach`` are the conversations that the caller may touch, None for
    all.
    """

    older_than_ms: int | None = None
    sessions: str | None = None
    kinds: frozenset[LaneKind] = USUAL_KINDS
    in_reach: frozenset[int] | None = None


def kind_of(conversation: Conversation) -> LaneKind:
    """The class of a conversation."""
    if conversation.message_count == 0:
        return LaneKind.ORPHAN
    if not conversation.active:
        return LaneKind.ARCHIVED
    if is_cron(conversation.session_key):
        return LaneKind.CRON
    if is_single_run(conversation.session_key):
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
    """Whether a conversation is being compacted."""
    debt = reader.debt(conversation_id)
    return debt is not None and debt.state == "running" and debt.lease_until >= now


def parse_age(text: str) -> int:
    """The milliseconds of an age such as ``90d`` or ``12h``. Raises `InputError` naming what may be written."""
    match = _AGE.fullmatch(text.strip().lower())
    if match is None:
        raise InputError(
            f"{text!r} is no age: write a whole number and m, h, d, w or y (minutes to years), as in 90d"
        )
    return int(match[1]) * _MS[match[2]]


def parse_size(text: str) -> int:
    """The bytes of a size such as ``2GB`` or ``500 MB``, in units of 1024. Raises `InputError` likewise."""
    match = _SIZE.fullmatch(text.strip().upper())
    if match is None:
        raise InputError(f"{text!r} is no size: write a number and B, KB, MB, GB or TB, as in 2GB")
    return int(float(match[1]) * _BYTES[match[2] or ""])
