"""The export format: JSON lines of which each names its kind.

1. ``{"lcm": "export", "version": 1, …}``: the header. ``span`` is, per counter, the lowest and the highest number
   in the file, so that a reader can renumber without reading twice.
2. ``{"conversation": 7, "digest": …}``: a conversation begins; ``{"conversation": null}``: what belongs to none.
3. ``{"row": "messages", "values": {…}}``: a row; columns that are null are left out.
4. ``{"bytes": sha256, "data": base64, "last": true}``: a piece of a payload, before the row that first names it.
5. ``{"end": true, "rows": {…}, "hashes": {…}}``: what a reader must have read. A file without it is cut short.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.transfer import (
    MESSAGES,
    TABLES,
    Counter,
    Row,
    Table,
    Value,
    rows_of,
)

FORMAT = "export"
VERSION = 1
PIECE_BYTES = 3 << 20
# The column that each counter numbers, and all columns that refer to it.
NUMBERED: dict[Counter, str] = {
    "conversations": "conversation_id",
    "messages": "message_id",
    "summaries": "summary_rowid",
    "context_snapshots": "snapshot_id",
    "removals": "removal_id",
}
# A conversation is there already when one of its lane has the same digest.
_IDENTIFYING = tuple(MESSAGES.position(name) for name in ("seq", "role", "identity", "created_at", "hidden"))


def line(value: dict[str, Any]) -> bytes:
    """One line of the file."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def row_line(table: Table, row: Row) -> bytes:
    """The line of a row."""
    values = {name: value for name, value in table.as_dict(row).items() if value is not None}
    return line({"row": table.name, "values": values})


def row_from(table: Table, values: object, where: str) -> Row:
    """The row that a line holds. Raises `InputError` naming an unknown column or a wrong type."""
    if not isinstance(values, dict):
        raise InputError(f"{where}: a row of {table.name} needs an object of values")
    unknown = values.keys() - set(table.columns)
    if unknown:
        raise InputError(
            f"{where}: {table.name} has no column {sorted(unknown)[0]!r}; a newer lcm_plugin may have written the file"
        )
    for name, kind in zip(table.columns, table.kinds, strict=True):
        value = values.get(name)
        wanted = int if kind == "integer" else bool if kind == "boolean" else str
        if value is not None and type(value) is not wanted:
            raise InputError(f"{where}: {table.name}.{name} must be {wanted.__name__}, not {value!r:.80}")
    row: tuple[Value, ...] = tuple(values.get(name) for name in table.columns)
    return row


def conversation_digest(reader: Reader, conversation_id: int) -> str:
    """A digest that two copies of a conversation share: of every message's place, identity and time."""
    digest = hashlib.sha256()
    for row in rows_of(reader, MESSAGES, conversation_id):
        digest.update(json.dumps([row[place] for place in _IDENTIFYING]).encode())
    return digest.hexdigest()


class RowHashes:
    """Counts and hashes rows table by table, as `table_hashes` does."""

    def __init__(self) -> None:
        self._digests = {table.name: hashlib.sha256() for table in TABLES}
        self.counts = dict.fromkeys(self._digests, 0)

    def add(self, table: Table, row: Row) -> None:
        """Takes the next row."""
        self._digests[table.name].update(table.fingerprint(row))
        self.counts[table.name] += 1

    def hashes(self) -> dict[str, str]:
        """The hashes of the tables that had rows."""
        return {name: digest.hexdigest() for name, digest in self._digests.items() if self.counts[name]}
