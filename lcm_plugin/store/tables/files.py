"""Records of externalised payloads, and their bytes when the database keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lcm_plugin.store.records import FileRecord
from lcm_plugin.store.transaction import Transaction

FILE_COLUMNS = (
    "file_id, conversation_id, sha256, storage_uri, byte_size, file_name, mime_type, line_count, "
    "exploration_summary, truncated, created_at"
)


class FileTable(Transaction):
    """Reads and additions of payloads. A file's id belongs to one record, whichever conversation owns it."""

    def file(self, file_id: str) -> FileRecord | None:
        row = self.one(
            f"SELECT {FILE_COLUMNS} FROM large_files WHERE file_id = :file ORDER BY conversation_id LIMIT 1",
            file=file_id,
        )
        return file_record(row) if row else None

    def files(self, conversation_id: int, *, after: str = "", limit: int = 100) -> list[FileRecord]:
        rows = self.all(
            f"SELECT {FILE_COLUMNS} FROM large_files WHERE conversation_id = :here AND file_id > :after "
            "ORDER BY file_id LIMIT :limit",
            here=conversation_id,
            after=after,
            limit=limit,
        )
        return [file_record(row) for row in rows]

    def newest_files(self, conversation_ids: Sequence[int] | None, *, limit: int) -> list[FileRecord]:
        where, values = self._among(conversation_ids)
        rows = self.all(
            f"SELECT {FILE_COLUMNS} FROM large_files {where} ORDER BY conversation_id DESC, file_id LIMIT :limit",
            limit=limit,
            **values,
        )
        return [file_record(row) for row in rows]

    def count_files(self, conversation_ids: Sequence[int] | None, *, most: int) -> int:
        where, values = self._among(conversation_ids)
        row = self.one(
            f"SELECT count(*) FROM (SELECT file_id FROM large_files {where} LIMIT :most) counted",
            most=most,
            **values,
        )
        return int(row[0]) if row else 0

    def _among(self, conversation_ids: Sequence[int] | None) -> tuple[str, dict[str, Any]]:
        if conversation_ids is None:
            return "", {}
        return f"WHERE conversation_id {self.sql.any_of('ids')}", {"ids": self.sql.array(conversation_ids)}

    def blob(self, sha256: str) -> bytes | None:
        row = self.one("SELECT data FROM file_blobs WHERE sha256 = :digest", digest=sha256)
        return bytes(row[0]) if row else None

    def add_file(self, record: FileRecord) -> None:
        self.run(
            f"INSERT INTO large_files ({FILE_COLUMNS}) SELECT :file, :here, :digest, :uri, :size, :name, :mime, :lines, "
            ":exploration, :truncated, :created WHERE NOT EXISTS (SELECT 1 FROM large_files WHERE file_id = :file) "
            "ON CONFLICT DO NOTHING",
            file=record.file_id,
            here=record.conversation_id,
            digest=record.sha256,
            uri=record.uri,
            size=record.byte_size,
            name=record.name,
            mime=record.mime_type,
            lines=record.line_count,
            exploration=record.exploration,
            truncated=record.truncated,
            created=record.created_at,
        )

    def describe_file(self, file_id: str, exploration: str) -> None:
        self.run(
            "UPDATE large_files SET exploration_summary = :exploration WHERE file_id = :file",
            exploration=exploration,
            file=file_id,
        )

    def put_blob(self, sha256: str, data: bytes) -> None:
        self.run(
            "INSERT INTO file_blobs (sha256, data) VALUES (:digest, :data) ON CONFLICT DO NOTHING",
            digest=sha256,
            data=data,
        )


def file_record(row: Any) -> FileRecord:
    """A record from a row of `FILE_COLUMNS`."""
    values = list(row)
    values[9] = bool(values[9])
    return FileRecord(*values)
