"""Vectors of messages in tables of their own, made when they are first needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lcm_plugin.store.postgres.conversations import Handle

_BATCH = 8_192
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('lcm vectors'), hashtext(current_schema()))"
# A message may be committed after one with a higher id.
_LATE_COMMITS = 1_000
_TABLES = (
    "CREATE TABLE IF NOT EXISTS message_vectors (conversation_id bigint NOT NULL, message_id bigint NOT NULL, "
    "vectors bytea NOT NULL, PRIMARY KEY (conversation_id, message_id), "
    "FOREIGN KEY (conversation_id, message_id) REFERENCES messages ON DELETE CASCADE)",
    "CREATE INDEX IF NOT EXISTS message_vectors_message ON message_vectors (message_id)",
    "CREATE TABLE IF NOT EXISTS vector_state (model text PRIMARY KEY, last_id bigint NOT NULL)",
)


class VectorQueries(Handle):
    """Reading vectors."""

    def vector_model(self) -> str | None:
        state = self._vector_state()
        return state[0] if state else None

    def vectors(self, message_ids: Sequence[int]) -> dict[int, bytes]:
        if self._vector_state() is None:
            return {}
        rows = self._all(
            "SELECT message_id, vectors FROM message_vectors WHERE message_id = ANY(%s)", (list(message_ids),)
        )
        return {message_id: bytes(data) for message_id, data in rows}

    def vectors_within(self, conversation_ids: Sequence[int] | None) -> Iterator[list[tuple[int, bytes]]]:
        if self._vector_state() is None:
            return
        wanted = None if conversation_ids is None else list(conversation_ids)
        with self.db.cursor(name="lcm_vectors", binary=True) as cursor:
            cursor.itersize = _BATCH
            cursor.execute(
                "SELECT message_id, vectors FROM message_vectors "
                "WHERE %(wanted)s::bigint[] IS NULL OR conversation_id = ANY(%(wanted)s)",
                {"wanted": wanted},
            )
            while batch := cursor.fetchmany(_BATCH):
                yield [(message_id, bytes(data)) for message_id, data in batch]

    def messages_without_vectors(self, model: str, limit: int) -> list[int]:
        state = self._vector_state()
        last = state[1] - _LATE_COMMITS if state and state[0] == model else 0
        seen = (
            "AND NOT EXISTS (SELECT 1 FROM message_vectors v WHERE v.conversation_id = m.conversation_id "
            "AND v.message_id = m.message_id) "
            if state and state[0] == model
            else ""
        )
        rows = self._all(
            f"SELECT m.message_id FROM messages m WHERE m.message_id > %s {seen}ORDER BY m.message_id LIMIT %s",
            (last, limit),
        )
        return [row[0] for row in rows]

    def _vector_state(self) -> tuple[str, int] | None:
        """The model, and up to which message all have been seen."""
        if self._one("SELECT to_regclass('vector_state')")[0] is None:
            return None
        row = self._one("SELECT model, last_id FROM vector_state")
        return (row[0], row[1]) if row else None


class VectorChanges(VectorQueries):
    """Writing and forgetting vectors."""

    def store_vectors(self, model: str, vectors: Mapping[int, bytes]) -> None:
        # Two processes may both be the first; `IF NOT EXISTS` alone does not keep them apart.
        self._one(_LOCK)
        if self._one("SELECT to_regclass('vector_state')")[0] is None:
            for statement in _TABLES:
                self._run(statement)
        if self.vector_model() not in (None, model):
            self._run("DELETE FROM message_vectors")
            self._run("DELETE FROM vector_state")
        self._many(
            "INSERT INTO message_vectors (conversation_id, message_id, vectors) "
            "SELECT conversation_id, message_id, %s FROM messages WHERE message_id = %s "
            "ON CONFLICT (conversation_id, message_id) DO UPDATE SET vectors = excluded.vectors",
            [(data, message_id) for message_id, data in vectors.items()],
        )
        self._run(
            "INSERT INTO vector_state (model, last_id) VALUES (%s, %s) "
            "ON CONFLICT (model) DO UPDATE SET last_id = greatest(vector_state.last_id, excluded.last_id)",
            (model, max(vectors, default=0)),
        )

    def forget_vectors(self, message_ids: Sequence[int]) -> None:
        if self._vector_state() is None or not message_ids:
            return
        self._run("DELETE FROM message_vectors WHERE message_id = ANY(%s)", (list(message_ids),))
        self._run("UPDATE vector_state SET last_id = least(last_id, %s)", (min(message_ids) - 1,))
