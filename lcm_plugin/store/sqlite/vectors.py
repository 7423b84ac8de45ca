"""Vectors of messages in tables of their own, made when they are first needed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from lcm_plugin.store.sqlite.conversations import Handle

_BATCH = 8_192
_TABLES = (
    "CREATE TABLE IF NOT EXISTS message_vectors (message_id INTEGER PRIMARY KEY REFERENCES messages "
    "ON DELETE CASCADE, conversation_id INTEGER NOT NULL, vectors BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS message_vectors_conversation ON message_vectors (conversation_id)",
    "CREATE TABLE IF NOT EXISTS vector_state (model TEXT PRIMARY KEY, last_id INTEGER NOT NULL) WITHOUT ROWID",
)


class VectorQueries(Handle):
    """Reading vectors."""

    def vector_model(self) -> str | None:
        state = self._vector_state()
        return state[0] if state else None

    def vectors(self, message_ids: Sequence[int]) -> dict[int, bytes]:
        if self._vector_state() is None:
            return {}
        return dict(
            self._all(
                "SELECT message_id, vectors FROM message_vectors "
                "WHERE message_id IN (SELECT value FROM json_each(?))",
                (json.dumps(list(message_ids)),),
            )
        )

    def vectors_within(self, conversation_ids: Sequence[int] | None) -> Iterator[list[tuple[int, bytes]]]:
        if self._vector_state() is None:
            return
        where, values = "", list[str]()
        if conversation_ids is not None:
            where = " WHERE conversation_id IN (SELECT value FROM json_each(?))"
            values = [json.dumps(list(conversation_ids))]
        cursor = self.db.execute(f"SELECT message_id, vectors FROM message_vectors{where}", values)
        while batch := cursor.fetchmany(_BATCH):
            yield batch

    def messages_without_vectors(self, model: str, limit: int) -> list[int]:
        state = self._vector_state()
        last = state[1] if state and state[0] == model else 0
        seen = (
            "AND NOT EXISTS (SELECT 1 FROM message_vectors v WHERE v.message_id = m.message_id) "
            if state and state[0] == model
            else ""
        )
        rows = self._all(
            f"SELECT m.message_id FROM messages m WHERE m.message_id > ? {seen}ORDER BY m.message_id LIMIT ?",
            (last, limit),
        )
        return [row[0] for row in rows]

    def _vector_state(self) -> tuple[str, int] | None:
        """The model, and up to which message all have been seen."""
        if not self._one("SELECT 1 FROM sqlite_master WHERE name = 'vector_state'"):
            return None
        row = self._one("SELECT model, last_id FROM vector_state")
        return (row[0], row[1]) if row else None


class VectorChanges(VectorQueries):
    """Writing and forgetting vectors."""

    def store_vectors(self, model: str, vectors: Mapping[int, bytes]) -> None:
        for statement in _TABLES:
            self.db.execute(statement)
        if self.vector_model() not in (None, model):
            self.db.execute("DELETE FROM message_vectors")
            self.db.execute("DELETE FROM vector_state")
        self.db.executemany(
            "INSERT OR REPLACE INTO message_vectors (message_id, conversation_id, vectors) "
            "SELECT message_id, conversation_id, ? FROM messages WHERE message_id = ?",
            [(data, message_id) for message_id, data in vectors.items()],
        )
        self.db.execute(
            "INSERT INTO vector_state (model, last_id) VALUES (?, ?) "
            "ON CONFLICT (model) DO UPDATE SET last_id = max(last_id, excluded.last_id)",
            (model, max(vectors, default=0)),
        )

    def forget_vectors(self, message_ids: Sequence[int]) -> None:
        if self._vector_state() is None or not message_ids:
            return
        self.db.execute(
            "DELETE FROM message_vectors WHERE message_id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(message_ids)),),
        )
        self.db.execute("UPDATE vector_state SET last_id = min(last_id, ?)", (min(message_ids) - 1,))
