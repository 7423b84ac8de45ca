"""Conversations and the runs of their sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lcm_plugin.store.dialect import Dialect
from lcm_plugin.store.records import FAMILY_CAUSES, ArchiveCause, Conversation
from lcm_plugin.store.transaction import Transaction
from lcm_plugin.types import Session

_COLUMNS = (
    "conversation_id, session_key, session_id, active, created_at, updated_at, archived_at, archive_cause, "
    "revision, next_seq, message_count, raw_items, raw_tokens, summary_items, summary_tokens, restart_seq, "
    "instructions, plan_id, coalesce(title, '') AS title, project, source, by_person"
)
# Which of them are true or false; SQLite has numbers there.
_TRUTH = (3, -1)
SELECT = f"SELECT {_COLUMNS} FROM conversations"
LAST_CHARACTER = "\U0010ffff"
_CAUSES = ", ".join(f"'{cause}'" for cause in sorted(FAMILY_CAUSES))
_ENDED_BY_RESET = f"NOT active AND coalesce(archive_cause, '') NOT IN ({_CAUSES})"
# The condition that a conversation of the key came after the key's last reset.
SINCE_RESET = (
    "session_key = :key AND conversation_id > coalesce((SELECT max(conversation_id) FROM conversations WHERE "
    f"session_key = :key AND {_ENDED_BY_RESET}), 0)"
)
# Where a conversation is from; the records among its messages are counted by the index.
NAMES_SCHEMA = """
ALTER TABLE conversations ADD COLUMN project text NOT NULL DEFAULT '';
ALTER TABLE conversations ADD COLUMN source text NOT NULL DEFAULT '';
ALTER TABLE conversations ADD COLUMN by_person boolean NOT NULL DEFAULT false;
CREATE INDEX messages_hidden ON messages (conversation_id) WHERE hidden;
"""


def resets_schema(sql: Dialect) -> str:
    """The index by which the last reset of each session key is found."""
    return (
        f"CREATE INDEX conversations_reset ON conversations (session_key{sql.pattern_order}, conversation_id) "
        f"WHERE {_ENDED_BY_RESET};\n"
    )


class ConversationTable(Transaction):
    """Reads and changes of conversations."""

    def find_conversation(self, session: Session) -> Conversation | None:
        if session.key:
            return self._conversation(f"{SELECT} WHERE session_key = :key AND active", key=session.key)
        return self._conversation(
            f"{SELECT} WHERE active AND conversation_id = (SELECT conversation_id FROM session_runs "
            "WHERE session_id = :run ORDER BY last_seen_at DESC LIMIT 1)",
            run=session.id,
        )

    def conversation_of_run(self, session: Session) -> Conversation | None:
        row = self.one(
            "SELECT conversation_id FROM session_runs WHERE session_id = :run AND session_key = :key",
            run=session.id,
            key=session.key,
        )
        return self.conversation(row[0]) if row and row[0] is not None else None

    def conversation(self, conversation_id: int) -> Conversation | None:
        return self._conversation(f"{SELECT} WHERE conversation_id = :here", here=conversation_id)

    def conversations(
        self, *, after_id: int = 0, limit: int = 100, active_only: bool = False
    ) -> list[Conversation]:
        rows = self.all(
            f"{SELECT} WHERE conversation_id > :after {'AND active ' if active_only else ''}"
            "ORDER BY conversation_id LIMIT :limit",
            after=after_id,
            limit=limit,
        )
        return [conversation_of(row) for row in rows]

    def lane(self, session_key: str, *, without: str = "") -> list[Conversation]:
        others, given = "", {}
        if without:
            first = (
                "SELECT m.host_id FROM messages m WHERE m.conversation_id = c.conversation_id ORDER BY m.seq"
            )
            others = f"AND substr(coalesce(({first} LIMIT 1), ''), 1, :length) <> :without "
            given = {"length": len(without), "without": without}
        rows = self.all(
            f"{SELECT} c WHERE c.session_key = :key {others}ORDER BY c.conversation_id",
            key=session_key,
            **given,
        )
        return [conversation_of(row) for row in rows]

    def family(self, session_key: str) -> list[Conversation]:
        rows = self.all(f"{SELECT} WHERE {SINCE_RESET} ORDER BY conversation_id DESC", key=session_key)
        return [conversation_of(row) for row in rows]

    def session_keys(self, prefix: str) -> dict[int, str]:
        found = self.all(
            f"SELECT conversation_id, session_key FROM conversations WHERE {self.sql.begins('session_key')} "
            "ORDER BY conversation_id",
            prefix=prefix,
            end=prefix + LAST_CHARACTER,
        )
        return {row[0]: row[1] for row in found}

    def last_resets(self, prefix: str) -> dict[str, int]:
        found = self.all(
            "SELECT session_key, max(conversation_id) FROM conversations "
            f"WHERE {self.sql.begins('session_key')} AND {_ENDED_BY_RESET} GROUP BY session_key",
            prefix=prefix,
            end=prefix + LAST_CHARACTER,
        )
        return {row[0]: row[1] for row in found}

    def conversation_holding(self, session_key: str, host_id: str) -> Conversation | None:
        row = self.one(
            f"{SELECT} c WHERE c.session_key = :key AND EXISTS (SELECT 1 FROM messages m "
            "WHERE m.conversation_id = c.conversation_id AND m.host_id = :host) "
            "ORDER BY c.conversation_id DESC LIMIT 1",
            key=session_key,
            host=host_id,
        )
        return conversation_of(row) if row else None

    def session_key_of(self, session_id: str) -> str | None:
        row = self.one(
            "SELECT session_key FROM session_runs WHERE session_id = :run ORDER BY last_seen_at DESC LIMIT 1",
            run=session_id,
        )
        return str(row[0]) if row else None

    def open_conversation(self, session: Session, now: int, seen: Conversation | None = None) -> Conversation:
        found = seen or self.find_conversation(session)
        if found is None:
            self.run(
                "INSERT INTO conversations (session_key, session_id, created_at, updated_at) "
                "VALUES (:key, :run, :now, :now) ON CONFLICT (session_key) WHERE active DO NOTHING",
                key=session.key,
                run=session.id,
                now=now,
            )
            found = self.find_conversation(session)
            assert found is not None
        elif session.id and session.id != found.session_id:
            self.run(
                "UPDATE conversations SET session_id = :run, updated_at = :now WHERE conversation_id = :here",
                run=session.id,
                now=now,
                here=found.conversation_id,
            )
        if session.id:
            self._record_run(session, found.conversation_id, now)
        return found

    def open_archived(self, session: Session, cause: ArchiveCause, now: int) -> Conversation:
        row = self.one(
            "INSERT INTO conversations (session_key, session_id, active, created_at, updated_at, archived_at, "
            f"archive_cause) VALUES (:key, :run, false, :now, :now, :now, :cause) RETURNING {_COLUMNS}",
            key=session.key,
            run=session.id,
            now=now,
            cause=cause,
        )
        return conversation_of(row)

    def name_conversation(self, conversation_id: int, names: Mapping[str, str | bool]) -> None:
        columns = [name for name in ("title", "project", "source", "by_person") if name in names]
        changes = ", ".join(f"{name} = :{name}" for name in columns)
        if changes:
            self.run(
                f"UPDATE conversations SET {changes} WHERE conversation_id = :here",
                here=conversation_id,
                **{name: names[name] for name in columns},
            )

    def openings(self, conversation_ids: Sequence[int]) -> dict[int, tuple[int, int | None]]:
        chosen = f"c.conversation_id {self.sql.any_of('ids')}"
        rows = self.all(
            "SELECT c.conversation_id, c.message_count - (SELECT count(*) FROM messages m WHERE "
            "m.conversation_id = c.conversation_id AND m.hidden), (SELECT m.message_id FROM messages m WHERE "
            "m.conversation_id = c.conversation_id AND m.speaks AND NOT m.hidden ORDER BY m.seq LIMIT 1) "
            f"FROM conversations c WHERE {chosen}",
            ids=self.sql.array(conversation_ids),
        )
        return {row[0]: (int(row[1]), row[2]) for row in rows}

    def set_instructions(self, conversation_id: int, seqs: Sequence[int], now: int) -> None:
        self.run(
            "UPDATE conversations SET instructions = :seqs, updated_at = :now WHERE conversation_id = :here",
            seqs=" ".join(map(str, seqs)),
            now=now,
            here=conversation_id,
        )

    def set_plan(self, conversation_id: int, message_id: int | None, now: int) -> None:
        self.run(
            "UPDATE conversations SET plan_id = :message, updated_at = :now WHERE conversation_id = :here",
            message=message_id,
            now=now,
            here=conversation_id,
        )

    def archive(self, conversation_id: int, cause: ArchiveCause, now: int) -> None:
        self.run(
            "UPDATE conversations SET active = false, archived_at = coalesce(archived_at, :now), "
            "archive_cause = coalesce(archive_cause, :cause), revision = revision + 1, updated_at = :now "
            "WHERE conversation_id = :here",
            now=now,
            cause=cause,
            here=conversation_id,
        )

    def _record_run(self, session: Session, conversation_id: int, now: int) -> None:
        """Records under which key a session id was seen."""
        self.run(
            "INSERT INTO session_runs (session_id, session_key, conversation_id, last_seen_at) "
            "VALUES (:run, :key, :here, :now) ON CONFLICT (session_id, session_key) DO UPDATE SET "
            "conversation_id = excluded.conversation_id, last_seen_at = excluded.last_seen_at",
            run=session.id,
            key=session.key,
            here=conversation_id,
            now=now,
        )

    def _conversation(self, statement: str, **values: Any) -> Conversation | None:
        """One conversation, whose row a writer holds from then on."""
        row = self.one(statement + self.lock_row, **values)
        return conversation_of(row) if row else None


def conversation_of(row: Any) -> Conversation:
    """A conversation from a row of `SELECT`."""
    values = list(row)
    for column in _TRUTH:
        values[column] = bool(values[column])
    return Conversation(*values)
