"""Vectors of messages in tables of their own, made when they are first needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lcm_plugin.store.transaction import Transaction

_BATCH = 8_192


class VectorTable(Transaction):
    """Reading, writing and forgetting vectors.

    ``late_commits``: how many messages with lower ids than one that was seen may still be committed.
    """

    late_commits = 0

    def make_vector_tables(self) -> None:
        """Makes the tables unless they are there."""
        raise NotImplementedError

    def vector_model(self) -> str | None:
        state = self._vector_state()
        return state[0] if state else None

    def vectors(self, message_ids: Sequence[int]) -> dict[int, bytes]:
        if self._vector_state() is None:
            return {}
        rows = self.all(
            f"SELECT message_id, vectors FROM message_vectors WHERE message_id {self.sql.any_of('ids')}",
            ids=self.sql.array(message_ids),
        )
        return {message_id: bytes(data) for message_id, data in rows}

    def vector_count(self) -> int:
        if self._vector_state() is None:
            return 0
        row = self.one("SELECT count(*) FROM message_vectors")
        return int(row[0]) if row else 0

    def vectors_after(self, message_id: int) -> Iterator[list[tuple[int, int, bytes]]]:
        if self._vector_state() is None:
            return
        query = (
            "SELECT message_id, conversation_id, vectors FROM message_vectors WHERE message_id > :after "
            "ORDER BY message_id"
        )
        for batch in self.batches(query, _BATCH, after=message_id):
            yield [(row[0], row[1], bytes(row[2])) for row in batch]

    def messages_without_vectors(self, model: str, limit: int) -> list[int]:
        state = self._vector_state()
        known = state is not None and state[0] == model
        unseen = (
            "AND NOT EXISTS (SELECT 1 FROM message_vectors v WHERE v.conversation_id = m.conversation_id "
            "AND v.message_id = m.message_id) "
        )
        rows = self.all(
            f"SELECT m.message_id FROM messages m WHERE m.message_id > :last {unseen if known else ''}"
            "ORDER BY m.message_id LIMIT :limit",
            last=state[1] - self.late_commits if state and known else 0,
            limit=limit,
        )
        return [row[0] for row in rows]

    def store_vectors(self, model: str, vectors: Mapping[int, bytes]) -> None:
        self.make_vector_tables()
        if self.vector_model() not in (None, model):
            self.run("DELETE FROM message_vectors")
            self.run("DELETE FROM vector_state")
        self.run_many(
            "INSERT INTO message_vectors (conversation_id, message_id, vectors) "
            "SELECT conversation_id, message_id, :data FROM messages WHERE message_id = :message "
            f"ON CONFLICT ({self.sql.owner}message_id) DO UPDATE SET vectors = excluded.vectors",
            [{"data": data, "message": message_id} for message_id, data in vectors.items()],
        )
        self.run(
            "INSERT INTO vector_state (model, last_id) VALUES (:model, :last) ON CONFLICT (model) DO UPDATE SET "
            f"last_id = {self.sql.greatest('vector_state.last_id', 'excluded.last_id')}",
            model=model,
            last=max(vectors, default=0),
        )

    def forget_vectors(self, message_ids: Sequence[int]) -> None:
        if self._vector_state() is None or not message_ids:
            return
        self.run(
            f"DELETE FROM message_vectors WHERE message_id {self.sql.any_of('ids')}",
            ids=self.sql.array(message_ids),
        )
        self.run(
            f"UPDATE vector_state SET last_id = {self.sql.least('last_id', ':before')}",
            before=min(message_ids) - 1,
        )

    def _vector_state(self) -> tuple[str, int] | None:
        """The model, and up to which message all have been seen."""
        if not self.has_table("vector_state"):
            return None
        row = self.one("SELECT model, last_id FROM vector_state")
        return (row[0], row[1]) if row else None
