"""What SQLite and PostgreSQL do not write alike, as fragments of statements.

The statements in `tables/` are SQL that both read, with parameters as ``:name``; where the two differ they take a
fragment from here. Everything else both write alike: ``true`` and ``false``, ``active`` and ``NOT hidden`` as
conditions (partial indexes are only found when these keep their form), ``RETURNING``, ``FILTER``, row values.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from lcm_plugin.characters import storable


class Dialect(ABC):
    """The fragments that statements are put together from, and the form of values that are lists."""

    # Begin the columns and values of a row in tables that only PostgreSQL keeps by conversation (``:here``).
    owner: str
    owner_value: str
    newline: str
    # The condition that a summary's links are those of the conversation ``:here``.
    links_here: str
    # Ends a read of a row that is about to be changed; leaves out rows that somebody else is changing.
    skip_locked: str
    # How an index orders texts that are looked for by their beginning.
    pattern_order: str

    @abstractmethod
    def array(self, values: Sequence[Any]) -> Any:
        """A list as the value of a parameter for `any_of` and `given`."""

    @abstractmethod
    def any_of(self, name: str) -> str:
        """The condition that a column is among the values of a list parameter: ``WHERE seq {any_of('seqs')}``."""

    @abstractmethod
    def begins(self, column: str) -> str:
        """The condition that a text begins with ``:prefix``, as an index can answer it; ``:end`` is the last such text."""

    @abstractmethod
    def ids_here(self, column: str, kind: str = "bigint") -> str:
        """The condition that an id is among ``:ids``, which belong to the conversation ``:here``.

        PostgreSQL finds rows by their conversation and id, SQLite by the id alone, and would walk the conversation.
        """

    @abstractmethod
    def given(self, name: str, kind: str = "bigint") -> str:
        """A list parameter as a table of that name with the column ``value``, to be joined in its order."""

    @abstractmethod
    def looked_up(self, given: str, table: str, condition: str) -> str:
        """``FROM`` and ``WHERE``: for each row of a list the rows of a table, found through an index."""

    @abstractmethod
    def greatest(self, *values: str) -> str:
        """The largest of some values."""

    @abstractmethod
    def least(self, *values: str) -> str:
        """The smallest of some values."""

    @abstractmethod
    def enum(self, value: str, kind: str) -> str:
        """A value as one of an enumerated type."""

    @abstractmethod
    def octets(self, text: str) -> str:
        """The length of a text in bytes."""

    @abstractmethod
    def parts_of(self, conversation: str, message: str) -> str:
        """The condition that ``message_parts p`` belongs to a message."""

    @abstractmethod
    def part_key(self, conversation: str, message: str, ordinal: str) -> tuple[str, str]:
        """The first column of ``message_parts`` and its value."""

    @abstractmethod
    def same_owner(self, left: str, right: str) -> str:
        """Ends the condition of a join between two tables that only PostgreSQL keeps by conversation."""

    @abstractmethod
    def indexed_by(self, name: str) -> str:
        """Names the index that SQLite would not choose by itself."""

    @abstractmethod
    def bytewise(self, column: str) -> str:
        """A text column in the order of its bytes."""

    @abstractmethod
    def json_items(self, array: str, key: str = "") -> str:
        """The items of a JSON array, or of that under a key, as a table ``e`` with the column ``value``."""

    @abstractmethod
    def json_item(self, array: str, place: int, kind: str = "bigint") -> str:
        """An item of a JSON array as a value."""

    @abstractmethod
    def json_array(self, *columns: str) -> str:
        """A JSON array of columns."""

    @abstractmethod
    def json_either(self, number: str, text: str) -> str:
        """The one of two columns that is not NULL, for `json_array`."""

    @abstractmethod
    def json_list(self, item: str) -> str:
        """All rows' items as one JSON array, in the order of the rows."""

    @abstractmethod
    def json_object(self, **values: str) -> str:
        """A JSON object as text."""

    @abstractmethod
    def json_field(self, document: str, path: str) -> str:
        """A field of a JSON document as text, by its dotted path; true and false are ``'true'`` or ``'1'``, and so on."""

    @abstractmethod
    def plain_text(self, column: str) -> str:
        """A column of an enumerated type as text."""

    @abstractmethod
    def utc(self, milliseconds: str) -> str:
        """A time as ISO 8601 text."""

    @abstractmethod
    def is_block(self, part: str) -> str:
        """Whether a part's text is a whole block of its message, as JSON."""

    @abstractmethod
    def block(self, part: str, message: str) -> str:
        """The block of a message that a part stands in, as JSON; NULL when there is none."""

    @abstractmethod
    def joined(self, text: str, separator: str) -> str:
        """All rows' texts as one; the separator is written as in SQL, quotes included."""


