"""The transfer part of the store seam: every row of a database, the same whatever store holds it.

A row is a tuple in the order of its table's columns. JSON columns are compact text with sorted keys, so that
equal rows are equal texts in every store. Rows come by conversation, each table in the order of its key; rows
that belong to no conversation come under the conversation None. What a store derives (search indexes, rowids
made of other columns) and where it keeps payload bytes are no part of a row's identity.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from lcm_plugin.characters import storable
from lcm_plugin.errors import StoreUnavailable

Kind = Literal["integer", "text", "boolean", "json"]
Value: TypeAlias = int | str | bool | None
Row: TypeAlias = tuple[Value, ...]
Counter = Literal["conversations", "messages", "summaries", "context_snapshots", "removals"]

COUNTERS: tuple[Counter, ...] = ("conversations", "messages", "summaries", "context_snapshots", "removals")
# The guard that stands in a database for as long as a copy into it is not finished.
UNFINISHED = "transfer.unfinished"


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it is carried over. ``key`` orders its rows within a conversation.

    ``bound`` tables hold rows of conversations, ``shared`` ones rows that belong to none. ``place`` is a column
    that says where bytes lie, which differs between equal databases.
    """

    name: str
    columns: tuple[str, ...]
    kinds: tuple[Kind, ...]
    key: tuple[str, ...]
    bound: bool = True
    shared: bool = False
    place: str = ""
    page: int = 500

    def position(self, column: str) -> int:
        """Where a column's value stands in a row."""
        return self.columns.index(column)

    def key_of(self, row: Row) -> Row:
        """A row's key."""
        return tuple(row[self.position(column)] for column in self.key)

    def as_dict(self, row: Row) -> dict[str, Value]:
        """A row by column names."""
        return dict(zip(self.columns, row, strict=True))

    def replaced(self, row: Row, **values: Value) -> Row:
        """The row with other values in some columns."""
        return tuple(values.get(column, value) for column, value in zip(self.columns, row, strict=True))

    def fingerprint(self, row: Row) -> bytes:
        """What two equal rows have in common, as one line."""
        kept = [value for column, value in zip(self.columns, row, strict=True) if column != self.place]
        return json.dumps(kept, separators=(",", ":")).encode() + b"\n"


def _table(
    name: str,
    key: str,
    *,
    integers: str,
    texts: str = "",
    booleans: str = "",
    documents: str = "",
    **more: Any,
) -> Table:
    groups: tuple[tuple[Kind, str], ...] = (
        ("integer", integers),
        ("text", texts),
        ("boolean", booleans),
        ("json", documents),
    )
    columns = [(column, kind) for kind, names in groups for column in names.split()]
    return Table(name, tuple(c for c, _ in columns), tuple(k for _, k in columns), tuple(key.split()), **more)


