"""Rows as they are, for copies of a whole database."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lcm_plugin.errors import StoreBusy
from lcm_plugin.store.postgres.appending import message_kind
from lcm_plugin.store.postgres.transaction import PostgresStatements as Handle
from lcm_plugin.store.transfer_base import (
    MESSAGES,
    TABLES,
    Counter,
    Kind,
    Row,
    Table,
    Value,
    canonical_json,
    without_nul,
)

_SEQUENCES: dict[Counter, str] = {
    "conversations": "pg_get_serial_sequence('conversations', 'conversation_id')::regclass",
    "messages": "'message_ids'::regclass",
    "summaries": "'summary_rowids'::regclass",
    "removals": "pg_get_serial_sequence('removals', 'removal_id')::regclass",
    "context_snapshots": "pg_get_serial_sequence('context_snapshots', 'snapshot_id')::regclass",
}
_RESERVE_TRIES = 20


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a table's rows come from: the joined tables and in which order.

    ``bounds`` are the order's values at a key (``%(k0)s``, ``%(k1)s``).
    """

    tables: str
    order: tuple[str, ...]
    bounds: tuple[str, ...]
    scope: str = "t.conversation_id = %(conversation)s"
    casts: Mapping[Kind, str] = field(default_factory=lambda: {"text": "::text", "json": "::text"})

    def select(self, table: Table) -> str:
        typed = zip(table.columns, table.kinds, strict=True)
        chosen = ", ".join(f"t.{column}{self.casts.get(kind, '')}" for column, kind in typed)
        return f"SELECT {chosen} FROM {self.tables} WHERE {self.scope}"

    def after(self) -> str:
        """The rows behind a key; the first comparison alone lets an index find where they begin."""
        order, bounds = ", ".join(self.order), ", ".join(self.bounds)
        return f" AND {self.order[0]} >= {self.bounds[0]} AND ({order}) > ({bounds})"


_LINKS = _Source(
    "summaries s JOIN {name} t ON t.conversation_id = s.conversation_id AND t.summary_id = s.summary_id",
    ("s.summary_rowid", "t.ordinal"),
    (
        "(SELECT summary_rowid FROM summaries WHERE conversation_id = %(conversation)s AND summary_id = %(k0)s)",
        "%(k1)s",
    ),
    "s.conversation_id = %(conversation)s",
)
_SEQ_AFTER = "(SELECT seq FROM messages WHERE conversation_id = %(conversation)s AND message_id = %(k0)s)"
_SOURCES = {
    "removed_messages": _Source(
        "messages m JOIN removed_messages t ON t.conversation_id = m.conversation_id AND t.message_id = m.message_id",
        ("m.seq",),
        (_SEQ_AFTER,),
        "m.conversation_id = %(conversation)s",
    ),
    "message_parts": _Source(
        "messages m JOIN message_parts t ON t.conversation_id = m.conversation_id AND t.message_id = m.message_id",
        ("m.seq", "t.ordinal"),
        (_SEQ_AFTER, "%(k1)s"),
        "m.conversation_id = %(conversation)s",
    ),
    "summary_messages": _LINKS,
    "summary_parents": _LINKS,
}


class TransferQueries(Handle):
    """Reads of whole rows."""

    def transfer_page(
        self, table: Table, conversation_id: int | None, after: Row | None, limit: int
    ) -> list[Row]:
        source = _source(table, conversation_id)
        values: dict[str, Any] = {"conversation": conversation_id, "limit": limit}
        values |= {f"k{place}": value for place, value in enumerate(after or ())}
        behind = source.after() if after is not None else ""
        sql = f"{source.select(table)}{behind} ORDER BY {', '.join(source.order)} LIMIT %(limit)s"
        return [_row(table, row) for row in self._all(sql, values)]

    def transfer_end(self, table: Table, conversation_id: int | None) -> Row | None:
        source = _source(table, conversation_id)
        order = ", ".join(f"{column} DESC" for column in source.order)
        found = self._one(
            f"{source.select(table)} ORDER BY {order} LIMIT 1", {"conversation": conversation_id}
        )
        return None if found is None else _row(table, found)

    def row_counts(self) -> dict[str, int]:
        return {table.name: int(self._one(f"SELECT count(*) FROM {table.name}")[0]) for table in TABLES}

    def counters(self) -> dict[Counter, int]:
        return {
            name: int(self._one(f"SELECT coalesce(pg_sequence_last_value({sequence}), 0)")[0])
            for name, sequence in _SEQUENCES.items()
        }


class TransferChanges(TransferQueries):
    """Loading of whole rows."""

    def load_rows(self, table: Table, rows: Sequence[Row]) -> None:
        columns: Sequence[str] = table.columns
        chosen: Sequence[Sequence[Value]] = [without_nul(table, row) for row in rows]
        if table is MESSAGES:
            role = table.position("role")
            columns = [*columns, "kind"]
            chosen = [[*row, message_kind(str(row[role]))] for row in chosen]
        # A copy takes the ids as they are, which an insert into an identity column would refuse.
        statement = f"COPY {table.name} ({', '.join(columns)}) FROM STDIN"
        with self.db.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            for values in chosen:
                copy.write_row(values)

    def raise_counters(self, counters: Mapping[Counter, int]) -> None:
        known = self.counters()
        for name, value in counters.items():
            if value > known[name]:
                self._one(f"SELECT setval({_SEQUENCES[name]}, %s)", (value,))

    def reserve(self, counter: Counter, count: int) -> int:
        for _ in range(_RESERVE_TRIES):
            low, high = self._one(
                f"SELECT min(number), max(number) FROM (SELECT nextval({_SEQUENCES[counter]}) AS number "
                "FROM generate_series(1, %s)) taken",
                (count,),
            )
            if high - low + 1 == count:
                return int(low)
        raise StoreBusy(f"others kept taking numbers of {counter}; nothing was written, try again")

    def clear_rows(self) -> None:
        self._run(f"TRUNCATE file_blobs, {', '.join(table.name for table in TABLES)} CASCADE")


def _source(table: Table, conversation_id: int | None) -> _Source:
    special = _SOURCES.get(table.name)
    if special is not None:
        return _Source(special.tables.format(name=table.name), special.order, special.bounds, special.scope)
    order = tuple(_ordered(table, column) for column in table.key)
    bounds = tuple(f"%(k{place})s" for place in range(len(order)))
    if conversation_id is not None:
        return _Source(f"{table.name} t", order, bounds)
    return _Source(f"{table.name} t", order, bounds, _unbound(table))


def _ordered(table: Table, column: str) -> str:
    """A key's column, texts in the order of their bytes as in every other store."""
    kind = table.kinds[table.position(column)]
    return f't.{column} COLLATE "C"' if kind == "text" else f"t.{column}"


def _unbound(table: Table) -> str:
    """Rows of no conversation; of the conversations themselves all rows."""
    return "t.conversation_id IS NULL" if table.bound and table.shared else "true"


def _row(table: Table, values: Sequence[Any]) -> Row:
    return tuple(
        canonical_json(json.loads(value)) if kind == "json" and value is not None else value
        for kind, value in zip(table.kinds, values, strict=True)
    )