class SqliteDialect(Dialect):
    """SQLite's fragments. Lists are JSON, and message parts lie under their message's id times 65,536."""

    owner = owner_value = ""
    newline = "char(10)"
    links_here = "summary_id IN (SELECT summary_id FROM summaries WHERE conversation_id = :here)"
    skip_locked = ""
    pattern_order = ""

    def array(self, values: Sequence[Any]) -> Any:
        return json.dumps(_storable(values))

    def any_of(self, name: str) -> str:
        return f"IN (SELECT value FROM json_each(:{name}))"

    def begins(self, column: str) -> str:
        return f"{column} >= :prefix AND {column} < :end"

    def ids_here(self, column: str, kind: str = "bigint") -> str:
        return f"{column} IN (SELECT value FROM json_each(:ids))"

    def given(self, name: str, kind: str = "bigint") -> str:
        return f"json_each(:{name}) {name}"

    def looked_up(self, given: str, table: str, condition: str) -> str:
        return f"FROM {given} CROSS JOIN {table} WHERE {condition}"

    def greatest(self, *values: str) -> str:
        return f"max({', '.join(values)})"

    def least(self, *values: str) -> str:
        return f"min({', '.join(values)})"

    def enum(self, value: str, kind: str) -> str:
        return value

    def octets(self, text: str) -> str:
        return f"length(CAST({text} AS BLOB))"

    def parts_of(self, conversation: str, message: str) -> str:
        return f"p.part_id >= {message} * 65536 AND p.part_id < ({message} + 1) * 65536"

    def part_key(self, conversation: str, message: str, ordinal: str) -> tuple[str, str]:
        return "part_id", f"{message} * 65536 + {ordinal}"

    def same_owner(self, left: str, right: str) -> str:
        return ""

    def indexed_by(self, name: str) -> str:
        return f" INDEXED BY {name}"

    def bytewise(self, column: str) -> str:
        return column

    def json_items(self, array: str, key: str = "") -> str:
        return f"json_each({array}, '$.{key}') e" if key else f"json_each({array}) e"

    def json_item(self, array: str, place: int, kind: str = "bigint") -> str:
        return f"json_extract({array}, '$[{place}]')"

    def json_array(self, *columns: str) -> str:
        return f"json_array({', '.join(columns)})"

    def json_either(self, number: str, text: str) -> str:
        return f"coalesce({number}, {text})"

    def json_list(self, item: str) -> str:
        return f"json_group_array(json({item}))"

    def json_object(self, **values: str) -> str:
        return f"json_object({_pairs(values)})"

    def joined(self, text: str, separator: str) -> str:
        return f"group_concat({text}, {separator})"

    def json_field(self, document: str, path: str) -> str:
        return f"CAST(json_extract({document}, '$.{path}') AS text)"

    def plain_text(self, column: str) -> str:
        return column

    def utc(self, milliseconds: str) -> str:
        return f"strftime('%Y-%m-%dT%H:%M:%fZ', ({milliseconds}) / 1000.0, 'unixepoch')"

    def is_block(self, part: str) -> str:
        # The metadata alone says that a text is JSON; a block is what stands directly in a list.
        inner = f"substr({part}.path, instr({part}.path, '.') + 1)"
        return (
            f"({part}.metadata IS NOT NULL AND {part}.path LIKE '%.%' AND {inner} NOT GLOB '*[^0-9]*' "
            f"AND json_valid({part}.text))"
        )

    def block(self, part: str, message: str) -> str:
        # A path begins with the key of a list and a place in it: content.2.state.input.
        key = f"substr({part}.path, 1, instr({part}.path, '.') - 1)"
        inner = f"substr({part}.path, instr({part}.path, '.') + 1)"
        return (
            f"CASE WHEN {self.is_block(part)} THEN {part}.text WHEN {inner} GLOB '[0-9]*' "
            f"AND json_valid({message}.skeleton) THEN json_extract({message}.skeleton, "
            f"'$.\"' || {key} || '\"[' || CAST({inner} AS integer) || ']') END"
        )


