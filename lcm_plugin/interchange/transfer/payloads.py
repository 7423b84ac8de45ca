"""Where a database keeps the bytes of its payloads, and how they come from one place to another."""

from __future__ import annotations

import hashlib

from lcm_plugin.errors import InputError, LcmError, NotFound
from lcm_plugin.files.externalise import DATABASE_URI
from lcm_plugin.files.store import FileFolder
from lcm_plugin.store.protocol import Reader, Writer
from lcm_plugin.store.transfer import LARGE_FILES, Row

_SHA256 = LARGE_FILES.position("sha256")
_URI = LARGE_FILES.position("storage_uri")


class PayloadPlace:
    """A folder, or the database itself when ``folder`` is None."""

    def __init__(self, folder: FileFolder | None) -> None:
        self.folder = folder

    def read(self, reader: Reader, row: Row) -> bytes:
        """The bytes of a ``large_files`` row, checked against its digest.

        Raises `NotFound` when they are gone, `InputError` when they are not what they were.
        """
        digest, uri = str(row[_SHA256]), str(row[_URI])
        if uri == DATABASE_URI:
            data = reader.blob(digest)
            if data is None:
                raise NotFound(f"the bytes {digest} are missing from the database")
        elif self.folder is None:
            raise NotFound(f"payload {uri} lies in a folder that is not configured here (largeFilesDir)")
        else:
            data = self.folder.get(uri)
        if hashlib.sha256(data).hexdigest() != digest:
            raise InputError(f"payload {uri} is damaged: its bytes do not have the digest {digest}")
        return data

    def read_if_whole(self, reader: Reader, row: Row) -> bytes | None:
        """As `read`; None when the bytes are gone or damaged."""
        try:
            return self.read(reader, row)
        except LcmError:
            return None

    def keep(self, writer: Writer, data: bytes) -> str:
        """Stores bytes and returns the uri under which they lie here."""
        if self.folder is not None:
            return self.folder.put(data)
        writer.put_blob(hashlib.sha256(data).hexdigest(), data)
        return DATABASE_URI

    def expected_uri(self, row: Row) -> str:
        """Where the bytes of a row would lie here."""
        digest = str(row[_SHA256])
        return DATABASE_URI if self.folder is None else f"{digest[:2]}/{digest}"

    def moved(self, writer: Writer, row: Row, data: bytes | None) -> Row:
        """The row for this place, its bytes stored when there are any."""
        uri = self.expected_uri(row) if data is None else self.keep(writer, data)
        return LARGE_FILES.replaced(row, storage_uri=uri)
