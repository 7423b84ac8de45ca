"""Conversations and the runs of their sessions."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from lcm_plugin.store.records import ArchiveCause, Conversation
from lcm_plugin.types import Session

_COLUMNS = (
    "conversation_id, session_key, session_id, active, created_at, updated_at, archived_at, archive_cause, "
    "revision, next_seq, message_count, raw_items, raw_tokens, summary_items, summary_tokens, restart_seq"
)


class Handle:
    """A connection inside a transaction: what every group of queries works on."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.db = connection

    def _all(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return self.db.execute(sql, values).fetchall()

    def _one(self, sql: str, values: Sequence[Any] = ()) -> Any:
        return self.db.execute(sql, values).fetchone()


class ConversationQueries(Handle):
    """Reads of conversations."""

    def find_conversation(self, session: Session) -> Conversation | None:
        if session.key:
            row = self._one(
                f"SELECT {_COLUMNS} FROM conversations WHERE session_key = ? AND active = 1", (session.key,)
            )
        else:
            row = self._one(
                f"SELECT {_COLUMNS} FROM conversations JOIN (SELECT conversation_id AS seen FROM session_runs "
                "WHERE session_id = ? ORDER BY last_seen_at DESC LIMIT 1) ON conversation_id = seen WHERE active = 1",
                (session.id,),
            )
        return _conversation(row) if row else None

    def conversation_of_run(self, session: Session) -> Conversation | None:
        row = self._one(
            "SELECT conversation_id FROM session_runs WHERE session_id = ? AND session_key = ?",
            (session.id, session.key),
        )
        return self.conversation(row[0]) if row and row[0] is not None else None

    def conversation(self, conversation_id: int) -> Conversation | None:
        row = self._one(f"SELECT {_COLUMNS} FROM conversations WHERE conversation_id = ?", (conversation_id,))
        return _conversation(row) if row else None

    def conversations(
        self, *, after_id: int = 0, limit: int = 100, active_only: bool = False
    ) -> list[Conversation]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM conversations WHERE conversation_id > ? AND active >= ? "
            "ORDER BY conversation_id LIMIT ?",
            (after_id, int(active_only), limit),
        )
        return [_conversation(row) for row in rows]

    def lane(self, session_key: str) -> list[Conversation]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM conversations WHERE session_key = ? ORDER BY conversation_id",
            (session_key,),
        )
        return [_conversation(row) for row in rows]

    def conversation_holding(self, session_key: str, host_id: str) -> Conversation | None:
        row = self._one(
            f"SELECT {_COLUMNS} FROM conversations c WHERE c.session_key = ? AND EXISTS (SELECT 1 FROM messages m "
            "WHERE m.conversation_id = c.conversation_id AND m.host_id = ?) ORDER BY c.conversation_id DESC LIMIT 1",
            (session_key, host_id),
        )
        return _conversation(row) if row else None

    def session_key_of(self, session_id: str) -> str | None:
        row = self._one(
            "SELECT session_key FROM session_runs WHERE session_id = ? ORDER BY last_seen_at DESC LIMIT 1",
            (session_id,),
        )
        return str(row[0]) if row else None


class ConversationChanges(ConversationQueries):
    """Changes of conversations."""

    def open_conversation(self, session: Session, now: int) -> Conversation:
        found = self.find_conversation(session)
        if found is None:
            self.db.execute(
                "INSERT INTO conversations (session_key, session_id, created_at, updated_at) VALUES (?, ?, ?, ?)",
                (session.key, session.id, now, now),
            )
            found = self.find_conversation(session)
            assert found is not None
        elif session.id and session.id != found.session_id:
            self.db.execute(
                "UPDATE conversations SET session_id = ?, updated_at = ? WHERE conversation_id = ?",
                (session.id, now, found.conversation_id),
            )
        if session.id:
            self.note_run(session, found.conversation_id, now)
        return found

    def open_archived(self, session: Session, cause: ArchiveCause, now: int) -> Conversation:
        row = self._one(
            "INSERT INTO conversations (session_key, session_id, active, created_at, updated_at, archived_at, "
            f"archive_cause) VALUES (?, ?, 0, ?, ?, ?, ?) RETURNING {_COLUMNS}",
            (session.key, session.id, now, now, now, cause),
        )
        return _conversation(row)

    def note_run(self, session: Session, conversation_id: int | None, now: int) -> None:
        """Remembers under which key a session id was seen."""
        self.db.execute(
            "INSERT INTO session_runs (session_id, session_key, conversation_id, last_seen_at) VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET conversation_id = excluded.conversation_id, last_seen_at = excluded.last_seen_at",
            (session.id, session.key, conversation_id, now),
        )

    def archive(self, conversation_id: int, cause: ArchiveCause, now: int) -> None:
        self.db.execute(
            "UPDATE conversations SET active = 0, archived_at = coalesce(archived_at, ?), "
            "archive_cause = coalesce(archive_cause, ?), revision = revision + 1, updated_at = ? "
            "WHERE conversation_id = ?",
            (now, cause, now, conversation_id),
        )


def _conversation(row: Any) -> Conversation:
    values = list(row)
    values[3] = bool(values[3])
    return Conversation(*values)