CONVERSATIONS = _table(
    "conversations",
    "conversation_id",
    integers="conversation_id created_at updated_at archived_at revision next_seq message_count raw_items raw_tokens "
    "summary_items summary_tokens restart_seq plan_id",
    texts="session_key session_id title archive_cause instructions project source",
    booleans="active by_person",
)
SESSION_RUNS = _table(
    "session_runs",
    "session_id session_key",
    integers="conversation_id last_seen_at",
    texts="session_id session_key",
    shared=True,
)
MESSAGES = _table(
    "messages",
    "seq",
    integers="conversation_id message_id seq tokens identity created_at group_seq withdrawn_at follows "
    "cleared_tokens",
    texts="role host_id sender channel calls answers skeleton",
    booleans="hidden speaks",
)
MESSAGE_PARTS = _table(
    "message_parts",
    "message_id ordinal",
    integers="conversation_id message_id ordinal",
    texts="type path text exact tool_name tool_call_id file_id metadata",
    page=200,
)
SUMMARIES = _table(
    "summaries",
    "summary_rowid",
    integers="conversation_id summary_rowid depth tokens earliest_at latest_at first_seq last_seq descendant_count "
    "message_count source_tokens message_tokens created_at made_ms",
    texts="summary_id kind content level model prompt_version fallback_cause",
    booleans="fallback capped",
    documents="file_ids",
)
SUMMARY_MESSAGES = _table(
    "summary_messages",
    "summary_id ordinal",
    integers="conversation_id ordinal message_id",
    texts="summary_id",
)
SUMMARY_PARENTS = _table(
    "summary_parents",
    "summary_id ordinal",
    integers="conversation_id ordinal",
    texts="summary_id parent_summary_id",
)
SUMMARY_TEXTS = _table(
    "summary_texts",
    "summary_id version",
    integers="conversation_id version tokens made_ms replaced_at",
    texts="summary_id content level model prompt_version fallback_cause replaced_by",
    booleans="fallback capped",
)
CONTEXT_ITEMS = _table(
    "context_items",
    "ordinal",
    integers="conversation_id ordinal message_id tokens",
    texts="item_type summary_id",
)
CONTEXT_SNAPSHOTS = _table(
    "context_snapshots",
    "snapshot_id",
    integers="conversation_id snapshot_id created_at revision restored_at",
    texts="cause",
    documents="items",
    page=5,
)
LARGE_FILES = _table(
    "large_files",
    "file_id",
    integers="conversation_id byte_size line_count created_at",
    texts="file_id sha256 storage_uri file_name mime_type exploration_summary",
    booleans="truncated",
    place="storage_uri",
    page=20,
)
PINS = _table(
    "pins",
    "pin_id",
    integers="conversation_id tokens created_at message_id",
    texts="pin_id text pinned_by speaker",
)
SENT_CONTEXTS = _table(
    "sent_contexts",
    "turn",
    integers="conversation_id turn request_id calls sent_at tokens budget overhead room made_ms",
    texts="model policy items quotes no_quotes notices",
    booleans="over_budget",
    page=50,
)
MAPS = _table(
    "maps",
    "map_id",
    integers="conversation_id created_at updated_at items done failed tokens_in tokens_out cost",
    texts="map_id prompt answer_schema model options source state reason",
)
MAP_ITEMS = _table(
    "map_items",
    "map_id place",
    integers="conversation_id place tokens attempts tokens_in tokens_out cost lease_until",
    texts="map_id ref content item_key state answer error model owner",
)
COMPACTION_DEBT = _table(
    "compaction_debt",
    "conversation_id",
    integers="conversation_id requested_at budget attempts next_attempt_at lease_until revision next_seq overhead "
    "context_window",
    texts="state reason owner last_error model",
)
GUARDS = _table(
    "guards", "guard_key", integers="", texts="guard_key", documents="state", bound=False, shared=True
)

REMOVALS = _table(
    "removals",
    "removal_id",
    integers="removal_id created_at conversations messages summaries files bytes",
    texts="kind requested_by",
    bound=False,
    shared=True,
)
REMOVED_MESSAGES = _table(
    "removed_messages",
    "message_id",
    integers="conversation_id message_id removal_id former_identity",
    booleans="whole",
)

# In an order in which every reference finds what it refers to, when what belongs to no conversation comes first.
TABLES = (
    REMOVALS,
    GUARDS,
    CONVERSATIONS,
    SESSION_RUNS,
    MESSAGES,
    MESSAGE_PARTS,
    SUMMARIES,
    SUMMARY_MESSAGES,
    SUMMARY_PARENTS,
    SUMMARY_TEXTS,
    CONTEXT_ITEMS,
    CONTEXT_SNAPSHOTS,
    LARGE_FILES,
    PINS,
    SENT_CONTEXTS,
    MAPS,
    MAP_ITEMS,
    COMPACTION_DEBT,
    REMOVED_MESSAGES,
)
BY_NAME = {table.name: table for table in TABLES}


