"""Giving the rows of a file numbers and names that are free in the database they come into."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.interchange.transfer.format import NUMBERED
from lcm_plugin.store.insight.contexts import with_other_ids
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.transfer import (
    CONTEXT_SNAPSHOTS,
    MESSAGE_PARTS,
    SENT_CONTEXTS,
    Counter,
    Row,
    Table,
    Value,
    canonical_json,
)

_COUNTER_OF = {column: counter for counter, column in NUMBERED.items()}
_LOOSE = {("pins", "message_id"), ("conversations", "plan_id")}
_REQUEST = ("sent_contexts", "request_id")
_NAMED = ("summary_id", "parent_summary_id", "map_id")


class Renumbering:
    """Shifts each counter's numbers by one amount, and renames summaries and maps whose id is taken.

    ``spans`` are the numbers that may come, ``first`` the first free number of each counter.
    """

    def __init__(
        self, reader: Reader, spans: dict[Counter, tuple[int, int]], first: dict[Counter, int]
    ) -> None:
        self._reader = reader
        self._spans = spans
        self._shift = {counter: first[counter] - low for counter, (low, _) in spans.items()}
        self._names: dict[str, str] = {}
        self._conversation = 0

    def enter(self, conversation_id: int) -> None:
        """Rows of another conversation follow."""
        self._names.clear()
        self._conversation = conversation_id

    def number(self, counter: Counter, value: Value) -> Value:
        """The new number for one of the file."""
        if not isinstance(value, int):
            return value
        if not self._holds(counter, value):
            low, high = self._spans[counter]
            raise InputError(
                f"the file holds number {value} of {counter}, its header promises {low} to {high}"
            )
        return value + self._shift[counter]

    def _holds(self, counter: Counter, value: Value) -> bool:
        """Whether the file may have a row of this number."""
        low, high = self._spans[counter]
        return isinstance(value, int) and low <= value <= high

    def name(self, name: str) -> str:
        """The new id of a summary or a map: its own unless another conversation has it."""
        if name not in self._names:
            is_map = name.startswith("map_")
            taken = self._reader.map(name) is not None if is_map else bool(self._reader.summaries([name]))
            self._names[name] = self._other_name(name) if taken else name
        return self._names[name]

    def row(self, table: Table, row: Row) -> Row:
        """The row with its new numbers and names."""
        changed: dict[str, Value] = {}
        for column, value in zip(table.columns, row, strict=True):
            if (table.name, column) in _LOOSE:
                # What was pinned may have been said in a conversation that is not in the file.
                changed[column] = self.number("messages", value) if self._holds("messages", value) else None
            elif (table.name, column) == _REQUEST:
                changed[column] = self.number("messages", value) if self._holds("messages", value) else 0
            elif column in _COUNTER_OF:
                changed[column] = self.number(_COUNTER_OF[column], value)
            elif column in _NAMED and isinstance(value, str):
                changed[column] = self.name(value)
        if table is CONTEXT_SNAPSHOTS:
            changed["items"] = self._items(str(row[table.position("items")]))
        elif table is SENT_CONTEXTS:
            items, quotes = (str(row[table.position(name)]) for name in ("items", "quotes"))
            changed["items"], changed["quotes"] = with_other_ids(items, quotes, self._ref)
        elif table is MESSAGE_PARTS and row[table.position("type")] == "compaction":
            changed["metadata"] = self._metadata(row[table.position("metadata")])
        return table.replaced(row, **changed)

    def _items(self, text: str) -> str:
        items: list[list[Any]] = json.loads(text)
        for item in items:
            item[2] = self.number("messages", item[2]) if item[1] == "message" else self.name(str(item[2]))
        return canonical_json(items)

    def _ref(self, ref: str) -> str:
        """The new id of what stood in a context; empty for a message that is not in the file."""
        if ref.startswith("sum_"):
            return self.name(ref)
        if not ref.startswith("msg_"):
            return ref
        number = int(ref[4:])
        return f"msg_{self.number('messages', number)}" if self._holds("messages", number) else ""

    def _metadata(self, text: Value) -> Value:
        """Renames the summary that a compaction part names."""
        found = json.loads(text) if isinstance(text, str) else None
        if not isinstance(found, dict) or not isinstance(found.get("summary_id"), str):
            return text
        return json.dumps(found | {"summary_id": self.name(found["summary_id"])})

    def _other_name(self, name: str) -> str:
        seed = f"{name} in {self.number('conversations', self._conversation)}"
        return f"{name[:4]}{hashlib.sha256(seed.encode()).hexdigest()[:16]}"
