"""Records of externalised payloads, and their bytes when the database keeps them."""

from __future__ import annotations

from typing import Any

from lcm_plugin.store.records import FileRecord
from lcm_plugin.store.sqlite.conversations import Handle

FILE_COLUMNS = (
    "file_id, conversation_id, sha256, storage_uri, byte_size, file_name, mime_type, line_count, "
    "exploration_summary, truncated, created_at"
)


class FileQueries(Handle):
    """Reads of payload records."""

    def file(self, file_id: str) -> FileRecord | None:
        row = self._one(f"SELECT {FILE_COLUMNS} FROM large_files WHERE file_id = ?", (file_id,))
        return file_record(row) if row else None

    def files(self, conversation_id: int, *, after: str = "", limit: int = 100) -> list[FileRecord]:
        rows = self._all(
            f"SELECT {FILE_COLUMNS} FROM large_files WHERE conversation_id = ? AND file_id > ? ORDER BY file_id LIMIT ?",
            (conversation_id, after, limit),
        )
        return [file_record(row) for row in rows]

    def blob(self, sha256: str) -> bytes | None:
        row = self._one("SELECT data FROM file_blobs WHERE sha256 = ?", (sha256,))
        return bytes(row[0]) if row else None


class FileChanges(FileQueries):
    """Adding payloads."""

    def add_file(self, record: FileRecord) -> None:
        self.db.execute(
            f"INSERT INTO large_files ({FILE_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING",
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
                int(record.truncated),
                record.created_at,
            ),
        )

    def describe_file(self, file_id: str, exploration: str) -> None:
        self.db.execute(
            "UPDATE large_files SET exploration_summary = ? WHERE file_id = ?", (exploration, file_id)
        )

    def put_blob(self, sha256: str, data: bytes) -> None:
        self.db.execute(
            "INSERT INTO file_blobs (sha256, data) VALUES (?, ?) ON CONFLICT DO NOTHING", (sha256, data)
        )


def file_record(row: Any) -> FileRecord:
    """A record from a row of `FILE_COLUMNS`."""
    values = list(row)
    values[9] = bool(values[9])
    return FileRecord(*values)
