"""A transaction of either database, as the statements in `tables/` use it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from lcm_plugin.characters import storable
from lcm_plugin.store.dialect import Dialect

_BATCH = 100


class Transaction(ABC):
    """Runs statements whose parameters are written ``:name``.

    What a database refuses in a text, NUL and lone surrogates, becomes U+FFFD in every text that is stored or looked
    for, in both databases alike.
    ``lock_row`` ends the reads of conversation rows: where writers run side by side, a writer holds the rows it decides
    about until it commits, which gives two writers of one conversation an order.
    """

    sql: ClassVar[Dialect]
    location = ""
    lock_row = ""

    def all(self, statement: str, /, **values: Any) -> list[Any]:
        """All rows of a statement."""
        found: list[Any] = self._execute(statement, storable_values(values)).fetchall()
        return found

    def one(self, statement: str, /, **values: Any) -> Any:
        """The first row of a statement; None when there is none."""
        return self._execute(statement, storable_values(values)).fetchone()

    def run(self, statement: str, /, **values: Any) -> int:
        """Runs a statement and returns how many rows it changed."""
        return int(self._execute(statement, storable_values(values)).rowcount)

    def run_many(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> int:
        """Runs a statement once for each set of values, and returns how many rows it changed in all."""
        return self._execute_many(statement, [storable_values(row) for row in rows]) if rows else 0

    def batches(self, statement: str, size: int, /, **values: Any) -> Iterator[list[Any]]:
        """The rows of a statement, fetched as they are read, up to ``size`` at a time."""
        return self._fetch(statement, size, storable_values(values))

    @abstractmethod
    def _execute(self, statement: str, values: Mapping[str, Any]) -> Any:
        """Runs a statement and returns its cursor."""

    @abstractmethod
    def _execute_many(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> int:
        """Runs a statement for some sets of values, and returns how many rows it changed."""

    @abstractmethod
    def _fetch(self, statement: str, size: int, values: Mapping[str, Any]) -> Iterator[list[Any]]:
        """The rows of a statement, ``size`` at a time."""

    def stream(self, statement: str, /, **values: Any) -> Iterator[Any]:
        """The rows of a statement, fetched as they are read."""
        for batch in self.batches(statement, _BATCH, **values):
            yield from batch

    @abstractmethod
    def ahead(self, *reads: Callable[[], object]) -> None:
        """Told which reads come next. A store that waits for a server asks for all of them at once."""

    @abstractmethod
    def has_table(self, name: str) -> bool:
        """Whether there is a table of this name."""

    @abstractmethod
    def size_bytes(self) -> int:
        """What the database takes on the disk."""

    def lock_conversation(self, conversation_id: int) -> None:
        """Locks a conversation's row, as each change of what it holds must before all else.

        Then writers of one conversation go one after another: none counts what another is changing, and no two
        wait for each other's rows.
        """
        if self.lock_row:
            self.one(
                f"SELECT 1 FROM conversations WHERE conversation_id = :here{self.lock_row}",
                here=conversation_id,
            )

    @abstractmethod
    def hold_files(self, conversation_id: int | None = None) -> None:
        """Waits for whoever stores payloads, and keeps others from it until the transaction ends.

        A message that is being stored refers to a record that may be there already, so no lock of rows keeps that
        record for it. With a conversation its runs are locked before, in the order in which a turn writes.
        """

    @abstractmethod
    def require_only_publisher(self, conversation_id: int) -> None:
        """Raises `StoreBusy` while another transaction publishes in the conversation.

        Of two that publish at one moment the second need not wait for rows that the first is about to change.
        """


def read_ahead(reader: object, *reads: Callable[[], object]) -> None:
    """Says which reads of a transaction come next, each of one statement; they are then made one by one as ever.

    One that is not made after all, or with other arguments, costs a little and changes nothing.
    """
    if isinstance(reader, Transaction):
        reader.ahead(*reads)


def storable_values(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of a statement, each text as a database can hold it."""
    return {name: value if type(value) is not str else storable(value) for name, value in values.items()}
