"""Reads of rows as they are, for copies of a whole database. How rows are loaded is each database's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lcm_plugin.store.dialect import Dialect
from lcm_plugin.store.transaction import Transaction
from lcm_plugin.store.transfer import TABLES, Kind, Row, Table, Value, canonical_json

_SEQ_AFTER = "(SELECT seq FROM messages WHERE conversation_id = :conversation AND message_id = :k0)"
_ROWID_AFTER = (
    "(SELECT summary_rowid FROM summaries WHERE conversation_id = :conversation AND summary_id = :k0)"
)


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a table's rows come from: the tables, which rows, in which order.

    ``bounds`` are the order's values at a key (``:k0``, ``:k1``). ``alias`` is the table's own, ``owner`` that of the
    conversation's id.
    """

    tables: str
    scope: str
    order: tuple[str, ...]
    bounds: tuple[str, ...]
    alias: str = "t"
    owner: str = "t"

    def select(self, columns: Sequence[str]) -> str:
        chosen = ", ".join(
            f"{self.owner if column == 'conversation_id' else self.alias}.{column}" for column in columns
        )
        return f"SELECT {chosen} FROM {self.tables} WHERE {self.scope}"

    def after(self) -> str:
        """The rows behind a key; the first comparison alone lets an index find where they begin."""
        order, bounds = ", ".join(self.order), ", ".join(self.bounds)
        return f" AND {self.order[0]} >= {self.bounds[0]} AND ({order}) > ({bounds})"


class TransferTable(Transaction):
    """Reads of whole rows."""

    def transfer_page(
        self, table: Table, conversation_id: int | None, after: Row | None, limit: int
    ) -> list[Row]:
        source = _source(self.sql, table, conversation_id)
        values: dict[str, Any] = {"conversation": conversation_id, "limit": limit}
        values |= {f"k{place}": value for place, value in enumerate(after or ())}
        behind = source.after() if after is not None else ""
        rows = self.all(
            f"{source.select(table.columns)}{behind} ORDER BY {', '.join(source.order)} LIMIT :limit",
            **values,
        )
        return [_row(table, row) for row in rows]

    def transfer_end(self, table: Table, conversation_id: int | None) -> Row | None:
        source = _source(self.sql, table, conversation_id)
        order = ", ".join(f"{column} DESC" for column in source.order)
        found = self.one(
            f"{source.select(table.columns)} ORDER BY {order} LIMIT 1", conversation=conversation_id
        )
        return None if found is None else _row(table, found)

    def row_counts(self) -> dict[str, int]:
        return {table.name: int(self.one(f"SELECT count(*) FROM {table.name}")[0]) for table in TABLES}


def _source(sql: Dialect, table: Table, conversation_id: int | None) -> _Source:
    if table.name == "message_parts":
        mine = sql.parts_of("m.conversation_id", "m.message_id")
        return _Source(
            "messages m CROSS JOIN message_parts p",
            f"m.conversation_id = :conversation AND {mine}",
            ("m.seq", "p.ordinal"),
            (_SEQ_AFTER, ":k1"),
            alias="p",
            owner="m",
        )
    if table.name == "removed_messages":
        return _Source(
            "messages m CROSS JOIN removed_messages t",
            "m.conversation_id = :conversation AND t.conversation_id = m.conversation_id "
            "AND t.message_id = m.message_id",
            ("m.seq",),
            (_SEQ_AFTER,),
        )
    if table.name in ("summary_messages", "summary_parents"):
        return _Source(
            f"summaries s CROSS JOIN {table.name} t",
            f"s.conversation_id = :conversation AND t.summary_id = s.summary_id{sql.same_owner('t', 's')}",
            ("s.summary_rowid", "t.ordinal"),
            (_ROWID_AFTER, ":k1"),
            owner="s",
        )
    scope = "t.conversation_id = :conversation" if conversation_id is not None else _unbound(table)
    order = tuple(_ordered(sql, table, column) for column in table.key)
    return _Source(f"{table.name} t", scope, order, tuple(f":k{place}" for place in range(len(order))))


def _unbound(table: Table) -> str:
    """Rows of no conversation; of the conversations themselves all rows."""
    return "t.conversation_id IS NULL" if table.bound and table.shared else "true"


def _ordered(sql: Dialect, table: Table, column: str) -> str:
    """A key's column, texts in the order of their bytes in every store."""
    text = table.kinds[table.position(column)] == "text"
    return sql.bytewise(f"t.{column}") if text else f"t.{column}"


def _row(table: Table, values: Sequence[Any]) -> Row:
    return tuple(_value(kind, value) for kind, value in zip(table.kinds, values, strict=True))


def _value(kind: Kind, value: Any) -> Value:
    if value is None or kind in ("integer", "text"):
        return value  # type: ignore[no-any-return]
    return bool(value) if kind == "boolean" else canonical_json(json.loads(value))
