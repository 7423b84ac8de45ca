"""Backups of a database with the payloads that it refers to, and their restoration.

A copy is one database file and, when payloads lie in a folder, a folder beside it named as the file with ``.files``
at the end. Payloads never change once they are written, so on one disk they are linked, not copied. An engine that
opens the copy finds them there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import InputError, LcmError, StoreUnavailable
from lcm_plugin.files.externalise import DATABASE_URI
from lcm_plugin.files.store import FileFolder
from lcm_plugin.private_files import make_private_folder
from lcm_plugin.store.open import open_store
from lcm_plugin.store.protocol import Reader, Store, iterate_conversations
from lcm_plugin.store.records import FileRecord

_PAGE = 500
FILES_SUFFIX = ".files"


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy. ``files`` payloads of ``file_bytes`` lie beside it; ``missing`` ones were gone or damaged before."""

    path: str
    bytes: int
    files: int = 0
    file_bytes: int = 0
    missing: tuple[str, ...] = ()


def files_beside(copy: str | Path) -> FileFolder:
    """The folder of a copy's payloads."""
    return FileFolder(Path(f"{copy}{FILES_SUFFIX}"))


def copy_name(location: str, now: int) -> str:
    """The name of a copy that nobody named: the database's, with the time."""
    return f"{location}.{datetime.fromtimestamp(now / 1000, UTC):%Y%m%dT%H%M%S}Z.bak"


def back_up(
    store: Store,
    folder: FileFolder | None,
    target: str,
    progress: Callable[[int], None] = lambda files: None,
) -> Backup:
    """Copies a database and the payloads that the copy refers to; all of it is checked by reading it.

    Raises `StoreUnavailable` when there is such a copy already, or for a server's database.
    """
    if files_beside(target).root.exists():
        raise StoreUnavailable(f"the files of a backup are at {files_beside(target).root} already")
    path = store.backup(target)
    size = Path(path).stat().st_size
    if folder is None:
        return Backup(path, size)
    copy = open_store(LcmConfig(database=path), read_only=True)
    try:
        with copy.read() as reader:
            files, total, missing = gather(reader, folder, files_beside(path), progress)
    finally:
        copy.close()
    return Backup(path, size, files, total, missing)


def gather(
    reader: Reader,
    source: FileFolder,
    target: FileFolder,
    progress: Callable[[int], None] = lambda files: None,
) -> tuple[int, int, tuple[str, ...]]:
    """Brings every payload that a database refers to from one folder into another.

    Returns how many there are, their bytes, and the ids of those that are gone or damaged.
    """
    seen: set[str] = set()
    total, missing = 0, []
    for record in file_records(reader):
        if record.uri == DATABASE_URI or record.uri in seen:
            continue
        if bring(source, target, record):
            seen.add(record.uri)
            total += record.byte_size
            progress(len(seen))
        else:
            missing.append(record.file_id)
    return len(seen), total, tuple(missing)


def bring(source: FileFolder, target: FileFolder, record: FileRecord) -> bool:
    """Links or copies one payload unless it is there; true when it is there with the right bytes."""
    to = target.root / record.uri
    if not target.root.is_dir() or not target.verify(record.uri, record.sha256):
        try:
            # Refuses links and other places than payloads of this folder.
            if not source.verify(record.uri, record.sha256):
                return False
            for folder in (target.root, to.parent):
                make_private_folder(folder)
            with suppress(FileNotFoundError):
                to.unlink()
            _link_or_copy(source.root / record.uri, to)
        except (LcmError, OSError):
            return False
    return target.verify(record.uri, record.sha256)


def file_records(reader: Reader) -> Iterator[FileRecord]:
    """The records of all payloads, conversation by conversation."""
    for row in iterate_conversations(reader):
        after = ""
        while page := reader.files(row.conversation_id, after=after, limit=_PAGE):
            yield from page
            after = page[-1].file_id


def restored_files(copy: Store, source: FileFolder, target: FileFolder | None) -> tuple[int, tuple[str, ...]]:
    """Brings a copy's payloads to a database's folder; returns how many, and which are missing.

    Raises `InputError` when the database would look for none in a folder.
    """
    with copy.read() as reader:
        if target is None:
            if any(record.uri != DATABASE_URI for record in file_records(reader)):
                raise InputError(
                    "the copy's files lie in a folder, and largeFilesDir is db: copy it with 'lcm migrate-store' instead"
                )
            return 0, ()
        files, _, missing = gather(reader, source, target)
    return files, missing


def remove_copy(path: str) -> None:
    """Deletes a copy with its payloads. Raises `OSError` when it cannot."""
    os.unlink(path)
    shutil.rmtree(files_beside(path).root, ignore_errors=True)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        # Another disk, or a file system without links.
        shutil.copyfile(source, target, follow_symlinks=False)
        target.chmod(0o600)
