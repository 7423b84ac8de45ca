"""One SELECT over the answers of maps, in a database of its own that holds nothing else and can do nothing else.

The statement comes from a model or a person. It reads tables that were filled for it, in a temporary database that
ends with it: no other table, file, setting or extension is within its reach, and its time and the length of its values
are bounded.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from lcm_plugin.errors import InputError

LONGEST_VALUE = 1_000_000
LONGEST_STATEMENT = 10_000
_STEPS_PER_LOOK = 10_000
_FIXED = ("place", "ref", "item", "state", "error")
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
_REFUSED_FUNCTIONS = frozenset(
    {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "zeroblob"}
)


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of a SELECT; ``more`` when there are others behind them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool


class AnswerTables:
    """Tables of answers, for one SELECT at a time. A context manager."""

    def __init__(self) -> None:
        # An empty name is a database that spills to a temporary file and is gone when it is closed.
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    def add(self, name: str, columns: Sequence[str], rows: Iterable[tuple[tuple[Any, ...], Any]]) -> None:
        """A table with the fixed columns, and one for each property that an answer may have.

        A row is the fixed columns' values and the answer. Where answers are no objects they stand in ``value``; lists
        and objects inside of one stand as JSON.
        """
        own = [column for column in columns if column.lower() not in _FIXED]
        names = [*_FIXED, *own]
        self._db.execute(f"CREATE TABLE {_quoted(name)} ({', '.join(map(_quoted, names))})")
        marks = ", ".join("?" * len(names))
        self._db.execute("BEGIN")
        self._db.executemany(
            f"INSERT INTO {_quoted(name)} VALUES ({marks})",
            (
                (*(_cut(value) for value in fixed), *(cell(answer, column) for column in own))
                for fixed, answer in rows
            ),
        )
        self._db.execute("COMMIT")

    def alias(self, name: str, table: str) -> None:
        """Another name for a table."""
        self._db.execute(f"CREATE VIEW {_quoted(name)} AS SELECT * FROM {_quoted(table)}")

    def select(self, statement: str, most_rows: int, seconds: float) -> Result:
        """The first rows of a statement. Raises `InputError` when it is not one SELECT, or takes too long."""
        if len(statement) > LONGEST_STATEMENT:
            raise InputError(f"sql has {len(statement):,} characters; {LONGEST_STATEMENT:,} are allowed")
        end = time.monotonic() + seconds
        self._db.set_authorizer(_authorize)
        self._db.set_progress_handler(lambda: int(time.monotonic() > end), _STEPS_PER_LOOK)
        try:
            with closing(self._db.execute(statement)) as cursor:
                if cursor.description is None:
                    raise InputError("sql must be one SELECT statement")
                rows = cursor.fetchmany(most_rows + 1)
                columns = tuple(column[0] for column in cursor.description)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise InputError(_explained(error, seconds)) from error
        finally:
            self._db.set_progress_handler(None, 0)
            self._db.set_authorizer(None)
        return Result(columns, tuple(rows[:most_rows]), len(rows) > most_rows)


def _authorize(action: int, first: str | None, second: str | None, *_: object) -> int:
    if action not in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and second in _REFUSED_FUNCTIONS):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _explained(error: Exception, seconds: float) -> str:
    text = str(error)
    if text == "interrupted":
        return f"sql takes more than {seconds:g} s; filter or group earlier"
    if "not authorized" in text or "prohibited" in text:
        return "sql may only read: one SELECT over the tables of answers, without recursion"
    if "one statement at a time" in text:
        return "sql must be one SELECT statement"
    return f"sql: {text}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def cell(answer: Any, column: str) -> Any:
    """An answer's value in a column: a number, a text, or None; lists and objects as JSON."""
    value = answer.get(column) if isinstance(answer, dict) else answer if column == "value" else None
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value)
    if isinstance(value, (dict, list)):
        return _cut(json.dumps(value, ensure_ascii=False))
    return _cut(value)


def _cut(value: Any) -> Any:
    """Four bytes a character at most, so that no text is longer than a value may be."""
    return value[: LONGEST_VALUE // 4 - 1] if isinstance(value, str) else value
