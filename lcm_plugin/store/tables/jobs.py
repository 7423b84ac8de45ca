"""Integrity jobs with their leases."""

from __future__ import annotations

from lcm_plugin.store.integrity import IntegrityJob, IntegrityMode, JobState
from lcm_plugin.store.transaction import Transaction

_COLUMNS = "conversation_id, reason, requested_at, mode, state, owner, lease_until, finished_at, result"


class JobTable(Transaction):
    """Reads and changes of integrity jobs."""

    def integrity_job(self, conversation_id: int) -> IntegrityJob | None:
        row = self.one(
            f"SELECT {_COLUMNS} FROM integrity_jobs WHERE conversation_id = :here", here=conversation_id
        )
        return IntegrityJob(*row) if row else None

    def due_integrity_jobs(self, now: int, *, limit: int = 100) -> list[IntegrityJob]:
        rows = self.all(
            f"SELECT {_COLUMNS} FROM integrity_jobs WHERE state = 'pending' "
            "OR (state = 'running' AND lease_until < :now) ORDER BY requested_at, conversation_id LIMIT :limit",
            now=now,
            limit=limit,
        )
        return [IntegrityJob(*row) for row in rows]

    def held_integrity_jobs(self, *, limit: int = 100) -> list[IntegrityJob]:
        rows = self.all(
            f"SELECT {_COLUMNS} FROM integrity_jobs WHERE state = 'running' ORDER BY requested_at LIMIT :limit",
            limit=limit,
        )
        return [IntegrityJob(*row) for row in rows]

    def finished_integrity_jobs(self, *, limit: int = 100) -> list[IntegrityJob]:
        rows = self.all(
            f"SELECT {_COLUMNS} FROM integrity_jobs WHERE state IN ('done', 'failed') "
            "ORDER BY finished_at DESC, conversation_id LIMIT :limit",
            limit=limit,
        )
        return [IntegrityJob(*row) for row in rows]

    def request_integrity(self, conversation_id: int, mode: IntegrityMode, reason: str, now: int) -> None:
        self.run(
            "INSERT INTO integrity_jobs AS j (conversation_id, mode, reason, requested_at) "
            "VALUES (:here, :mode, :reason, :now) "
            "ON CONFLICT (conversation_id) DO UPDATE SET reason = excluded.reason, "
            "requested_at = CASE j.state WHEN 'pending' THEN j.requested_at ELSE excluded.requested_at END, "
            "mode = CASE WHEN j.state <> 'pending' THEN excluded.mode "
            f"ELSE {self.sql.greatest('j.mode', 'excluded.mode')} END, "
            "state = CASE j.state WHEN 'running' THEN j.state ELSE 'pending' END",
            here=conversation_id,
            mode=mode,
            reason=reason,
            now=now,
        )

    def claim_integrity(
        self, conversation_id: int, owner: str, now: int, lease_ms: int
    ) -> IntegrityJob | None:
        row = self.one(
            "UPDATE integrity_jobs SET state = 'running', owner = :owner, lease_until = :until "
            "WHERE conversation_id = (SELECT conversation_id FROM integrity_jobs WHERE conversation_id = :here "
            f"AND (state = 'pending' OR (state = 'running' AND lease_until < :now)){self.sql.skip_locked}) "
            f"RETURNING {_COLUMNS}",
            owner=owner,
            until=now + lease_ms,
            here=conversation_id,
            now=now,
        )
        return IntegrityJob(*row) if row else None

    def renew_integrity(self, conversation_id: int, owner: str, now: int, lease_ms: int) -> bool:
        changed = self.run(
            "UPDATE integrity_jobs SET lease_until = :until "
            "WHERE conversation_id = :here AND owner = :owner AND state = 'running'",
            until=now + lease_ms,
            here=conversation_id,
            owner=owner,
        )
        return changed == 1

    def release_integrity(self, conversation_id: int, owner: str) -> None:
        self.run(
            "UPDATE integrity_jobs SET state = 'pending', owner = NULL, lease_until = 0 "
            "WHERE conversation_id = :here AND owner = :owner AND state = 'running'",
            here=conversation_id,
            owner=owner,
        )

    def settle_integrity(self, job: IntegrityJob, owner: str, state: JobState, now: int, result: str) -> bool:
        changed = self.run(
            "UPDATE integrity_jobs SET state = CASE WHEN requested_at > :asked THEN 'pending' ELSE :state END, "
            "owner = NULL, lease_until = 0, finished_at = :now, result = :result "
            "WHERE conversation_id = :here AND owner = :owner",
            asked=job.requested_at,
            state=state,
            now=now,
            result=result,
            here=job.conversation_id,
            owner=owner,
        )
        return changed == 1
