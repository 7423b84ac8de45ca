"""Moves large and binary payloads out of messages into files, and reads them back.

A part whose text moved keeps a reference in its place. Its metadata lists the slices of that text
that stand for file bytes, so that the original comes back character for character.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import NotFound
from lcm_plugin.files.content import Content
from lcm_plugin.files.find import Payload, decode, find_payloads, replace_slices
from lcm_plugin.files.references import fit_into, reference
from lcm_plugin.files.store import FileFolder
from lcm_plugin.ingest.shown import is_shown_media
from lcm_plugin.messages.blocks import Call
from lcm_plugin.messages.paths import get_at, put_at
from lcm_plugin.messages.shape import copy_message
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import FileRecord, Part
from lcm_plugin.types import Message

DATABASE_URI = "db:"


@dataclass(frozen=True, slots=True)
class Externalised:
    """A message as models see it, and the payloads that moved.

    ``stand_ins`` maps a path to (first file id, visible text, metadata JSON). ``blobs`` holds bytes
    that belong into the database, by SHA-256.
    """

    visible: Message
    stand_ins: Mapping[str, tuple[str, str, str]]
    files: tuple[FileRecord, ...] = ()
    blobs: Mapping[str, bytes] = field(default_factory=dict)


class PayloadStore:
    """Keeps payload bytes, in a folder or in the database."""

    def __init__(self, config: LcmConfig, count: Callable[[str], int], folder: FileFolder | None) -> None:
        self._threshold = config.large_file_token_threshold
        self._exempt = tuple(config.large_file_exempt_patterns)
        self._count = count
        self._folder = folder

    @property
    def folder(self) -> FileFolder | None:
        """The folder that payloads lie in; None when the database keeps them."""
        return self._folder

    def move_out(self, message: Message, lane: str, now: int, call: Call | None = None) -> Externalised:
        """Moves large and binary payloads. Files are written at once; their records are returned."""
        payloads = find_payloads(message, self._count, self._threshold, call=call, exempt=self._exempt)
        if not payloads:
            return Externalised(message, {})
        visible = copy_message(message)
        stand_ins: dict[str, tuple[str, str, str]] = {}
        files: dict[str, FileRecord] = {}
        blobs: dict[str, bytes] = {}
        for path, group in groupby(payloads, key=lambda payload: payload.path):
            slices, kept, text = [], [], get_at(message, path)
            for payload in group:
                record = self._keep(payload, lane, now, blobs)
                files[record.file_id] = record
                whole = (payload.start, payload.end) == (0, len(text))
                note = fit_into(reference(record), path, whole)
                kept.append((payload, record.file_id, len(note)))
                slices.append((payload.start, payload.end, note))
            shown = replace_slices(text, slices)
            if not is_shown_media(message, path, shown):
                put_at(visible, path, shown)
            stand_ins[path] = (kept[0][1], shown, _metadata(kept))
        return Externalised(visible, stand_ins, tuple(files.values()), blobs)

    def read_part(self, reader: Reader, part: Part) -> str:
        """The original text of a part that moved, in whole or in part, to files."""
        text = part.text if part.exact is None else json.loads(part.exact)
        slices = [
            (start, end, decode(self.read_file(reader, file_id), encoding))
            for start, end, file_id, encoding in json.loads(part.metadata or "{}")["slices"]
        ]
        return replace_slices(text, slices)

    def read_file(self, reader: Reader, file_id: str) -> bytes:
        """A payload's bytes. Raises `NotFound` when its record or its bytes are gone."""
        record = reader.file(file_id)
        if record is None:
            raise NotFound(f"there is no file {file_id}")
        if record.uri == DATABASE_URI:
            data = reader.blob(record.sha256)
            if data is None:
                raise NotFound(f"the bytes of {file_id} are missing from the database")
            return data
        if self._folder is None:
            raise NotFound(f"{file_id} lies in a folder that is not configured here (largeFilesDir)")
        return self._folder.get(record.uri)

    def holds(self, records: Sequence[FileRecord]) -> bool:
        """Whether the folder has the bytes of all these records; those in the database are not looked for."""
        return all(
            self._folder is None or self._folder.exists(one.uri) for one in records if one.uri != DATABASE_URI
        )

    def keep_bytes(self, data: bytes) -> tuple[FileRecord, Mapping[str, bytes]]:
        """Stores bytes that belong to no message; returns a record without an id, and blobs for the database."""
        from lcm_plugin.files.explore import explore

        content, explored, blobs = Content(data), explore(data), dict[str, bytes]()
        uri = self._put(content, blobs)
        return FileRecord("", 0, content.sha256, uri, len(data), line_count=explored.line_count), blobs

    def delete_bytes(self, records: Sequence[FileRecord]) -> None:
        """Deletes the bytes of records that are gone from the folder."""
        for record in records:
            if self._folder is not None and record.uri != DATABASE_URI:
                self._folder.delete(record.uri)

    def folder_bytes(self) -> int:
        """Bytes of all payloads in the folder."""
        return self._folder.total_bytes() if self._folder is not None else 0

    def _keep(self, payload: Payload, lane: str, now: int, blobs: dict[str, bytes]) -> FileRecord:
        from lcm_plugin.files.explore import explore

        content = payload.content
        explored = explore(content, payload.name, payload.mime)
        uri = self._put(content, blobs)
        return FileRecord(
            file_id=file_id_for(lane, content.sha256),
            conversation_id=0,
            sha256=content.sha256,
            uri=uri,
            byte_size=content.size,
            name=payload.name,
            mime_type=payload.mime or explored.mime,
            line_count=explored.line_count,
            exploration=explored.summary,
            truncated=explored.truncated,
            created_at=now,
        )

    def _put(self, content: Content, blobs: dict[str, bytes]) -> str:
        """Stores the bytes, or adds them to ``blobs`` for the database; returns their uri."""
        if self._folder is not None:
            return self._folder.put(content)
        blobs[content.sha256] = content.whole()
        return DATABASE_URI


def file_id_for(lane: str, digest: str) -> str:
    """``file_…``: the same bytes in the same lane have the same id, and lanes do not share ids."""
    seed = f"{lane}\x00{digest}".encode("utf-8", "surrogatepass")
    return f"file_{hashlib.sha256(seed).hexdigest()[:16]}"


def _metadata(kept: list[tuple[Payload, str, int]]) -> str:
    """The slices of the visible text, as [start, end, file id, encoding]."""
    slices, shift = [], 0
    for payload, file_id, length in kept:
        start = payload.start + shift
        slices.append([start, start + length, file_id, payload.encoding])
        shift += length - (payload.end - payload.start)
    return json.dumps({"slices": slices}, separators=(",", ":"))
