"""Appending messages, their parts and their context items in one statement, so that a turn waits for the server once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lcm_plugin.store.records import Conversation, NewMessage, Part
from lcm_plugin.store.tables.messages import join_ids

_KINDS = frozenset({"system", "user", "assistant", "tool"})
_MESSAGE_TYPES = {
    "role": "text",
    "kind": "text",
    "tokens": "integer",
    "identity": "bigint",
    "created_at": "bigint",
    "group_seq": "bigint",
    "host_id": "text",
    "sender": "text",
    "channel": "text",
    "calls": "text",
    "answers": "text",
    "hidden": "boolean",
    "skeleton": "text",
    "follows": "bigint",
    "speaks": "boolean",
    "item_tokens": "integer",
}
_PART_TYPES = {
    "place": "integer",
    "ordinal": "integer",
    "type": "text",
    "path": "text",
    "text": "text",
    "exact": "text",
    "tool_name": "text",
    "tool_call_id": "text",
    "file_id": "text",
    "metadata": "text",
}


def _arrays(prefix: str, types: dict[str, str]) -> str:
    return ", ".join(f":{prefix}_{name}::{kind}[]" for name, kind in types.items())


# Each column comes as an array; ``place`` counts from 1.
APPEND = f"""
WITH given AS (
    SELECT nextval('message_ids') AS message_id, :first + place - 1 AS seq, m.*
    FROM (SELECT * FROM unnest({_arrays("m", _MESSAGE_TYPES)})
        WITH ORDINALITY AS u ({", ".join(_MESSAGE_TYPES)}, place) ORDER BY place) m),
stored AS (
    INSERT INTO messages (conversation_id, message_id, seq, role, kind, tokens, identity, created_at, group_seq,
        host_id, sender, channel, calls, answers, hidden, skeleton, follows, speaks)
    SELECT :conversation, message_id, seq, role, kind::message_role, tokens, identity, created_at, group_seq,
        host_id, sender, channel, calls, answers, hidden, skeleton, follows, speaks FROM given ORDER BY place),
parts AS (
    INSERT INTO message_parts (conversation_id, message_id, ordinal, type, path, text, exact, tool_name, tool_call_id,
        file_id, metadata)
    SELECT :conversation, message_id, p.ordinal, p.type::part_type, p.path, p.text, p.exact, p.tool_name,
        p.tool_call_id, p.file_id, p.metadata::json
    FROM unnest({_arrays("p", _PART_TYPES)}) AS p ({", ".join(_PART_TYPES)}) JOIN given USING (place)
    ORDER BY place, p.ordinal),
items AS (
    INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, tokens)
    SELECT :conversation, seq, 'message', message_id, item_tokens FROM given ORDER BY place),
counted AS (
    UPDATE conversations SET next_seq = :first + :count, message_count = message_count + :count,
        raw_items = raw_items + :count, raw_tokens = raw_tokens + (SELECT sum(item_tokens) FROM given),
        updated_at = :now WHERE conversation_id = :conversation)
SELECT message_id FROM given ORDER BY place"""


def append_values(
    conversation: Conversation, messages: Sequence[NewMessage], taken: set[str], now: int
) -> dict[str, Any]:
    """The values of `APPEND`. A host id that is among the ``taken``, or comes twice, is left out."""
    seen = set(taken)
    rows = []
    for seq, message in enumerate(messages, conversation.next_seq):
        host_id = None if message.host_id in seen else message.host_id
        if host_id is not None:
            seen.add(host_id)
        rows.append(_message_row(seq, host_id, message))
    parts = [
        (place, *_part_values(part)) for place, message in enumerate(messages, 1) for part in message.parts
    ]
    return {
        "conversation": conversation.conversation_id,
        "first": conversation.next_seq,
        "count": len(messages),
        "now": now,
        **_columns("m", _MESSAGE_TYPES, rows),
        **_columns("p", _PART_TYPES, parts),
    }


def message_kind(role: str) -> str:
    """A role as the database's own type has it."""
    return role if role in _KINDS else "other"


def _message_row(seq: int, host_id: str | None, message: NewMessage) -> tuple[Any, ...]:
    """A message in the order of `_MESSAGE_TYPES`."""
    return (
        message.role,
        message_kind(message.role),
        message.tokens,
        message.identity,
        message.created_at,
        message.group_seq or seq,
        host_id,
        message.sender,
        message.channel,
        join_ids(message.calls),
        join_ids(message.answers),
        message.hidden,
        message.skeleton,
        message.follows,
        message.speaks,
        message.item_tokens,
    )


def _part_values(part: Part) -> tuple[Any, ...]:
    return (
        part.ordinal,
        part.type,
        part.path,
        part.text,
        part.exact,
        part.tool_name,
        part.tool_call_id,
        part.file_id,
        part.metadata,
    )


def _columns(prefix: str, names: Iterable[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Rows as one array for each column."""
    turned = zip(*rows, strict=True) if rows else ([] for _ in names)
    return {f"{prefix}_{name}": list(column) for name, column in zip(names, turned, strict=True)}
