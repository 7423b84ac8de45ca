"""The part of the store seam that keeps integrity jobs: checks that somebody asked for and a worker does.

One row per conversation. A job is taken with a lease, as compaction is, so that any number of workers share a
database and one that dies holds nothing up for long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

IntegrityMode = Literal["scan", "scan_and_plan"]
JobState = Literal["pending", "running", "done", "failed"]


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
