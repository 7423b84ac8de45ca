"""Records of externalised payloads, and their bytes when the database keeps them."""

from __future__ import annotations

from lcm_plugin.store.postgres.conversations import Handle
from lcm_plugin.store.records import FileRecord

FILE_COLUMNS = (
    "file_id, conversation_id, sha256, storage_uri, byte_size, file_name, mime_type, line_count, "
    "exploration_summary, truncated, created_at"
)
# Waits for whoever stores payloads, and keeps others from it until the transaction ends. A message that is being
# stored refers to a record that may be there already, so no lock of rows keeps that record for it.
HOLD_FILES = "LOCK TABLE large_files IN SHARE ROW EXCLUSIVE MODE"


class FileQueries(Handle):
    """Reads of payload records."""

    def file(self, file_id: str) -> FileRecord | None:
        row = self._one(
            f"SELECT {FILE_COLUMNS} FROM large_files WHERE file_id = %s ORDER BY conversation_id LIMIT 1",
            (file_id,),
        )
        return FileRecord(*row) if row else None

    def files(self, conversation_id: int, *, after: str = "", limit: int = 100) -> list[FileRecord]:
        rows = self._all(
            f"SELECT {FILE_COLUMNS} FROM large_files WHERE conversation_id = %s AND file_id > %s "
            "ORDER BY file_id LIMIT %s",
            (conversation_id, after, limit),
        )
        return [FileRecord(*row) for row in rows]

    def blob(self, sha256: str) -> bytes | None:
        row = self._one("SELECT data FROM file_blobs WHERE sha256 = %s", (sha256,))
        return bytes(row[0]) if row else None


class FileChanges(FileQueries):
    """Adding payloads."""

    def add_file(self, record: FileRecord) -> None:
        places = ", ".join(["%s"] * 11)
        self._run(
            f"INSERT INTO large_files ({FILE_COLUMNS}) SELECT {places} "
            "WHERE NOT EXISTS (SELECT FROM large_files WHERE file_id = %s) ON CONFLICT DO NOTHING",
            (
                record.file_id,
                record.conversation_id,
                record.sha256,
                record.uri,
                record.byte_size,
                record.name,
                record.mime_type,
                record.line_count,
                record.exploration,
                record.truncated,
                record.created_at,
                record.file_id,
            ),
        )

    def describe_file(self, file_id: str, exploration: str) -> None:
        self._run(
            "UPDATE large_files SET exploration_summary = %s WHERE file_id = %s", (exploration, file_id)
        )

    def put_blob(self, sha256: str, data: bytes) -> None:
        self._run(
            "INSERT INTO file_blobs (sha256, data) VALUES (%s, %s) ON CONFLICT DO NOTHING", (sha256, data)
        )
