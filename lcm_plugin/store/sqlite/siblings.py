"""Other databases of this package in the same folder, which may refer to the same payloads.

Databases beside each other share their folder of payloads unless a setting says otherwise, and equal bytes are
stored once. They are opened by SQLite alone, and only read.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path

_USUAL_SUFFIXES = frozenset({".db", ".sqlite", ".sqlite3"})
_BACKUP = ".bak"
_SIDE_FILES = ("-wal", "-shm", "-journal")
_SECONDS = 1.0


def siblings(path: Path) -> list[Path]:
    """The databases beside ``path``, whatever their names, that are of this package or cannot be asked.

    Backups are left out: they have a name of their own and their payloads in a folder of their own.
    """
    return [other for other in _others(path) if _is_ours(other)]


def needed_by_others(path: Path, digests: Collection[str]) -> set[str]:
    """Those of some SHA-256 digests that another database beside ``path`` has a record of.

    All of them when one of those databases cannot be asked.
    """
    needed: set[str] = set()
    if not digests or path.suffix == _BACKUP:
        return needed
    for other in siblings(path):
        needed |= _needed_by(other, digests)
    return needed


def _others(path: Path) -> Iterator[Path]:
    own = path.absolute()
    for other in sorted(own.parent.iterdir()):
        if other.suffix == _BACKUP or other.name.endswith(_SIDE_FILES) or not other.is_file():
            continue
        if not other.samefile(own):
            yield other


def _is_ours(path: Path) -> bool:
    """Whether a file has a table of payloads; one that cannot be read counts when it is named as a database."""
    try:
        with closing(_connect(path)) as connection:
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'large_files'").fetchone()
    except sqlite3.Error as error:
        unusual = path.suffix not in _USUAL_SUFFIXES
        return not (unusual or getattr(error, "sqlite_errorname", "") == "SQLITE_NOTADB")
    return found is not None


def _needed_by(path: Path, digests: Collection[str]) -> set[str]:
    try:
        with closing(_connect(path)) as connection:
            rows = connection.execute(
                "SELECT DISTINCT sha256 FROM large_files WHERE sha256 IN (SELECT value FROM json_each(?))",
                (json.dumps(list(digests)),),
            )
            return {row[0] for row in rows}
    except sqlite3.Error:
        return set(digests)


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=_SECONDS)
