"""Loading of rows as they are, for copies of a whole database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lcm_plugin.store.sqlite.schema import PART_ID_SHIFT
from lcm_plugin.store.sqlite.transaction import SqliteStatements
from lcm_plugin.store.tables.transfer import TransferTable
from lcm_plugin.store.transfer import (
    COUNTERS,
    MESSAGE_PARTS,
    SUMMARY_MESSAGES,
    SUMMARY_PARENTS,
    TABLES,
    Counter,
    Row,
    Table,
    Value,
)

# Their conversation is that of the message or summary that they belong to.
_WITHOUT_OWNER = (MESSAGE_PARTS, SUMMARY_MESSAGES, SUMMARY_PARENTS)


class SqliteTransfer(TransferTable, SqliteStatements):
    """Loading of whole rows."""

    def counters(self) -> dict[Counter, int]:
        given = self._given_out()
        return {name: given.get(name, 0) for name in COUNTERS}

    def load_rows(self, table: Table, rows: Sequence[Row]) -> None:
        left_out = "conversation_id" if table in _WITHOUT_OWNER else ""
        columns = [column for column in table.columns if column != left_out]
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
        known = self._given_out()
        for name, value in counters.items():
            if name not in known:
                self.run(
                    "INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :value)", name=name, value=value
                )
            elif value > known[name]:
                self.run("UPDATE sqlite_sequence SET seq = :value WHERE name = :name", name=name, value=value)

    def reserve(self, counter: Counter, count: int) -> int:
        first = self.counters()[counter] + 1
        self.raise_counters({counter: first + count - 1})
        return first

    def clear_rows(self) -> None:
        for name in ("file_blobs", *(table.name for table in reversed(TABLES))):
            self.run(f"DELETE FROM {name}")

    def _given_out(self) -> dict[str, int]:
        return {name: int(last or 0) for name, last in self.all("SELECT name, seq FROM sqlite_sequence")}
