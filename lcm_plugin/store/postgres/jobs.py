"""Integrity jobs with their leases."""

from __future__ import annotations

from lcm_plugin.store.jobs_base import IntegrityJob, IntegrityMode, JobState
from lcm_plugin.store.postgres.conversations import Handle

_COLUMNS = "conversation_id, reason, requested_at, mode, state, owner, lease_until, finished_at, result"


class JobQueries(Handle):
    """Reads of integrity jobs."""

    def integrity_job(self, conversation_id: int) -> IntegrityJob | None:
        row = self._one(
            f"SELECT {_COLUMNS} FROM integrity_jobs WHERE conversation_id = %s", (conversation_id,)
        )
        return IntegrityJob(*row) if row else None

    def due_integrity_jobs(self, now: int, *, limit: int = 100) -> list[IntegrityJob]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM integrity_jobs WHERE state = 'pending' OR (state = 'running' AND lease_until < %s) "
            "ORDER BY requested_at, conversation_id LIMIT %s",
            (now, limit),
        )
        return [IntegrityJob(*row) for row in rows]

    def held_integrity_jobs(self, *, limit: int = 100) -> list[IntegrityJob]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM integrity_jobs WHERE state = 'running' ORDER BY requested_at LIMIT %s",
            (limit,),
        )
        return [IntegrityJob(*row) for row in rows]

    def finished_integrity_jobs(self, *, limit: int = 100) -> list[IntegrityJob]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM integrity_jobs WHERE state IN ('done', 'failed') "
            "ORDER BY finished_at DESC, conversation_id LIMIT %s",
            (limit,),
        )
        return [IntegrityJob(*row) for row in rows]


class JobChanges(JobQueries):
    """Changes of integrity jobs."""

    def request_integrity(self, conversation_id: int, mode: IntegrityMode, reason: str, now: int) -> None:
        self._run(
            "INSERT INTO integrity_jobs AS j (conversation_id, mode, reason, requested_at) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (conversation_id) DO UPDATE SET reason = excluded.reason, "
            "requested_at = CASE j.state WHEN 'pending' THEN j.requested_at ELSE excluded.requested_at END, "
            "mode = CASE WHEN j.state <> 'pending' THEN excluded.mode ELSE greatest(j.mode, excluded.mode) END, "
            "state = CASE j.state WHEN 'running' THEN j.state ELSE 'pending' END",
            (conversation_id, mode, reason, now),
        )

    def claim_integrity(
        self, conversation_id: int, owner: str, now: int, lease_ms: int
    ) -> IntegrityJob | None:
        row = self._one(
            "UPDATE integrity_jobs SET state = 'running', owner = %s, lease_until = %s "
            "WHERE conversation_id = (SELECT conversation_id FROM integrity_jobs WHERE conversation_id = %s "
            "AND (state = 'pending' OR (state = 'running' AND lease_until < %s)) FOR UPDATE SKIP LOCKED) "
            f"RETURNING {_COLUMNS}",
            (owner, now + lease_ms, conversation_id, now),
        )
        return IntegrityJob(*row) if row else None

    def renew_integrity(self, conversation_id: int, owner: str, now: int, lease_ms: int) -> bool:
        changed = self._run(
            "UPDATE integrity_jobs SET lease_until = %s WHERE conversation_id = %s AND owner = %s AND state = 'running'",
            (now + lease_ms, conversation_id, owner),
        )
        return changed == 1

    def release_integrity(self, conversation_id: int, owner: str) -> None:
        self._run(
            "UPDATE integrity_jobs SET state = 'pending', owner = NULL, lease_until = 0 "
            "WHERE conversation_id = %s AND owner = %s AND state = 'running'",
            (conversation_id, owner),
        )

    def settle_integrity(self, job: IntegrityJob, owner: str, state: JobState, now: int, result: str) -> bool:
        changed = self._run(
            "UPDATE integrity_jobs SET state = CASE WHEN requested_at > %s THEN 'pending' ELSE %s END, owner = NULL, "
            "lease_until = 0, finished_at = %s, result = %s WHERE conversation_id = %s AND owner = %s",
            (job.requested_at, state, now, result, job.conversation_id, owner),
        )
        return changed == 1
