"""Gathering rows so that many small tables cost few transactions and large ones little memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.transfer import Row, Table, rows_of, tables_of

MOST_ROWS = 1_000
MOST_CHARACTERS = 8_000_000

TableRow = tuple[Table, Row]


def all_rows(reader: Reader, scope: int | None) -> Iterator[TableRow]:
    """Every row of a conversation, or of none, in an order in which they can be loaded."""
    for table in tables_of(scope):
        for row in rows_of(reader, table, scope):
            yield table, row


def batches(rows: Iterator[TableRow]) -> Iterator[list[TableRow]]:
    """The rows in runs that are bounded in number and in text."""
    batch: list[TableRow] = []
    characters = 0
    for table, row in rows:
        batch.append((table, row))
        characters += sum(len(value) for value in row if isinstance(value, str))
        if len(batch) >= MOST_ROWS or characters >= MOST_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def by_table(batch: list[TableRow]) -> Iterator[tuple[Table, list[Row]]]:
    """A batch's runs of rows of one table."""
    for table, group in groupby(batch, key=lambda pair: pair[0]):
        yield table, [row for _, row in group]
