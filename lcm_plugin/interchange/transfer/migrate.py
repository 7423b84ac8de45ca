"""Copying a database from one store into another, row by row.

Rows are written in one fixed order, a batch a transaction, so whatever the target holds is a prefix of the
source and shows by itself where an interrupted copy goes on. A guard in the target says that the copy is not
finished; no engine opens such a database. The last step compares every row and runs the integrity checker on
both sides.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from lcm_plugin.errors import InputError, StoreError
from lcm_plugin.interchange.transfer.batches import TableRow, all_rows, batches, by_table
from lcm_plugin.interchange.transfer.payloads import PayloadPlace
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.transfer import (
    CONVERSATIONS,
    GUARDS,
    LARGE_FILES,
    UNFINISHED,
    Row,
    Table,
    conversation_ids,
    rows_of,
    tables_of,
    without_nul,
)
from lcm_plugin.types import IntegrityReport, Severity

# A bar: title, how much in all, unit; inside, a function that takes how much is done.
Bar = Callable[[str, int, str], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True, slots=True)
class Side:
    """A database, where its payload bytes lie, and its integrity checker."""

    store: Store
    payloads: PayloadPlace
    check: Callable[[], IntegrityReport]


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """How a copy ended. ``altered`` rows had characters that the target cannot hold.

    ``missing_files`` were gone or damaged in the source already. ``outdated`` is true when the source was
    written to while it was copied.
    """

    rows: dict[str, int]
    files: int
    file_bytes: int
    resumed: bool
    altered: int
    missing_files: tuple[str, ...]
    outdated: bool


@dataclass(slots=True)
class _Tally:
    files: int = 0
    file_bytes: int = 0
    missing: list[str] = field(default_factory=list)


def migrate(source: Side, target: Side, bar: Bar, *, restart: bool = False, now: int = 0) -> MigrationReport:
    """Copies all of the source into the target, or finishes a copy that was interrupted.

    The target must be empty, or hold an unfinished copy of this source; ``restart`` throws that away. Raises
    `InputError` for any other target and `StoreError` when a row or a check differs in the end.
    """
    with source.store.read() as reader:
        mark = _fingerprint(reader)
        resumed = _begin(source, target, mark, restart, now)
        tally = _copy(reader, source, target, bar)
        with target.store.write() as writer:
            writer.raise_counters(reader.counters())
        try:
            altered = _compare(reader, target, bar)
            _index(target, bar)
            _check_both(source, target, bar)
        except StoreError:
            _save_state(target, {"source": source.store.location, "mark": "", "started_at": now})
            raise
        counts = {name: count for name, count in reader.row_counts().items() if count}
    with target.store.write() as writer:
        writer.drop_guard(UNFINISHED)
    with source.store.read() as reader:
        outdated = _fingerprint(reader) != mark
    return MigrationReport(
        counts, tally.files, tally.file_bytes, resumed, altered, tuple(tally.missing), outdated
    )


def _fingerprint(reader: Reader) -> str:
    """Changes with every message, compaction and reset of a database."""
    digest = hashlib.sha256(json.dumps(reader.row_counts(), sort_keys=True).encode())
    for row in rows_of(reader, CONVERSATIONS, None):
        digest.update(CONVERSATIONS.fingerprint(row))
    return digest.hexdigest()


def _begin(source: Side, target: Side, mark: str, restart: bool, now: int) -> bool:
    """Makes the target ready; true when a copy that was begun goes on."""
    origin = source.store.location
    state = {"source": origin, "mark": mark, "started_at": now}
    with target.store.write() as writer:
        found = writer.guard(UNFINISHED)
        if found is None:
            filled = {name: count for name, count in writer.row_counts().items() if count}
            if filled:
                held = ", ".join(f"{count:,} {name}" for name, count in filled.items())
                raise InputError(
                    f"{target.store.location} is not empty ({held}); a copy needs an empty database"
                )
            writer.save_guard(UNFINISHED, state)
            return False
        if found.get("source") != origin and not restart:
            raise InputError(
                f"{target.store.location} holds an unfinished copy of {found.get('source')}, not of {origin}; "
                "--restart throws it away"
            )
        if found.get("mark") == mark and not restart:
            return True
        writer.clear_rows()
        writer.save_guard(UNFINISHED, state)
        return False


def _save_state(target: Side, state: dict[str, Any]) -> None:
    with target.store.write() as writer:
        writer.save_guard(UNFINISHED, state)


def _copy(reader: Reader, source: Side, target: Side, bar: Bar) -> _Tally:
    total = sum(reader.row_counts().values())
    tally = _Tally()
    with target.store.read() as there:
        done = sum(there.row_counts().values()) - 1
        rest = list(_rest_of_newest(reader, there)) if done else None
    with bar("copying", total, "rows") as progress:
        progress(done)
        rows = _everything(reader) if rest is None else _remaining(reader, rest)
        for batch in batches(rows):
            with target.store.write() as writer:
                for table, found in by_table(batch):
                    if table is LARGE_FILES:
                        found = [_move_file(reader, writer, row, source, target, tally) for row in found]
                    writer.load_rows(table, found)
            done += len(batch)
            progress(done)
    return tally


def _everything(reader: Reader) -> Iterator[TableRow]:
    for scope in (None, *conversation_ids(reader)):
        yield from all_rows(reader, scope)


def _rest_of_newest(reader: Reader, there: Reader) -> Iterator[tuple[int | None, Table, Row | None]]:
    """Where each table goes on in the scope that the target holds last: (scope, table, after which key)."""
    newest = there.transfer_end(CONVERSATIONS, None)
    scope = None if newest is None else int(newest[CONVERSATIONS.position("conversation_id")] or 0)
    for table in tables_of(scope):
        last = there.transfer_end(table, scope) if table is not GUARDS else _last_guard(there)
        yield scope, table, None if last is None else table.key_of(last)


def _last_guard(there: Reader) -> Row | None:
    copied = [row for row in rows_of(there, GUARDS, None) if row[0] != UNFINISHED]
    return copied[-1] if copied else None


def _remaining(reader: Reader, rest: list[tuple[int | None, Table, Row | None]]) -> Iterator[TableRow]:
    begun = rest[0][0]
    for scope, table, after in rest:
        for row in rows_of(reader, table, scope, after):
            yield table, row
    for scope in conversation_ids(reader):
        if begun is None or scope > begun:
            yield from all_rows(reader, scope)


def _move_file(reader: Reader, writer: Any, row: Row, source: Side, target: Side, tally: _Tally) -> Row:
    data = source.payloads.read_if_whole(reader, row)
    if data is None:
        tally.missing.append(str(row[LARGE_FILES.position("file_id")]))
    else:
        tally.files += 1
        tally.file_bytes += len(data)
    return target.payloads.moved(writer, row, data)


def _compare(reader: Reader, target: Side, bar: Bar) -> int:
    """Reads every row on both sides; returns how many the target could not hold word for word."""
    altered = done = 0
    with (
        bar("comparing", sum(reader.row_counts().values()), "rows") as progress,
        target.store.read() as there,
    ):
        pairs = zip_longest(_everything(reader), _copied(there))
        for left, right in pairs:
            if left is None or right is None or left[0] is not right[0]:
                raise _differs(left, right)
            table, row = left
            wanted, found = table.fingerprint(row), table.fingerprint(right[1])
            if wanted != found:
                if table.fingerprint(without_nul(table, row)) != found:
                    raise _differs(left, right)
                altered += 1
            done += 1
            if done % 1_000 == 0:
                progress(done)
        progress(done)
    return altered


def _copied(there: Reader) -> Iterator[TableRow]:
    return (pair for pair in _everything(there) if not (pair[0] is GUARDS and UNFINISHED in pair[1]))


def _differs(left: TableRow | None, right: TableRow | None) -> StoreError:
    table, row = left or right or (CONVERSATIONS, ())
    where = ", ".join(f"{name} {value}" for name, value in zip(table.key, table.key_of(row), strict=True))
    what = "is missing in the copy" if right is None else "is only in the copy" if left is None else "differs"
    return StoreError(
        f"the copy is not equal: the row of {table.name} with {where} {what}; the next run starts from the beginning"
    )


def _check_both(source: Side, target: Side, bar: Bar) -> None:
    """The copy may have no error that the source has not."""
    with bar("checking", 2, "databases") as progress:
        before = _errors(source)
        progress(1)
        fresh = _errors(target) - before
        progress(2)
    if fresh:
        code, ids = sorted(fresh)[0]
        raise StoreError(
            f"the copy fails {len(fresh)} checks of its integrity, first {code}: {', '.join(ids)}"
        )


def _errors(side: Side) -> set[tuple[str, tuple[str, ...]]]:
    return {(found.code, found.ids) for found in side.check().findings if found.severity is Severity.ERROR}


def _index(target: Side, bar: Bar) -> None:
    """Fills search indexes that the store does not fill by itself."""
    with target.store.read() as reader:
        state = reader.index_state()
    with bar("indexing", state.message_lag + state.summary_lag, "rows") as progress:
        done = 0
        while True:
            with target.store.write() as writer:
                count = writer.index_pending()
            if not count:
                return
            done += count
            progress(done)
