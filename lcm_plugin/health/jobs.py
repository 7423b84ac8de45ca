"""Integrity jobs: checks that were asked for, done by whichever worker has time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

from lcm_plugin.errors import EngineClosed, LcmError
from lcm_plugin.health.doctor import Doctor
from lcm_plugin.health.repair import plan_repairs
from lcm_plugin.store.base import Store
from lcm_plugin.store.holders import new_holder
from lcm_plugin.store.jobs_base import IntegrityJob, IntegrityMode
from lcm_plugin.types import IntegrityReport

LEASE_MS = 900_000
MOST_SECONDS = 600.0
_MOST_IDS = 100
_AT_ONCE = 16


class IntegrityJobs:
    """Asks for checks and does them. Thread-safe; any number of processes may do so together."""

    def __init__(self, store: Store, doctor: Doctor, clock: Callable[[], int]) -> None:
        self._store = store
        self._doctor = doctor
        self._clock = clock

    def request(self, conversation_id: int, reason: str, mode: IntegrityMode = "scan") -> None:
        """Has a conversation checked by the next worker; ``scan_and_plan`` also says what would mend it."""
        with self._store.write() as writer:
            writer.request_integrity(conversation_id, mode, reason, self._clock())

    def finished(self) -> list[IntegrityJob]:
        """Jobs that are done, newest first, each with its result."""
        with self._store.read() as reader:
            return reader.finished_integrity_jobs()

    def work_off(self, stop: Callable[[], bool]) -> int:
        """Does the jobs that are due and returns how many were done."""
        with self._store.read() as reader:
            due = reader.due_integrity_jobs(self._clock(), limit=_AT_ONCE)
        return sum(self._do(job.conversation_id) for job in due if not stop())

    def _do(self, conversation_id: int) -> bool:
        owner = new_holder()
        with self._store.write() as writer:
            job = writer.claim_integrity(conversation_id, owner, self._clock(), LEASE_MS)
        if job is None:
            return False
        try:
            with self._store.read() as reader:
                conversation = reader.conversation(conversation_id)
            report = self._doctor.check(() if conversation is None else (conversation,), seconds=MOST_SECONDS)
            state, result = "done", _result(job, report)
        except EngineClosed:
            raise
        except LcmError as error:
            state, result = "failed", json.dumps({"error": str(error)})
        with self._store.write() as writer:
            return writer.settle_integrity(
                job, owner, "done" if state == "done" else "failed", self._clock(), result
            )


def _result(job: IntegrityJob, report: IntegrityReport) -> str:
    """What a job found, as JSON: counts by class, and the plan when one was asked for."""
    told: dict[str, object] = {
        "complete": report.complete,
        "ok": report.ok,
        "findings": dict(Counter(finding.code for finding in report.findings)),
    }
    if job.mode == "scan_and_plan":
        plan = plan_repairs(report)
        told["plan"] = [
            {
                "code": step.code,
                "description": step.description,
                "ids": list(step.ids[:_MOST_IDS]),
                "more": max(0, len(step.ids) - _MOST_IDS),
                "destructive": step.destructive,
            }
            for step in plan.steps
        ]
        told["refused"] = dict(Counter(finding.code for finding in plan.refused))
    return json.dumps(told, ensure_ascii=False)
