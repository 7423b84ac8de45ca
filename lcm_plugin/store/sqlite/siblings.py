"""Other databases in the same folder, which may refer to the same payloads.

Databases beside each other share their folder of payloads unless a setting says otherwise, and equal bytes are
stored once. They are opened by SQLite alone, and only read.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from pathlib import Path

_SUFFIXES = frozenset({".db", ".sqlite", ".sqlite3"})
_BACKUP = ".bak"
_SECONDS = 1.0


def needed_by_others(path: Path, digests: Collection[str]) -> set[str]:
    """Those of some SHA-256 digests that another database beside ``path`` has a record of.

    All of them when one of those databases cannot be asked. A backup's payloads lie in a folder of its own.
    """
    own = path.absolute()
    needed: set[str] = set()
    if not digests or own.suffix == _BACKUP:
        return needed
    for other in sorted(own.parent.iterdir()):
        if other == own or other.suffix not in _SUFFIXES or not other.is_file():
            continue
        needed |= _needed_by(other, digests)
    return needed


def _needed_by(path: Path, digests: Collection[str]) -> set[str]:
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=_SECONDS)
    except sqlite3.Error:
        return set(digests)
    try:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'large_files'").fetchone():
            return set()
        rows = connection.execute(
            "SELECT DISTINCT sha256 FROM large_files WHERE sha256 IN (SELECT value FROM json_each(?))",
            (json.dumps(list(digests)),),
        )
        return {row[0] for row in rows}
    except sqlite3.Error as error:
        return set() if error.sqlite_errorname == "SQLITE_NOTADB" else set(digests)
    finally:
        connection.close()
