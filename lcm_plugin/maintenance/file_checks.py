"""Checks payload files against their records, stray files, and file modes.

The database file itself is only asked for its rights, by name: nothing but SQLite may open it.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from lcm_plugin.errors import InputError, LcmError, NotFound
from lcm_plugin.files.externalise import DATABASE_URI, PayloadStore
from lcm_plugin.maintenance.rules import finding_of
from lcm_plugin.store.open import is_server
from lcm_plugin.store.protocol import Store
from lcm_plugin.store.records import FileRecord
from lcm_plugin.types import Finding

LEFTOVER_SECONDS = 3_600.0
_PAGE = 200
_OTHERS = 0o077
_SIDE_FILES = ("", "-wal", "-shm", "-journal")


class FileChecks:
    """Checks of files. Reads only."""

    def __init__(self, store: Store, payloads: PayloadStore) -> None:
        self._store = store
        self._payloads = payloads

    def records(self, conversation_id: int, stop: Callable[[], bool]) -> Iterator[Finding]:
        """Records whose bytes are gone or are other bytes."""
        after = ""
        while not stop():
            with self._store.read() as reader:
                page = reader.files(conversation_id, after=after, limit=_PAGE)
            if not page:
                return
            for record in page:
                if stop():
                    return
                # A record that was removed or rewritten since the page was read says nothing about its bytes.
                found = list(self._record(record))
                if found and self._stands(record):
                    yield from found
            after = page[-1].file_id

    def strays(self, stop: Callable[[], bool]) -> Iterator[Finding]:
        """Files in the folder that no record names, and temporary files of killed processes.

        New files are passed over: a message is stored after the files it refers to.
        """
        folder = self._payloads.folder
        if folder is None:
            return
        limit = time.time() - LEFTOVER_SECONDS
        with self._store.read() as reader, reader.interruptible(stop):
            digests = reader.file_digests()
            known = next(digests, None)
            for uri in folder.uris():
                digest = uri.rpartition("/")[2].partition(".")[0]
                while known is not None and known < digest:
                    known = next(digests, None)
                if known != digest and folder.modified(uri) < limit:
                    yield finding_of("file_orphan", None, (uri,), f"in {folder.root}")
        for name in folder.leftovers(LEFTOVER_SECONDS):
            yield finding_of("file_leftover", None, (name,), f"in {folder.root}")

    def log(self) -> Iterator[Finding]:
        """Whether the log that this process reads and writes still has its name.

        After it was deleted, other processes would begin another one, and the two would overwrite each other.
        """
        location = self._store.location
        if is_server(location):
            return
        with self._store.read() as reader:
            reader.conversations(limit=1)
            if Path(location + "-shm").exists() and not Path(location + "-wal").exists():
                yield finding_of("log_missing", None, (location + "-wal",))

    def rights(self) -> Iterator[Finding]:
        """Files that others than their owner may read or write."""
        for path in self.private_paths():
            try:
                mode = stat.S_IMODE(os.lstat(path).st_mode)
            except OSError:
                continue
            if mode & _OTHERS:
                yield finding_of("file_rights", None, (str(path),), f"has mode {mode:04o}")

    def private_paths(self) -> Iterator[Path]:
        """The database's files, the payload folder and its files."""
        location = self._store.location
        if not is_server(location):
            yield from (Path(location + ending) for ending in _SIDE_FILES)
        folder = self._payloads.folder
        if folder is not None and folder.root.is_dir():
            yield folder.root
            yield from sorted(path for path in folder.root.iterdir() if path.is_dir())
            yield from (folder.root / uri for uri in folder.uris())

    def _stands(self, record: FileRecord) -> bool:
        with self._store.read() as reader:
            now = reader.file(record.file_id)
        return now is not None and (now.sha256, now.uri) == (record.sha256, record.uri)

    def _record(self, record: FileRecord) -> Iterator[Finding]:
        folder = self._payloads.folder
        try:
            if record.uri != DATABASE_URI and folder is not None:
                if folder.verify(record.uri, record.sha256):
                    return
                if folder.exists(record.uri):
                    raise InputError("its bytes do not match its digest")
                raise NotFound(f"there is no {record.uri} in {folder.root}")
            with self._store.read() as reader:
                data = self._payloads.read_file(reader, record.file_id)
            if hashlib.sha256(data).hexdigest() != record.sha256:
                raise InputError("its bytes do not match its digest")
        except NotFound as error:
            yield finding_of("file_missing", record.conversation_id, (record.file_id,), str(error))
        except (InputError, LcmError) as error:
            yield finding_of("file_changed", record.conversation_id, (record.file_id,), str(error))
