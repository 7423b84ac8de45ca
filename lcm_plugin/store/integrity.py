"""The integrity part of the store seam: what must hold between rows, how it is mended, and who is to check.

Jobs are checks that somebody asked for and a worker does, one row per conversation. A job is taken with a lease, as
compaction is, so that any number of workers share a database and one that dies holds nothing up for long.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from lcm_plugin.errors import StoreError
from lcm_plugin.store.records import Summary

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
    "message_withdrawn",
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
    "pin_without_message",
    "debt_stale",
    "debt_stuck",
    "lane_stale",
    "blob_orphan",
)


FULL_TEXT = "full-text index"

IntegrityMode = Literal["scan", "scan_and_plan"]
JobState = Literal["pending", "running", "done", "failed"]


class AuditStopped(StoreError):
    """Whoever asked for the check ended it."""


@dataclass(frozen=True, slots=True)
class Breach:
    """One row that breaks a rule. ``detail`` is what was found instead, in a few words."""

    conversation_id: int | None
    ref: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class IntegrityJob:
    """A check of one conversation. ``result`` is JSON once it is done; times are milliseconds."""

    conversation_id: int
    reason: str
    requested_at: int
    mode: IntegrityMode
    state: JobState = "pending"
    owner: str | None = None
    lease_until: int = 0
    finished_at: int = 0
    result: str = ""


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
        """Seq and identity of the messages that stand in a conversation, in order, streamed."""

    def stale_summaries(self, conversation_id: int, refs: Sequence[str]) -> Sequence[str]:
        """Some summaries and all that were made from them up to a person's text, sources first."""

    def file_digests(self) -> Iterator[str]:
        """The SHA-256 of every payload that has a record, each once, sorted."""

    def interruptible(self, stop: Callable[[], bool]) -> AbstractContextManager[None]:
        """Inside it a long query asks ``stop`` from time to time and ends in `AuditStopped` when it says yes."""


def message_ids(refs: Sequence[str]) -> list[int]:
    """The row ids of the messages among some refs."""
    return [int(ref.removeprefix("msg_")) for ref in refs if ref.startswith("msg_")]


class RepairWriter(Protocol):
    """Repairs within one write transaction. Each is a whole by itself and returns how many rows it changed.

    ``refs`` are ids as findings name them (``msg_…``, ``sum_…``). A row that no longer breaks the rule is left alone.
    """

    def drop_dangling_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        """Removes context items whose row is gone or belongs to another conversation."""

    def drop_covered_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        """Removes raw items of messages that a summary covers already."""

    def restore_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        """Puts messages that nothing reaches back into the context, where their place is free."""

    def restore_summary(self, summary: Summary, item_tokens: int) -> int:
        """Puts a summary that nothing reaches back into the context, unless another item covers its stretch."""

    def reorder_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        """Moves context items back to the place of what they point to, where that place is free."""

    def copy_item_tokens(self, conversation_id: int, refs: Sequence[str]) -> int:
        """Gives raw items the token count of their message."""

    def recount(self, conversation_id: int) -> int:
        """Counts the context and the messages of a conversation again."""

    def recount_sources(self, conversation_id: int) -> int:
        """Works out again, from the leaves up, what each summary covers: counts, tokens, seqs and times."""

    def relink(self, conversation_id: int, refs: Sequence[str]) -> int:
        """Links leaves with the uncovered messages of their stretch, where that makes their number whole."""

    def recount_depths(self, conversation_id: int) -> int:
        """Gives condensed summaries whose sources have one depth the depth above it."""

    def free_lease(self, conversation_id: int) -> int:
        """Gives back a compaction lease whose holder is gone, and lets a stuck debt be tried at once."""

    def delete_blob(self, sha256: str) -> int:
        """Deletes bytes inside the database that no file record names."""

    def restore_schema(self) -> int:
        """Makes indexes and views that are missing or differ from this version's schema."""

    def known_digests(self, digests: Sequence[str]) -> list[str]:
        """Which of some SHA-256 digests a file record names."""

    def rebuild_index(self) -> bool:
        """Throws the full-text index away and has it made from the tables, now or by `index_pending`.

        False when pages of the old one could not be freed: then `Store.give_back_space` must follow.
        """


class JobReader(Protocol):
    """Queries of integrity jobs."""

    def integrity_job(self, conversation_id: int) -> IntegrityJob | None:
        """A conversation's job, whatever its state."""

    def due_integrity_jobs(self, now: int, *, limit: int = 100) -> list[IntegrityJob]:
        """Jobs that may be done now, oldest request first: pending, or running with a dead lease."""

    def held_integrity_jobs(self, *, limit: int = 100) -> list[IntegrityJob]:
        """Jobs that somebody holds, alive or not, oldest request first."""

    def finished_integrity_jobs(self, *, limit: int = 100) -> list[IntegrityJob]:
        """Jobs that are done or failed, newest first."""


class JobWriter(Protocol):
    """Changes of integrity jobs."""

    def request_integrity(self, conversation_id: int, mode: IntegrityMode, reason: str, now: int) -> None:
        """Asks for a check. One that waits already keeps its time, and the more thorough mode."""

    def claim_integrity(
        self, conversation_id: int, owner: str, now: int, lease_ms: int
    ) -> IntegrityJob | None:
        """Takes a job that is due; None when somebody alive holds it, is just taking it, or it is done."""

    def renew_integrity(self, conversation_id: int, owner: str, now: int, lease_ms: int) -> bool:
        """Extends a held lease; False when it was lost."""

    def release_integrity(self, conversation_id: int, owner: str) -> None:
        """Lets somebody else take a job that ``owner`` holds and will not finish."""

    def settle_integrity(self, job: IntegrityJob, owner: str, state: JobState, now: int, result: str) -> bool:
        """Gives a job back with its result; it stays owed when it was asked for again meanwhile.

        False when the lease was lost.
        """


def is_json(text: str | bytes) -> bool:
    """Whether a stored text is JSON to who reads it back: NaN and infinities count, as they were handed over."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
