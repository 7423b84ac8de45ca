"""Conversations and the runs of their sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lcm_plugin.store.postgres.connection import Connection
from lcm_plugin.store.records import ArchiveCause, Conversation
from lcm_plugin.types import Session

_COLUMNS = (
    "conversation_id, session_key, session_id, active, created_at, updated_at, archived_at, archive_cause, "
    "revision, next_seq, message_count, raw_items, raw_tokens, summary_items, summary_tokens, restart_seq"
)


class Handle:
    """A connection inside a transaction: what every group of queries works on.

    ``lock`` ends the reads of conversation rows: a writer holds the rows it decides about until it
    commits, which gives two writers of one conversation an order.
    """

    lock = ""

    def __init__(self, connection: Connection) -> None:
        self.db = connection

    def _all(self, query: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        return self.db.execute(query.encode(), values).fetchall()

    def _one(self, query: str, values: Sequence[Any] | dict[str, Any] = ()) -> Any:
        return self.db.execute(query.encode(), values).fetchone()

    def _run(self, query: str, values: Sequence[Any] | dict[str, Any] = ()) -> int:
        return self.db.execute(query.encode(), values).rowcount

    def _take(self, conversation_id: int) -> None:
        """Locks a conversation's row, as each change of what it holds must before all else.

        Then writers of one conversation go one after another: none counts what another is changing, and no two
        wait for each other's rows.
        """
        self._one(
            "SELECT 1 FROM conversations WHERE conversation_id = %s FOR NO KEY UPDATE", (conversation_id,)
        )

    def _many(self, query: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            with self.db.cursor() as cursor:
                cursor.executemany(query.encode(), rows)


class ConversationQueries(Handle):
    """Reads of conversations."""

    def find_conversation(self, session: Session) -> Conversation | None:
        if session.key:
            row = self._one(
                f"SELECT {_COLUMNS} FROM conversations WHERE session_key = %s AND active{self.lock}",
                (session.key,),
            )
        else:
            row = self._one(
                f"SELECT {_COLUMNS} FROM conversations WHERE active AND conversation_id = (SELECT conversation_id "
                f"FROM session_runs WHERE session_id = %s ORDER BY last_seen_at DESC LIMIT 1){self.lock}",
                (session.id,),
            )
        return Conversation(*row) if row else None

    def conversation_of_run(self, session: Session) -> Conversation | None:
        row = self._one(
            "SELECT conversation_id FROM session_runs WHERE session_id = %s AND session_key = %s",
            (session.id, session.key),
        )
        return self.conversation(row[0]) if row and row[0] is not None else None

    def conversation(self, conversation_id: int) -> Conversation | None:
        row = self._one(
            f"SELECT {_COLUMNS} FROM conversations WHERE conversation_id = %s{self.lock}", (conversation_id,)
        )
        return Conversation(*row) if row else None

    def conversations(
        self, *, after_id: int = 0, limit: int = 100, active_only: bool = False
    ) -> list[Conversation]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM conversations WHERE conversation_id > %s {'AND active ' if active_only else ''}"
            "ORDER BY conversation_id LIMIT %s",
            (after_id, limit),
        )
        return [Conversation(*row) for row in rows]

    def lane(self, session_key: str) -> list[Conversation]:
        rows = self._all(
            f"SELECT {_COLUMNS} FROM conversations WHERE session_key = %s ORDER BY conversation_id",
            (session_key,),
        )
        return [Conversation(*row) for row in rows]

    def conversation_holding(self, session_key: str, host_id: str) -> Conversation | None:
        row = self._one(
            f"SELECT {_COLUMNS} FROM conversations c WHERE c.session_key = %s AND EXISTS (SELECT 1 FROM messages m "
            "WHERE m.conversation_id = c.conversation_id AND m.host_id = %s) ORDER BY c.conversation_id DESC LIMIT 1",
            (session_key, host_id),
        )
        return Conversation(*row) if row else None

    def session_key_of(self, session_id: str) -> str | None:
        row = self._one(
            "SELECT session_key FROM session_runs WHERE session_id = %s ORDER BY last_seen_at DESC LIMIT 1",
            (session_id,),
        )
        return str(row[0]) if row else None


class ConversationChanges(ConversationQueries):
    """Changes of conversations."""

    # What refers to the row may come meanwhile: handing a payload over to a conversation waits for no turn of it.
    lock = " FOR NO KEY UPDATE"

    def open_conversation(self, session: Session, now: int) -> Conversation:
        found = self.find_conversation(session)
        if found is None:
            self._run(
                "INSERT INTO conversations (session_key, session_id, created_at, updated_at) VALUES (%s, %s, %s, %s) "
                "ON CONFLICT (session_key) WHERE active DO NOTHING",
                (session.key, session.id, now, now),
            )
            found = self.find_conversation(session)
            assert found is not None
        elif session.id and session.id != found.session_id:
            self._run(
                "UPDATE conversations SET session_id = %s, updated_at = %s WHERE conversation_id = %s",
                (session.id, now, found.conversation_id),
            )
        if session.id:
            self.note_run(session, found.conversation_id, now)
        return found

    def open_archived(self, session: Session, cause: ArchiveCause, now: int) -> Conversation:
        row = self._one(
            "INSERT INTO conversations (session_key, session_id, active, created_at, updated_at, archived_at, "
            f"archive_cause) VALUES (%s, %s, false, %s, %s, %s, %s) RETURNING {_COLUMNS}",
            (session.key, session.id, now, now, now, cause),
        )
        return Conversation(*row)

    def note_run(self, session: Session, conversation_id: int | None, now: int) -> None:
        """Remembers under which key a session id was seen."""
        self._run(
            "INSERT INTO session_runs (session_id, session_key, conversation_id, last_seen_at) "
            "VALUES (%s, %s, %s, %s) ON CONFLICT (session_id, session_key) DO UPDATE SET "
            "conversation_id = excluded.conversation_id, last_seen_at = excluded.last_seen_at",
            (session.id, session.key, conversation_id, now),
        )

    def archive(self, conversation_id: int, cause: ArchiveCause, now: int) -> None:
        self._run(
            "UPDATE conversations SET active = false, archived_at = coalesce(archived_at, %s), "
            "archive_cause = coalesce(archive_cause, %s), revision = revision + 1, updated_at = %s "
            "WHERE conversation_id = %s",
            (now, cause, now, conversation_id),
        )
