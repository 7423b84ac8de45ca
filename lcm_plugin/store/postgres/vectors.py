"""The tables of vectors, made when they are first needed."""

from __future__ import annotations

from lcm_plugin.store.postgres.transaction import PostgresStatements
from lcm_plugin.store.tables.vectors import VectorTable

_LOCK = "SELECT pg_advisory_xact_lock(hashtext('lcm vectors'), hashtext(current_schema()))"
_TABLES = (
    "CREATE TABLE IF NOT EXISTS message_vectors (conversation_id bigint NOT NULL, message_id bigint NOT NULL, "
    "vectors bytea NOT NULL, PRIMARY KEY (conversation_id, message_id), "
    "FOREIGN KEY (conversation_id, message_id) REFERENCES messages ON DELETE CASCADE)",
    "CREATE INDEX IF NOT EXISTS message_vectors_message ON message_vectors (message_id)",
    "CREATE TABLE IF NOT EXISTS vector_state (model text PRIMARY KEY, last_id bigint NOT NULL)",
)


class PostgresVectors(VectorTable, PostgresStatements):
    """Vectors, one row for each message."""

    # A message may be committed after one with a higher id.
    late_commits = 1_000

    def make_vector_tables(self) -> None:
        # Two processes may both be the first; `IF NOT EXISTS` alone does not keep them apart.
        self.one(_LOCK)
        if not self.has_table("vector_state"):
            for statement in _TABLES:
                self.run(statement)
