"""The tables of vectors, made when they are first needed."""

from __future__ import annotations

from lcm_plugin.store.sqlite.transaction import SqliteStatements
from lcm_plugin.store.tables.vectors import VectorTable

_TABLES = (
    "CREATE TABLE IF NOT EXISTS message_vectors (message_id INTEGER PRIMARY KEY REFERENCES messages "
    "ON DELETE CASCADE, conversation_id INTEGER NOT NULL, vectors BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS message_vectors_conversation ON message_vectors (conversation_id)",
    "CREATE TABLE IF NOT EXISTS vector_state (model TEXT PRIMARY KEY, last_id INTEGER NOT NULL) WITHOUT ROWID",
)


class SqliteVectors(VectorTable, SqliteStatements):
    """Vectors, one row for each message."""

    def make_vector_tables(self) -> None:
        for statement in _TABLES:
            self.run(statement)
