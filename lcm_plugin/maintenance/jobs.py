"""Integrity jobs: requested checks, done by any worker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lcm_plugin.errors import EngineClosed, LcmError, ServerAway, StoreBusy
from lcm_plugin.events import EventBus
from lcm_plugin.maintenance.doctor import Doctor
from lcm_plugin.maintenance.repair import plan_repairs
from lcm_plugin.store.integrity import IntegrityJob, IntegrityMode, JobState
from lcm_plugin.store.leases import Lease, is_dead
from lcm_plugin.store.protocol import Store, Writer
from lcm_plugin.store.retry import retry_lost
from lcm_plugin.types import IntegrityReport

LEASE_MS = 60_000
MOST_SECONDS = 600.0
_MOST_IDS = 100
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class _JobClaims:
    conversation_id: int

    def claim(self, writer: Writer, owner: str, now: int, lease_ms: int) -> IntegrityJob | None:
        return writer.claim_integrity(self.conversation_id, owner, now, lease_ms)

    def holder(self, writer: Writer) -> str | None:
        job = writer.integrity_job(self.conversation_id)
        return job.owner if job and job.state == "running" else None

    def take_away(self, writer: Writer, holder: str, now: int) -> None:
        writer.release_integrity(self.conversation_id, holder)

    def renew(self, writer: Writer, owner: str, now: int, lease_ms: int) -> bool:
        return writer.renew_integrity(self.conversation_id, owner, now, lease_ms)


class IntegrityJobs:
    """Asks for checks and does them. Thread-safe; any number of processes may do so together."""

    def __init__(self, store: Store, doctor: Doctor, events: EventBus, clock: Callable[[], int]) -> None:
        self._store = store
        self._doctor = doctor
        self._events = events
        self._clock = clock

    def request(self, conversation_id: int, reason: str, mode: IntegrityMode = "scan") -> None:
        """Has a conversation checked by the next worker; ``scan_and_plan`` adds a plan of repairs."""
        with self._store.write() as writer:
            writer.request_integrity(conversation_id, mode, reason, self._clock())

    def finished(self) -> list[IntegrityJob]:
        """Jobs that are done, newest first, each with its result."""
        with self._store.read() as reader:
            return reader.finished_integrity_jobs()

    def overview(self, conversation_id: int | None = None) -> list[IntegrityJob]:
        """The newest jobs in any state, of one conversation or of all."""
        with self._store.read() as reader:
            if conversation_id is not None:
                job = reader.integrity_job(conversation_id)
                return [] if job is None else [job]
            running = reader.held_integrity_jobs()
            held = {job.conversation_id for job in running}
            due = [job for job in reader.due_integrity_jobs(self._clock()) if job.conversation_id not in held]
            return [*due, *running, *reader.finished_integrity_jobs()]

    def is_due(self) -> bool:
        """Whether a job waits to be done."""
        with self._store.read() as reader:
            return bool(reader.due_integrity_jobs(self._clock(), limit=1))

    def work_off(
        self, stop: Callable[[], bool], *, most: int = _AT_ONCE, seconds: float = MOST_SECONDS
    ) -> int:
        """Does the jobs that are due, until ``stop`` says so, and returns how many were done.

        Each ends after ``seconds`` with what it has found. One that ``stop`` ends is done again later.
        """
        with self._store.read() as reader:
            due = reader.due_integrity_jobs(self._clock(), limit=most)
            due += [job for job in reader.held_integrity_jobs(limit=most) if is_dead(job.owner)]
        return sum(self._do(job.conversation_id, stop, seconds) for job in due[:most] if not stop())

    def _do(self, conversation_id: int, stop: Callable[[], bool], seconds: float) -> bool:
        lease = Lease.take(self._store, _JobClaims(conversation_id), self._clock, LEASE_MS)
        if lease is None:
            return False
        job, owner = lease.row, lease.owner
        with lease:
            state, result = self._checked(job, stop, seconds)
            if stop():
                return self._give_back(conversation_id, owner)
        settled = retry_lost(lambda: self._settle(job, owner, state, result), idempotent=True)
        if settled:
            self._events.emit(
                "integrity.job_done",
                conversation_id=conversation_id,
                mode=job.mode,
                reason=job.reason,
                state=state,
                findings=sum(result.get("findings", {}).values()),
                detail=result.get("error", ""),
            )
        return settled

    def _give_back(self, conversation_id: int, owner: str) -> bool:
        with self._store.write() as writer:
            writer.release_integrity(conversation_id, owner)
        return False

    def _checked(
        self, job: IntegrityJob, stop: Callable[[], bool], seconds: float
    ) -> tuple[JobState, dict[str, Any]]:
        """The job's state and result. A database that is away or busy leaves it to be done later."""
        try:
            with self._store.read() as reader:
                conversation = reader.conversation(job.conversation_id)
            report = self._doctor.check(
                () if conversation is None else (conversation,), seconds=seconds, stop=stop
            )
        except (EngineClosed, ServerAway, StoreBusy):
            raise
        except LcmError as error:
            return "failed", {"error": str(error)}
        return "done", _result(job, report)

    def _settle(self, job: IntegrityJob, owner: str, state: JobState, result: dict[str, Any]) -> bool:
        """False when another worker has taken the job over."""
        text = json.dumps(result, ensure_ascii=False)
        with self._store.write() as writer:
            return writer.settle_integrity(job, owner, state, self._clock(), text)


def _result(job: IntegrityJob, report: IntegrityReport) -> dict[str, Any]:
    """The result of a job: counts by class, and the plan when one was requested."""
    result: dict[str, Any] = {
        "complete": report.complete,
        "ok": report.ok,
        "findings": dict(Counter(finding.code for finding in report.findings)),
    }
    if job.mode == "scan_and_plan":
        plan = plan_repairs(report)
        result["plan"] = [
            {
                "code": step.code,
                "description": step.description,
                "ids": list(step.ids[:_MOST_IDS]),
                "more": max(0, len(step.ids) - _MOST_IDS),
                "destructive": step.destructive,
            }
            for step in plan.steps
        ]
        result["refused"] = dict(Counter(finding.code for finding in plan.refused))
    return result
