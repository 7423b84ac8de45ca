"""The audit part of the store seam: what must hold between the rows of a healthy database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from lcm_plugin.errors import StoreError

DAY_MS = 86_400_000
LEASE_GRACE_MS = 3_600_000
STUCK_ATTEMPTS = 5
LANE_IDLE_DAYS = 90
ONE_RUN_IDLE_DAYS = 7  # lanes of sub-agents, cron jobs and single runs
AUDITS = (
    "context_dangling",
    "context_foreign",
    "context_order",
    "context_tokens",
    "counters",
    "message_count",
    "message_uncovered",
    "message_covered_twice",
    "message_unreadable",
    "message_quarantined",
    "message_incomplete",
    "message_order",
    "part_without_file",
    "summary_without_source",
    "summary_missing_source",
    "summary_link_lost",
    "summary_foreign",
    "summary_depth",
    "summary_orphan",
    "summary_sums",
    "summary_span",
    "summary_fallback",
    "summary_capped",
    "summary_oversize",
    "debt_stale",
    "debt_stuck",
    "lane_stale",
    "blob_orphan",
)


FULL_TEXT = "full-text index"


class AuditStopped(StoreError):
    """Whoever asked for the check ended it."""


@dataclass(frozen=True, slots=True)
class Breach:
    """One row that breaks a rule. ``detail`` is what was found instead, in a few words."""

    conversation_id: int | None
    ref: str
    detail: str = ""


class AuditReader(Protocol):
    """Queries of the integrity checker. Each streams, and costs at most one pass over its tables."""

    def audit(self, name: str, *, conversation_id: int | None = None, now: int = 0) -> Iterator[Breach]:
        """The breaches of one of the `AUDITS`, in a whole database or one conversation."""

    def structure_faults(self) -> list[Breach]:
        """What the database itself says is wrong with its pages, indexes and foreign keys.

        ``ref`` is the table, or `FULL_TEXT` for those of the full-text index, which can be made again.
        """

    def schema_faults(self) -> list[Breach]:
        """The indexes and views that are missing or differ from this version's schema, by name."""

    def index_faults(self, sample: int) -> Iterator[Breach]:
        """Where the full-text index differs from the tables.

        Every row is looked up by its id, and ``sample`` rows of each kind, spread evenly, by their words.
        """

    def message_identities(self, conversation_id: int) -> Iterator[tuple[int, int]]:
        """Seq and identity of a conversation's messages, in order, streamed."""

    def stale_summaries(self, conversation_id: int, refs: Sequence[str]) -> Sequence[str]:
        """Some summaries and all that were made from them, sources first."""

    def file_digests(self) -> Iterator[str]:
        """The SHA-256 of every payload that has a record, each once, sorted."""

    def interruptible(self, stop: Callable[[], bool]) -> AbstractContextManager[None]:
        """Inside it a long query asks ``stop`` from time to time and ends in `AuditStopped` when it says yes."""
