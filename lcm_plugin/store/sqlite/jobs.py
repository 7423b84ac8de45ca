"""Integrity jobs with their leases."""

from __future__ import annotations

from lcm_plugin.store.jobs_base import IntegrityJob, IntegrityMode, JobState
from lcm_plugin.store.sqlite.conversations import Handle

_COLUMNS = "conversation_id, reason, requested_at, mode, state, owner, lease_until, finished_at, result"


class JobChanges(Handle):
    """Reads and changes of integrity jobs."""

    def integrity_job(self, conversation_id: int) -> IntegrityJob | None:
        row = self._one(
            f"SELECT {_COLUMNS} FROM integrity_jobs WHERE conversation_id = ?", (conversation_id,)
        )
        return IntegrityJob(*row) if row else None

    def due_integrity_jobs(self, now: int, *, limit: int = 100) -> list[IntegrityJob]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM integrity_jobs WHERE state = 'pending' OR (state = 'running' AND lease_until < ?) "
            "ORDER BY requested_at, conversation_id LIMIT ?",
            (now, limit),
        )
        return [IntegrityJob(*row) for row in rows]

    def held_integrity_jobs(self, *, limit: int = 100) -> list[IntegrityJob]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM integrity_jobs WHERE state = 'running' ORDER BY requested_at LIMIT ?",
            (limit,),
        )
        return [IntegrityJob(*row) for row in rows]

    def finished_integrity_jobs(self, *, limit: int = 100) -> list[IntegrityJob]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM integrity_jobs WHERE state IN ('done', 'failed') "
            "ORDER BY finished_at DESC, conversation_id LIMIT ?",
            (limit,),
        )
        return [IntegrityJob(*row) for row in rows]

    def request_integrity(self, conversation_id: int, mode: IntegrityMode, reason: str, now: int) -> None:
        self.db.execute(
            "INSERT INTO integrity_jobs (conversation_id, mode, reason, requested_at) VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET reason = excluded.reason, "
            "requested_at = CASE state WHEN 'pending' THEN requested_at ELSE excluded.requested_at END, "
            "mode = CASE WHEN state <> 'pending' THEN excluded.mode ELSE max(mode, excluded.mode) END, "
            "state = CASE state WHEN 'running' THEN state ELSE 'pending' END",
            (conversation_id, mode, reason, now),
        )

    def claim_integrity(
        self, conversation_id: int, owner: str, now: int, lease_ms: int
    ) -> IntegrityJob | None:
        row = self._one(
            "UPDATE integrity_jobs SET state = 'running', owner = ?, lease_until = ? WHERE conversation_id = ? "
            f"AND (state = 'pending' OR (state = 'running' AND lease_until < ?)) RETURNING {_COLUMNS}",
            (owner, now + lease_ms, conversation_id, now),
        )
        return IntegrityJob(*row) if row else None

    def renew_integrity(self, conversation_id: int, owner: str, now: int, lease_ms: int) -> bool:
        changed = self.db.execute(
            "UPDATE integrity_jobs SET lease_until = ? WHERE conversation_id = ? AND owner = ? AND state = 'running'",
            (now + lease_ms, conversation_id, owner),
        )
        return changed.rowcount == 1

    def release_integrity(self, conversation_id: int, owner: str) -> None:
        self.db.execute(
            "UPDATE integrity_jobs SET state = 'pending', owner = NULL, lease_until = 0 "
            "WHERE conversation_id = ? AND owner = ? AND state = 'running'",
            (conversation_id, owner),
        )

    def settle_integrity(self, job: IntegrityJob, owner: str, state: JobState, now: int, result: str) -> bool:
        changed = self.db.execute(
            "UPDATE integrity_jobs SET state = CASE WHEN requested_at > ? THEN 'pending' ELSE ? END, owner = NULL, "
            "lease_until = 0, finished_at = ?, result = ? WHERE conversation_id = ? AND owner = ?",
            (job.requested_at, state, now, result, job.conversation_id, owner),
        )
        return changed.rowcount == 1
