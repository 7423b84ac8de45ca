"""SQLite databases as an older version of the package left them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlite_utils import Database

from lcm_plugin.store.sqlite.schema import migrations

# These versions kept the schema's number here, too.
_NUMBERED = {
    "removals": 1,
    "integrity_jobs": 2,
    "fast_reads": 3,
    "withdrawn_messages": 4,
    "plain_conditions": 5,
}


def take_back(path: Path, step: str) -> None:
    """Gives a closed database the schema from before a migration; rows stay as far as that schema has room for them."""
    newer = path.with_name(f"{path.name}.newer")
    path.rename(newer)
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        migrations().apply(Database(old), stop_before=step)
        old.execute("ATTACH ? AS newer", (str(newer),))
        tables = old.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%sqlite_%'"
        ).fetchall()
        for (table,) in tables:
            columns = ", ".join(row[1] for row in old.execute(f"PRAGMA table_info({table})"))
            old.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM newer.{table}")  # noqa: S608
        if step in _NUMBERED:
            old.execute(f"PRAGMA user_version = {_NUMBERED[step]}")
        old.execute("DETACH newer")
    newer.unlink()
