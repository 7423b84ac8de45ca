"""Rows as they are, for copies of a whole database."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lcm_plugin.store.sqlite.schema import PART_ID_SHIFT
from lcm_plugin.store.sqlite.transaction import SqliteStatements as Handle
from lcm_plugin.store.transfer_base import (
    COUNTERS,
    MESSAGE_PARTS,
    TABLES,
    Counter,
    Kind,
    Row,
    Table,
    Value,
    canonical_json,
)

_OF_CONVERSATION = "t.conversation_id = :conversation"


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a table's rows come from: the joined tables, which rows, in which order.

    ``bounds`` are the order's values at a key (``:k0``, ``:k1``); ``borrowed`` are columns of another table.
    """

    tables: str
    scope: str
    order: tuple[str, ...]
    bounds: tuple[str, ...]
    borrowed: Mapping[str, str] = field(default_factory=dict)

    def select(self, columns: Sequence[str]) -> str:
        chosen = ", ".join(self.borrowed.get(column, f"t.{column}") for column in columns)
        return f"SELECT {chosen} FROM {self.tables} WHERE {self.scope}"

    def after(self) -> str:
        """The rows behind a key; the first comparison alone lets an index find where they begin."""
        order, bounds = ", ".join(self.order), ", ".join(self.bounds)
        return f" AND {self.order[0]} >= {self.bounds[0]} AND ({order}) > ({bounds})"


_HERE = "SELECT summary_rowid FROM summaries WHERE conversation_id = :conversation"
_LINKS = _Source(
    "summaries s CROSS JOIN {name} t ON t.summary_id = s.summary_id",
    f"s.summary_rowid IN ({_HERE})",
    ("s.summary_rowid", "t.ordinal"),
    ("(SELECT summary_rowid FROM summaries WHERE summary_id = :k0)", ":k1"),
    {"conversation_id": "s.conversation_id"},
)
_SOURCES = {
    "message_parts": _Source(
        "messages m CROSS JOIN message_parts t ON t.part_id >= m.message_id * 65536 "
        "AND t.part_id < (m.message_id + 1) * 65536",
        "m.conversation_id = :conversation",
        ("m.seq", "t.ordinal"),
        ("(SELECT seq FROM messages WHERE message_id = :k0)", ":k1"),
        {"conversation_id": "m.conversation_id"},
    ),
    # By rowid, so that no text has to be sorted.
    "summaries": _Source("summaries t", f"t.summary_rowid IN ({_HERE})", ("t.summary_rowid",), (":k0",)),
    "removed_messages": _Source(
        "messages m CROSS JOIN removed_messages t ON t.message_id = m.message_id",
        "m.conversation_id = :conversation",
        ("m.seq",),
        ("(SELECT seq FROM messages WHERE message_id = :k0)",),
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
        values: dict[str, Value] = {"conversation": conversation_id, "limit": limit}
        values |= {f"k{place}": value for place, value in enumerate(after or ())}
        behind = source.after() if after is not None else ""
        sql = f"{source.select(table.columns)}{behind} ORDER BY {', '.join(source.order)} LIMIT :limit"
        return [_row(table, row) for row in self.db.execute(sql, values)]

    def transfer_end(self, table: Table, conversation_id: int | None) -> Row | None:
        source = _source(table, conversation_id)
        order = ", ".join(f"{column} DESC" for column in source.order)
        found = self.db.execute(
            f"{source.select(table.columns)} ORDER BY {order} LIMIT 1", {"conversation": conversation_id}
        ).fetchone()
        return None if found is None else _row(table, found)

    def row_counts(self) -> dict[str, int]:
        return {table.name: int(self._one(f"SELECT count(*) FROM {table.name}")[0]) for table in TABLES}

    def counters(self) -> dict[Counter, int]:
        given = dict(self._all("SELECT name, seq FROM sqlite_sequence"))
        return {name: int(given.get(name) or 0) for name in COUNTERS}


class TransferChanges(TransferQueries):
    """Loading of whole rows."""

    def load_rows(self, table: Table, rows: Sequence[Row]) -> None:
        borrowed = _source(table, None).borrowed
        columns = [column for column in table.columns if column not in borrowed]
        places = [table.position(column) for column in columns]
        chosen: list[Sequence[Value]] = [[row[place] for place in places] for row in rows]
        if table is MESSAGE_PARTS:
            message, ordinal = table.position("message_id"), table.position("ordinal")
            columns.append("part_id")
            chosen = [
                [*values, (int(row[message] or 0) << PART_ID_SHIFT) + int(row[ordinal] or 0)]
                for values, row in zip(chosen, rows, strict=True)
            ]
        marks = ", ".join("?" * len(columns))
        self.db.executemany(f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({marks})", chosen)

    def raise_counters(self, counters: Mapping[Counter, int]) -> None:
        known = dict(self._all("SELECT name, seq FROM sqlite_sequence"))
        for name, value in counters.items():
            if name not in known:
                self.db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, value))
            elif value > known[name]:
                self.db.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (value, name))

    def reserve(self, counter: Counter, count: int) -> int:
        first = self.counters()[counter] + 1
        self.raise_counters({counter: first + count - 1})
        return first

    def clear_rows(self) -> None:
        for name in ("file_blobs", *(table.name for table in reversed(TABLES))):
            self.db.execute(f"DELETE FROM {name}")


def _source(table: Table, conversation_id: int | None) -> _Source:
    special = _SOURCES.get(table.name)
    if special is not None:
        return _Source(
            special.tables.format(name=table.name),
            special.scope,
            special.order,
            special.bounds,
            special.borrowed,
        )
    scope = _OF_CONVERSATION if conversation_id is not None else _unbound(table)
    order = tuple(f"t.{column}" for column in table.key)
    return _Source(f"{table.name} t", scope, order, tuple(f":k{place}" for place in range(len(order))))


def _unbound(table: Table) -> str:
    """Rows of no conversation; of the conversations themselves all rows."""
    return "t.conversation_id IS NULL" if table.bound and table.shared else "true"


def _row(table: Table, values: Sequence[Any]) -> Row:
    return tuple(_value(kind, value) for kind, value in zip(table.kinds, values, strict=True))


def _value(kind: Kind, value: Any) -> Value:
    if value is None or kind in ("integer", "text"):
        return value  # type: ignore[no-any-return]
    return bool(value) if kind == "boolean" else canonical_json(json.loads(value))
