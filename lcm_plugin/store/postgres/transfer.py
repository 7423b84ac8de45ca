"""Loading of rows as they are, for copies of a whole database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lcm_plugin.errors import StoreBusy
from lcm_plugin.store.postgres.appending import message_kind
from lcm_plugin.store.postgres.transaction import PostgresStatements
from lcm_plugin.store.tables.transfer import TransferTable
from lcm_plugin.store.transfer import MESSAGES, TABLES, Counter, Row, Table, Value, without_nul

_SEQUENCES: dict[Counter, str] = {
    "conversations": "pg_get_serial_sequence('conversations', 'conversation_id')::regclass",
    "messages": "'message_ids'::regclass",
    "summaries": "'summary_rowids'::regclass",
    "removals": "pg_get_serial_sequence('removals', 'removal_id')::regclass",
    "context_snapshots": "pg_get_serial_sequence('context_snapshots', 'snapshot_id')::regclass",
}
_RESERVE_TRIES = 20


class PostgresTransfer(TransferTable, PostgresStatements):
    """Loading of whole rows."""

    def counters(self) -> dict[Counter, int]:
        return {
            name: int(self.one(f"SELECT coalesce(pg_sequence_last_value({sequence}), 0)")[0])
            for name, sequence in _SEQUENCES.items()
        }

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
                self.one(f"SELECT setval({_SEQUENCES[name]}, :value)", value=value)

    def reserve(self, counter: Counter, count: int) -> int:
        for _ in range(_RESERVE_TRIES):
            low, high = self.one(
                f"SELECT min(number), max(number) FROM (SELECT nextval({_SEQUENCES[counter]}) AS number "
                "FROM generate_series(1, :count)) taken",
                count=count,
            )
            if high - low + 1 == count:
                return int(low)
        raise StoreBusy(f"others kept taking numbers of {counter}; nothing was written, try again")

    def clear_rows(self) -> None:
        self.run(f"TRUNCATE file_blobs, {', '.join(table.name for table in TABLES)} CASCADE")