class PostgresDialect(Dialect):
    """PostgreSQL's fragments."""

    owner, owner_value = "conversation_id, ", ":here, "
    newline = "chr(10)"
    links_here = "conversation_id = :here"
    skip_locked = " FOR UPDATE SKIP LOCKED"
    pattern_order = " text_pattern_ops"

    def array(self, values: Sequence[Any]) -> Any:
        return _storable(values)

    def any_of(self, name: str) -> str:
        return f"= ANY(:{name})"

    def begins(self, column: str) -> str:
        return f"{column} ~>=~ :prefix AND {column} ~<~ :end"

    def ids_here(self, column: str, kind: str = "bigint") -> str:
        # As rows, so that the planner can only look each id up: by the conversation alone a generic plan would read
        # all of a long one, which it takes to be of average length.
        return f"(conversation_id, {column}) IN (SELECT :here::bigint, unnest(:ids::{kind}[]))"

    def given(self, name: str, kind: str = "bigint") -> str:
        return f"unnest(:{name}::{kind}[]) AS {name} (value)"

    def looked_up(self, given: str, table: str, condition: str) -> str:
        # The planner, which cannot know how long the list will be, would read the table once instead.
        name, alias = table.split()
        return f"FROM {given} CROSS JOIN LATERAL (SELECT * FROM {name} {alias} WHERE {condition} OFFSET 0) {alias}"

    def greatest(self, *values: str) -> str:
        return f"greatest({', '.join(values)})"

    def least(self, *values: str) -> str:
        return f"least({', '.join(values)})"

    def enum(self, value: str, kind: str) -> str:
        return f"{value}::{kind}"

    def octets(self, text: str) -> str:
        return f"octet_length({text})"

    def parts_of(self, conversation: str, message: str) -> str:
        return f"p.conversation_id = {conversation} AND p.message_id = {message}"

    def part_key(self, conversation: str, message: str, ordinal: str) -> tuple[str, str]:
        return "conversation_id", conversation

    def same_owner(self, left: str, right: str) -> str:
        return f" AND {left}.conversation_id = {right}.conversation_id"

    def indexed_by(self, name: str) -> str:
        return ""

    def bytewise(self, column: str) -> str:
        return f'{column} COLLATE "C"'

    def json_items(self, array: str, key: str = "") -> str:
        if key:
            return f"json_array_elements({array} -> '{key}') AS e (value)"
        return f"jsonb_array_elements({array}) AS e (value)"

    def json_item(self, array: str, place: int, kind: str = "bigint") -> str:
        return f"({array} ->> {place})::{kind}"

    def json_array(self, *columns: str) -> str:
        return f"jsonb_build_array({', '.join(columns)})"

    def json_either(self, number: str, text: str) -> str:
        return f"CASE WHEN {number} IS NULL THEN to_jsonb({text}) ELSE to_jsonb({number}) END"

    def json_list(self, item: str) -> str:
        return f"coalesce(jsonb_agg({item}), '[]'::jsonb)"

    def json_object(self, **values: str) -> str:
        return f"json_build_object({_pairs(values)})::text"

    def joined(self, text: str, separator: str) -> str:
        return f"string_agg({text}, {separator})"

    def json_field(self, document: str, path: str) -> str:
        return f"{document} #>> '{{{path.replace('.', ',')}}}'"

    def plain_text(self, column: str) -> str:
        return f"{column}::text"

    def utc(self, milliseconds: str) -> str:
        return (
            f"to_char(to_timestamp(({milliseconds}) / 1000.0) AT TIME ZONE 'UTC', "
            '\'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"\')'
        )

    def is_block(self, part: str) -> str:
        return f"({part}.metadata IS NOT NULL AND {part}.path ~ '^[^.]+[.][0-9]+$')"

    def block(self, part: str, message: str) -> str:
        place = f"split_part({part}.path, '.', 2)"
        return (
            f"CASE WHEN {self.is_block(part)} THEN lcm_json({part}.text) WHEN {place} ~ '^[0-9]{{1,6}}$' "
            f"THEN lcm_json({message}.skeleton) -> split_part({part}.path, '.', 1) -> {place}::integer END"
        )


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}', {value}" for name, value in values.items())


def _storable(values: Sequence[Any]) -> list[Any]:
    """The values of a list parameter, each text as a database can hold it."""
    return [storable(value) if type(value) is str else value for value in values]
