"""Reads an export back: into an empty database as it was, into another one beside its conversations.

Everything happens in one transaction: either all of the file is in the database, or nothing of it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lcm_plugin.errors import InputError, StoreError
from lcm_plugin.interchange.transfer.batches import MOST_CHARACTERS, MOST_ROWS, TableRow, by_table
from lcm_plugin.interchange.transfer.format import FORMAT, VERSION, RowHashes, conversation_digest, row_from
from lcm_plugin.interchange.transfer.payloads import PayloadPlace
from lcm_plugin.interchange.transfer.renumber import Renumbering
from lcm_plugin.store.protocol import Store, Writer
from lcm_plugin.store.transfer import (
    BY_NAME,
    CONVERSATIONS,
    COUNTERS,
    GUARDS,
    LARGE_FILES,
    MESSAGES,
    REMOVALS,
    REMOVED_MESSAGES,
    SESSION_RUNS,
    Counter,
    Row,
    Table,
    rows_of,
    tables_of,
)
from lcm_plugin.types import Session


@dataclass(slots=True)
class Loaded:
    """The counts of an import. ``known`` conversations were stored already and were left alone.

    ``archived`` ones were active in the file, and their session key has an active conversation here.
    """

    conversations: int = 0
    known: int = 0
    archived: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    files: int = 0


def is_export(first_line: bytes) -> bool:
    """Whether a file that begins with this line is an export of this package."""
    try:
        header = json.loads(first_line)
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and header.get("lcm") == FORMAT


def load_jsonl(
    lines: Iterable[bytes],
    store: Store,
    payloads: PayloadPlace,
    *,
    progress: Callable[[int], None] = lambda messages: None,
) -> Loaded:
    """Takes an export in. Conversations that are there already are left alone, so doing it twice does no harm.

    In an empty database ids stay as they were. Raises `InputError` with the line's number when the file is
    cut short or is not what its own hashes say; then the database is as it was before.
    """
    numbered = enumerate(lines, 1)
    header = _header(numbered)
    try:
        with store.write() as writer:
            return _Loader(writer, payloads, header, progress).load(numbered)
    except StoreError as error:
        if type(error) is not StoreError:
            raise
        raise InputError(f"the rows of the file do not fit together: {error}") from error


def _header(numbered: Iterator[tuple[int, bytes]]) -> dict[str, Any]:
    _, first = next(numbered, (0, b""))
    if not is_export(first):
        raise InputError("line 1: this is no export of lcm")
    header: dict[str, Any] = json.loads(first)
    if header.get("version") != VERSION:
        raise InputError(
            f"line 1: the export has version {header.get('version')}, this lcm_plugin knows version {VERSION}"
        )
    try:
        header["span"] = {name: (int(low), int(high)) for name, (low, high) in header["span"].items()}
        if set(header["span"]) != set(COUNTERS):
            raise ValueError("other counters")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError("line 1: the header names no span of numbers for each counter") from error
    return header


class _Loader:
    def __init__(
        self, writer: Writer, payloads: PayloadPlace, header: dict[str, Any], progress: Callable[[int], None]
    ) -> None:
        self._writer = writer
        self._payloads = payloads
        self._progress = progress
        self._spans: dict[Counter, tuple[int, int]] = header["span"]
        self._empty = not any(writer.row_counts().values())
        self._numbers = None if self._empty else self._renumbering()
        self._runs = {(row[2], row[3]) for row in rows_of(writer, SESSION_RUNS, None)}
        self._removals: dict[Row, Row] = {}
        self._hashes = RowHashes()
        self._report = Loaded()
        self._batch: list[TableRow] = []
        self._read = 0
        self._uris: dict[str, str] = {}
        self._pieces: list[bytes] = []
        self._scope: int | None = None
        self._digest = ""
        self._entered = self._skipping = self._ended = False

    def load(self, numbered: Iterator[tuple[int, bytes]]) -> Loaded:
        """Reads the lines after the header."""
        if self._empty:
            # Numbers of deleted rows may come again, which an index over the newest would never see.
            self._writer.reset_index()
        number = 1
        for number, text in numbered:
            self._take(text, f"line {number}")
        if not self._ended:
            raise InputError(f"line {number}: the file is cut short: its closing line is missing")
        self._flush()
        self._writer.raise_counters(
            {name: high for name, (_, high) in self._spans.items()} if self._empty else {}
        )
        return self._report

    def _renumbering(self) -> Renumbering:
        first = {
            counter: self._writer.reserve(counter, high - low + 1) if high else 1
            for counter, (low, high) in self._spans.items()
        }
        return Renumbering(self._writer, self._spans, first)

    def _take(self, text: bytes, where: str) -> None:
        if not text.strip():
            return
        self._read += len(text)
        try:
            value = json.loads(text)
        except ValueError as error:
            raise InputError(f"{where}: not JSON ({error})") from error
        if not isinstance(value, dict) or self._ended:
            raise InputError(f"{where}: nothing of an export")
        if "row" in value:
            self._take_row(value, where)
        elif "bytes" in value:
            self._take_piece(value, where)
        elif "conversation" in value:
            self._enter(value, where)
        elif "end" in value:
            self._finish(value, where)
        else:
            raise InputError(f"{where}: nothing of an export")

    def _enter(self, value: dict[str, Any], where: str) -> None:
        scope, digest = value["conversation"], value.get("digest", "")
        if not (scope is None or type(scope) is int) or not isinstance(digest, str):
            raise InputError(f"{where}: a conversation is named by its number and its digest")
        self._flush()
        self._scope, self._digest = scope, digest
        self._entered, self._skipping = True, False
        if scope is not None and self._numbers is not None:
            self._numbers.enter(scope)

    def _take_row(self, value: dict[str, Any], where: str) -> None:
        table = BY_NAME.get(value["row"]) if isinstance(value["row"], str) else None
        if table is None or not self._entered or table not in tables_of(self._scope):
            raise InputError(f"{where}: no row of {value['row']!r} may stand here")
        row = row_from(table, value.get("values"), where)
        if self._scope is not None and row[table.position("conversation_id")] != self._scope:
            raise InputError(f"{where}: the row belongs to another conversation than {self._scope}")
        self._hashes.add(table, row)
        if table is MESSAGES:
            self._progress(self._hashes.counts[table.name])
        if table is CONVERSATIONS:
            self._skipping = not self._empty and self._is_known(row)
            self._report.known += self._skipping
            self._report.conversations += not self._skipping
        if self._skipping:
            return
        kept = self._fitted(table, row) if not self._empty else row
        if kept is not None:
            if table is LARGE_FILES:
                kept = table.replaced(kept, storage_uri=self._uri(kept))
            self._batch.append((table, kept))
        if len(self._batch) >= MOST_ROWS or self._read >= MOST_CHARACTERS:
            self._flush()

    def _is_known(self, row: Row) -> bool:
        """Whether the conversation is in the database already, from this file or another."""
        fields = CONVERSATIONS.as_dict(row)
        return any(
            found.created_at == fields["created_at"]
            and found.message_count == fields["message_count"]
            and conversation_digest(self._writer, found.conversation_id) == self._digest
            for found in self._writer.lane(str(fields["session_key"]))
        )

    def _fitted(self, table: Table, row: Row) -> Row | None:
        """The row as it fits into a database with rows; None when it is stored already or left out."""
        assert self._numbers is not None
        if table is GUARDS or (table is SESSION_RUNS and self._run_is_known(row)):
            return None
        row = self._numbers.row(table, row)
        if table is REMOVALS:
            self._removals[table.key_of(row)] = row
            return None
        if table is REMOVED_MESSAGES:
            act = self._removals.pop((row[table.position("removal_id")],), None)
            if act is not None:
                self._batch.append((REMOVALS, act))
        if table is LARGE_FILES and self._writer.file(str(row[table.position("file_id")])) is not None:
            return None
        return self._archived(row) if table is CONVERSATIONS else row

    def _run_is_known(self, row: Row) -> bool:
        fields = SESSION_RUNS.as_dict(row)
        session_id, key = fields["session_id"], fields["session_key"]
        if (session_id, key) in self._runs:
            return True
        self._runs.add((session_id, key))
        return self._writer.conversation_of_run(Session(str(key), str(session_id))) is not None

    def _archived(self, row: Row) -> Row:
        """A second active conversation of one key cannot be; the one that comes in is history."""
        fields = CONVERSATIONS.as_dict(row)
        self._flush()
        if not fields["active"] or not any(
            found.active for found in self._writer.lane(str(fields["session_key"]))
        ):
            return row
        self._report.archived += 1
        return CONVERSATIONS.replaced(
            row, active=False, archived_at=fields["updated_at"], archive_cause="rollover"
        )

    def _uri(self, row: Row) -> str:
        digest = str(row[LARGE_FILES.position("sha256")])
        return self._uris.get(digest) or self._payloads.expected_uri(row)

    def _take_piece(self, value: dict[str, Any], where: str) -> None:
        digest, data = value["bytes"], value.get("data")
        try:
            self._pieces.append(base64.b64decode(str(data), validate=True))
        except (binascii.Error, ValueError) as error:
            raise InputError(f"{where}: the bytes of a payload are not base64") from error
        if not value.get("last"):
            return
        whole = b"".join(self._pieces)
        self._pieces.clear()
        if hashlib.sha256(whole).hexdigest() != digest:
            raise InputError(f"{where}: the bytes of payload {digest} are not those of its digest")
        self._uris[str(digest)] = self._payloads.keep(self._writer, whole)
        self._report.files += 1

    def _finish(self, value: dict[str, Any], where: str) -> None:
        counts = {name: count for name, count in self._hashes.counts.items() if count}
        if value.get("rows") != counts or value.get("hashes") != self._hashes.hashes():
            raise InputError(f"{where}: the rows of the file are not those that its closing line names")
        self._report.rows = counts
        self._ended = True

    def _flush(self) -> None:
        for table, rows in by_table(self._batch):
            self._writer.load_rows(table, rows)
        self._batch.clear()
        self._read = 0