class TransferReader(Protocol):
    """Rows as they are, in bounded pages. Each call costs what it returns."""

    def transfer_page(
        self, table: Table, conversation_id: int | None, after: Row | None, limit: int
    ) -> list[Row]:
        """The next rows of a table after a key, of one conversation or of none."""

    def transfer_end(self, table: Table, conversation_id: int | None) -> Row | None:
        """The last row of a table, of one conversation or of none."""

    def row_counts(self) -> dict[str, int]:
        """How many rows each of the `TABLES` has."""

    def counters(self) -> dict[Counter, int]:
        """The highest number that each counter ever gave out; 0 when it gave none."""


class TransferWriter(TransferReader, Protocol):
    """Loading rows as they are. Nothing is derived but what the store derives by itself."""

    def load_rows(self, table: Table, rows: Sequence[Row]) -> None:
        """Stores rows that are not there yet, with the ids they have."""

    def raise_counters(self, counters: Mapping[Counter, int]) -> None:
        """Makes counters go on after these numbers; none is ever lowered."""

    def reserve(self, counter: Counter, count: int) -> int:
        """Takes ``count`` numbers that follow each other out of a counter and returns the first."""

    def clear_rows(self) -> None:
        """Empties every table, the bytes of payloads too; counters stay."""

    def drop_guard(self, key: str) -> None:
        """Removes a guard's state."""


def rows_of(
    reader: TransferReader, table: Table, conversation_id: int | None, after: Row | None = None
) -> Iterator[Row]:
    """The rows of a table after a key, of one conversation or of none, in bounded memory."""
    while page := reader.transfer_page(table, conversation_id, after, table.page):
        yield from page
        after = table.key_of(page[-1])


def tables_of(conversation_id: int | None) -> tuple[Table, ...]:
    """The tables that hold rows of a conversation, or of none; in an order in which they can be loaded."""
    return tuple(table for table in TABLES if (table.shared if conversation_id is None else table.bound))


def conversation_ids(reader: TransferReader) -> Iterator[int]:
    """Every conversation's id, ascending."""
    after: Row | None = None
    while page := reader.transfer_page(CONVERSATIONS, None, after, CONVERSATIONS.page):
        yield from (int(row[0] or 0) for row in page)
        after = CONVERSATIONS.key_of(page[-1])


def table_hashes(reader: TransferReader, conversations: Iterable[int] | None = None) -> dict[str, str]:
    """The SHA-256 of each table's rows, in order: equal for equal databases, whatever stores hold them.

    With ``conversations`` only of their rows; without, of the whole database.
    """
    digests = {table.name: hashlib.sha256() for table in TABLES}
    scopes: Iterable[int | None]
    scopes = (None, *conversation_ids(reader)) if conversations is None else conversations
    for scope in scopes:
        for table in tables_of(scope):
            for row in rows_of(reader, table, scope):
                digests[table.name].update(table.fingerprint(row))
    return {name: digest.hexdigest() for name, digest in digests.items()}


def canonical_json(value: Any) -> str:
    """JSON as a row holds it: compact, keys sorted, whole numbers without a fraction."""
    return json.dumps(_whole_numbers(value), sort_keys=True, separators=(",", ":"))


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    return [_whole_numbers(item) for item in value] if isinstance(value, list) else value


def without_nul(table: Table, row: Row) -> Row:
    """The row as PostgreSQL can hold it, which an earlier version's rows in SQLite may not be."""
    return tuple(
        value if not isinstance(value, str) else _storable(value, kind)
        for kind, value in zip(table.kinds, row, strict=True)
    )


def _storable(text: str, kind: Kind) -> str:
    if kind == "json":
        return canonical_json(_each_text(json.loads(text)))
    return storable(text)


def _each_text(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {_each_text(key): _each_text(item) for key, item in value.items()}
    return [_each_text(item) for item in value] if isinstance(value, list) else value


def refuse_unfinished(state: Mapping[str, Any] | None, location: str) -> None:
    """Raises `StoreUnavailable` when a copy into this database was begun and not finished."""
    if state is not None:
        raise StoreUnavailable(
            f"{location} holds an unfinished copy of {state.get('source', 'another database')}: "
            "run the same 'lcm migrate-store' again to finish it"
        )
