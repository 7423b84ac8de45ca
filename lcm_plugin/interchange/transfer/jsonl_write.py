"""Writing conversations into a file from which they can be read back, row by row and byte by byte."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lcm_plugin.errors import LcmError
from lcm_plugin.interchange.transfer.batches import TableRow, all_rows
from lcm_plugin.interchange.transfer.format import (
    FORMAT,
    NUMBERED,
    PIECE_BYTES,
    VERSION,
    RowHashes,
    conversation_digest,
    line,
    row_line,
)
from lcm_plugin.interchange.transfer.payloads import PayloadPlace
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.transfer import (
    CONTEXT_SNAPSHOTS,
    CONVERSATIONS,
    GUARDS,
    LARGE_FILES,
    MESSAGES,
    REMOVALS,
    REMOVED_MESSAGES,
    SUMMARIES,
    Counter,
    Row,
    Table,
    rows_of,
)

_NUMBERING: dict[Counter, Table] = {
    "conversations": CONVERSATIONS,
    "messages": MESSAGES,
    "summaries": SUMMARIES,
    "context_snapshots": CONTEXT_SNAPSHOTS,
    "removals": REMOVALS,
}


@dataclass(slots=True)
class Exported:
    """The counts of an export. ``missing_files`` are payloads whose bytes are gone or damaged."""

    conversations: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    files: int = 0
    missing_files: list[str] = field(default_factory=list)


def write_jsonl(
    reader: Reader,
    payloads: PayloadPlace,
    write: Callable[[bytes], object],
    *,
    conversations: Sequence[int],
    whole: bool,
    now: int,
    progress: Callable[[int], None] = lambda messages: None,
) -> Exported:
    """Writes the chosen conversations in the format of `transfer.format`.

    ``whole`` says that these are all, so that what belongs to no conversation goes with them. ``progress`` takes how
    many messages are written.
    """
    done = Exported(len(conversations))
    hashes = RowHashes()
    removals = None if whole else _removals_of(reader, conversations)
    header: dict[str, Any] = {"lcm": FORMAT, "version": VERSION, "exported_at": now, "whole": whole}
    write(
        line(header | {"conversations": len(conversations), "span": _spans(reader, conversations, removals)})
    )
    seen: set[str] = set()
    for scope in (None, *conversations):
        start: dict[str, Any] = {"conversation": scope}
        write(line(start if scope is None else start | {"digest": conversation_digest(reader, scope)}))
        for table, row in _chosen(all_rows(reader, scope), removals):
            if table is LARGE_FILES:
                _write_payload(reader, payloads, row, write, seen, done)
            hashes.add(table, row)
            write(row_line(table, row))
            if table is MESSAGES:
                progress(hashes.counts[MESSAGES.name])
    done.rows = {name: count for name, count in hashes.counts.items() if count}
    write(line({"end": True, "rows": done.rows, "hashes": hashes.hashes()}))
    return done


def _removals_of(reader: Reader, conversations: Sequence[int]) -> set[int]:
    """The acts of removal that concern some conversations."""
    place = REMOVED_MESSAGES.position("removal_id")
    return {int(row[place] or 0) for one in conversations for row in rows_of(reader, REMOVED_MESSAGES, one)}


def _chosen(rows: Iterator[TableRow], removals: set[int] | None) -> Iterator[TableRow]:
    """The rows that belong to an export of some conversations; all of them when ``removals`` is None."""
    if removals is None:
        return rows
    place = REMOVALS.position("removal_id")
    return (
        (table, row)
        for table, row in rows
        if table is not GUARDS and (table is not REMOVALS or row[place] in removals) and _bound(table, row)
    )


def _bound(table: Table, row: Row) -> bool:
    """Whether a row belongs to a conversation, or is an act of removal."""
    return table is REMOVALS or row[table.position("conversation_id")] is not None


def _spans(
    reader: Reader, conversations: Sequence[int], removals: set[int] | None
) -> dict[str, tuple[int, int]]:
    """The lowest and highest number of each counter, 0 and 0 for none."""
    spans: dict[str, tuple[int, int]] = {}
    for counter, table in _NUMBERING.items():
        place = table.position(NUMBERED[counter])
        if table is CONVERSATIONS:
            numbers = list(conversations)
        elif table is REMOVALS:
            found = {int(row[place] or 0) for row in rows_of(reader, table, None)}
            numbers = sorted(found if removals is None else found & removals)
        else:
            numbers = [int(row[place] or 0) for one in conversations for row in _ends(reader, table, one)]
        spans[counter] = (min(numbers, default=0), max(numbers, default=0))
    return spans


def _ends(reader: Reader, table: Table, conversation_id: int) -> list[Row]:
    """The first and the last row of a table in a conversation."""
    last = reader.transfer_end(table, conversation_id)
    return [] if last is None else [*reader.transfer_page(table, conversation_id, None, 1), last]


def _write_payload(
    reader: Reader,
    payloads: PayloadPlace,
    row: Row,
    write: Callable[[bytes], object],
    seen: set[str],
    done: Exported,
) -> None:
    digest = str(row[LARGE_FILES.position("sha256")])
    if digest in seen:
        return
    try:
        data = payloads.read(reader, row)
    except LcmError:
        done.missing_files.append(str(row[LARGE_FILES.position("file_id")]))
        return
    seen.add(digest)
    done.files += 1
    for start in range(0, max(len(data), 1), PIECE_BYTES):
        piece = data[start : start + PIECE_BYTES]
        last = start + PIECE_BYTES >= len(data)
        write(line({"bytes": digest, "data": base64.b64encode(piece).decode(), "last": last}))
