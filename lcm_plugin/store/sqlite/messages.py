"""Appending messages, and reading their parts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.store.records import CallRow, Conversation, NewMessage, Part
from lcm_plugin.store.sqlite.schema import PART_ID_SHIFT
from lcm_plugin.store.sqlite.transaction import SqliteStatements
from lcm_plugin.store.tables.messages import PART_COLUMNS, MessageTable, join_ids

MAX_PARTS = 1 << PART_ID_SHIFT


class SqliteMessages(MessageTable, SqliteStatements):
    """Rows go in by position, since naming the values of each would take longer than storing them."""

    def append(self, conversation: Conversation, messages: Sequence[NewMessage], now: int) -> list[int]:
        if not messages:
            return []
        here = conversation.conversation_id
        first_id = self._next_message_id()
        first_seq = conversation.next_seq
        taken = self.known_host_ids([here], [m.host_id for m in messages if m.host_id is not None])
        rows, parts, items = [], [], []
        for offset, message in enumerate(messages):
            message_id, seq = first_id + offset, first_seq + offset
            host_id = None if message.host_id in taken else message.host_id
            if host_id is not None:
                taken.add(host_id)
            rows.append(_row(message, message_id, here, seq, host_id))
            parts += _part_rows(message_id, message.parts)
            items.append((here, seq, message_id, message.item_tokens))
        self.db.executemany(
            "INSERT INTO messages (message_id, conversation_id, seq, role, tokens, identity, created_at, group_seq, "
            "host_id, sender, channel, calls, answers, hidden, skeleton, follows, speaks) "
            "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            rows,
        )
        self.db.executemany(
            "INSERT INTO message_parts (part_id, message_id, ordinal, type, path, text, exact, tool_name, tool_call_id, "
            "file_id, metadata) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            parts,
        )
        self.db.executemany(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, tokens) "
            "VALUES (?, ?, 'message', ?, ?)",
            items,
        )
        self.run(
            "UPDATE conversations SET next_seq = :next, message_count = message_count + :count, "
            "raw_items = raw_items + :count, raw_tokens = raw_tokens + :tokens, updated_at = :now "
            "WHERE conversation_id = :here",
            next=first_seq + len(messages),
            count=len(messages),
            tokens=sum(item[-1] for item in items),
            now=now,
            here=here,
        )
        return list(range(first_id, first_id + len(messages)))

    def call_rows(self, conversation_id: int, ids: set[str], *, limit: int) -> list[CallRow]:
        # Ids of a new call are in none of them, and all as one text cost less than the rows one by one.
        text = self.one(
            "SELECT group_concat(coalesce(calls, '') || char(10) || coalesce(answers, ''), char(10)) FROM (SELECT calls, "
            "answers FROM messages WHERE conversation_id = :here AND (calls IS NOT NULL OR answers IS NOT NULL) "
            "ORDER BY seq DESC LIMIT :limit)",
            here=conversation_id,
            limit=limit,
        )[0]
        if not text or not any(given in text for given in ids):
            return []
        return super().call_rows(conversation_id, ids, limit=limit)

    def insert_parts(self, conversation_id: int, message_id: int, parts: Sequence[Part]) -> None:
        _require_few(parts)
        super().insert_parts(conversation_id, message_id, parts)

    def part_rows(self, heads: Sequence[Any]) -> Iterable[Any]:
        ids = [head[0] for head in heads]
        low, high = min(ids), max(ids)
        if high - low < 2 * len(ids):
            return self.db.execute(
                f"SELECT {PART_COLUMNS} FROM message_parts p WHERE part_id >= ? AND part_id < ? ORDER BY part_id",
                (low << PART_ID_SHIFT, (high + 1) << PART_ID_SHIFT),
            )
        return self.db.execute(
            f"SELECT {PART_COLUMNS} FROM json_each(?) ids CROSS JOIN message_parts p "
            "WHERE p.part_id >= ids.value * 65536 AND p.part_id < (ids.value + 1) * 65536",
            (json.dumps(sorted(ids)),),
        )

    def _next_message_id(self) -> int:
        row = self.one("SELECT seq FROM sqlite_sequence WHERE name = 'messages'")
        return int(row[0]) + 1 if row else 1


def _row(
    message: NewMessage, message_id: int, conversation_id: int, seq: int, host_id: str | None
) -> tuple[Any, ...]:
    return (
        message_id,
        conversation_id,
        seq,
        message.role,
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
    )


def _part_rows(message_id: int, parts: Sequence[Part]) -> list[tuple[Any, ...]]:
    _require_few(parts)
    return [
        (
            (message_id << PART_ID_SHIFT) + part.ordinal,
            message_id,
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
        for part in parts
    ]


def _require_few(parts: Sequence[Part]) -> None:
    if len(parts) >= MAX_PARTS:
        raise InputError(f"a message has {len(parts)} parts; at most {MAX_PARTS - 1} can be stored")
