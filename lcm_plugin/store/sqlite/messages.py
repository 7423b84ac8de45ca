"""Messages and their parts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.store.records import CallRow, Conversation, MessageHead, NewMessage, Part, StoredMessage
from lcm_plugin.store.sqlite.schema import PART_ID_SHIFT
from lcm_plugin.store.sqlite.transaction import SqliteStatements as Handle

HEAD_COLUMNS = (
    "m.message_id, m.conversation_id, m.seq, m.role, m.tokens, m.identity, m.created_at, m.group_seq, "
    "m.host_id, m.sender, m.channel, m.calls, m.answers, m.hidden, m.withdrawn_at, m.follows"
)
HEAD_WIDTH = 16
_PART_COLUMNS = (
    "p.message_id, p.ordinal, p.type, p.path, p.text, p.exact, "
    "p.tool_name, p.tool_call_id, p.file_id, p.metadata"
)
# A user message that only hands over tool results has no text part of its own.
_USER_SPEAKS = (
    "m.role = 'user' AND NOT m.hidden AND (m.answers IS NULL OR EXISTS (SELECT 1 FROM message_parts p "
    "WHERE p.part_id >= m.message_id * 65536 AND p.part_id < (m.message_id + 1) * 65536 "
    "AND p.type = 'text' AND trim(p.text) <> ''))"
)
MAX_PARTS = 1 << PART_ID_SHIFT


class MessageQueries(Handle):
    """Reads of messages."""

    def heads(
        self, conversation_id: int, *, before_seq: int | None = None, limit: int, standing: bool = False
    ) -> list[MessageHead]:
        rows = self._all(
            f"SELECT {HEAD_COLUMNS} FROM messages m WHERE m.conversation_id = ? AND m.seq < ? "
            f"{'AND m.withdrawn_at IS NULL ' if standing else ''}ORDER BY m.seq DESC LIMIT ?",
            (conversation_id, _or_end(before_seq), limit),
        )
        return [message_head(row) for row in reversed(rows)]

    def heads_after(self, conversation_id: int, after_seq: int) -> list[MessageHead]:
        rows = self._all(
            f"SELECT {HEAD_COLUMNS} FROM messages m WHERE m.conversation_id = ? AND m.seq > ? ORDER BY m.seq",
            (conversation_id, after_seq),
        )
        return [message_head(row) for row in rows]

    def heads_with_identity(
        self, conversation_id: int, identities: Sequence[int], *, limit: int, withdrawn: bool = False
    ) -> list[MessageHead]:
        rows = self._all(
            f"SELECT {HEAD_COLUMNS} FROM messages m WHERE m.conversation_id = ? "
            f"{'AND m.withdrawn_at IS NOT NULL ' if withdrawn else ''}"
            "AND m.identity IN (SELECT value FROM json_each(?)) ORDER BY m.seq DESC LIMIT ?",
            (conversation_id, json.dumps(list(identities)), limit),
        )
        return [message_head(row) for row in reversed(rows)]

    def messages(self, conversation_id: int, *, after_seq: int = 0, limit: int) -> list[StoredMessage]:
        rows = self._all(
            f"SELECT {HEAD_COLUMNS}, m.skeleton FROM messages m WHERE m.conversation_id = ? AND m.seq > ? "
            "ORDER BY m.seq LIMIT ?",
            (conversation_id, after_seq, limit),
        )
        return self._with_parts(rows)

    def messages_by_id(self, message_ids: Sequence[int]) -> dict[int, StoredMessage]:
        rows = self._all(
            f"SELECT {HEAD_COLUMNS}, m.skeleton FROM json_each(?) ids JOIN messages m ON m.message_id = ids.value",
            (json.dumps(list(message_ids)),),
        )
        return {stored.head.message_id: stored for stored in self._with_parts(rows)}

    def known_host_ids(self, conversation_ids: Sequence[int], host_ids: Sequence[str]) -> set[str]:
        rows = self._all(
            "SELECT host_id FROM json_each(?) c CROSS JOIN json_each(?) h CROSS JOIN messages "
            "WHERE conversation_id = c.value AND host_id = h.value",
            (json.dumps(list(conversation_ids)), json.dumps(list(host_ids))),
        )
        return {row[0] for row in rows}

    def heads_with_host_ids(self, conversation_id: int, host_ids: Sequence[str]) -> dict[str, MessageHead]:
        rows = self._all(
            f"SELECT {HEAD_COLUMNS} FROM json_each(?) h CROSS JOIN messages m "
            "WHERE m.conversation_id = ? AND m.host_id = h.value",
            (json.dumps(list(host_ids)), conversation_id),
        )
        return {str(head.host_id): head for head in map(message_head, rows)}

    def call_rows(self, conversation_id: int, *, limit: int) -> list[CallRow]:
        rows = self._all(
            "SELECT seq, group_seq, calls, answers FROM messages WHERE conversation_id = ? "
            "AND (calls IS NOT NULL OR answers IS NOT NULL) ORDER BY seq DESC LIMIT ?",
            (conversation_id, limit),
        )
        return [CallRow(row[0], row[1], split_ids(row[2]), split_ids(row[3])) for row in reversed(rows)]

    def lowest_group(self, conversation_id: int, from_seq: int, span: int, floor: int) -> int | None:
        row = self._one(
            "SELECT min(group_seq) FROM messages WHERE conversation_id = ? AND seq >= ? AND seq < ? AND group_seq >= ?",
            (conversation_id, from_seq, from_seq + span, floor),
        )
        return None if row[0] is None else int(row[0])

    def messages_at(self, conversation_id: int, seqs: Sequence[int]) -> list[StoredMessage]:
        rows = self._all(
            f"SELECT {HEAD_COLUMNS}, m.skeleton FROM json_each(?) s CROSS JOIN messages m "
            "WHERE m.conversation_id = ? AND m.seq = s.value ORDER BY m.seq",
            (json.dumps(list(seqs)), conversation_id),
        )
        return self._with_parts(rows)

    def users_within(self, conversation_id: int, spans: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        rows = self._all(
            "SELECT json_extract(s.value, '$[0]'), json_extract(s.value, '$[1]') FROM json_each(?) s "
            "WHERE EXISTS (SELECT 1 FROM messages m WHERE m.conversation_id = ? "
            "AND m.seq > json_extract(s.value, '$[0]') AND m.seq <= json_extract(s.value, '$[1]') "
            f"AND {_USER_SPEAKS})",
            (json.dumps([list(span) for span in spans]), conversation_id),
        )
        return {(row[0], row[1]) for row in rows}

    def newest_system(self, conversation_id: int) -> MessageHead | None:
        row = self._one(
            f"SELECT {HEAD_COLUMNS} FROM messages m WHERE m.conversation_id = ? "
            "AND m.role IN ('system', 'developer') AND m.withdrawn_at IS NULL ORDER BY m.seq DESC LIMIT 1",
            (conversation_id,),
        )
        return message_head(row) if row else None

    def newest_user(self, conversation_id: int, *, before: int | None = None) -> MessageHead | None:
        row = self._one(
            f"SELECT {HEAD_COLUMNS} FROM messages m WHERE m.conversation_id = ? AND {_USER_SPEAKS} "
            "AND m.seq < ? ORDER BY m.seq DESC LIMIT 1",
            (conversation_id, _or_end(before)),
        )
        return message_head(row) if row else None

    def _with_parts(self, rows: list[Any]) -> list[StoredMessage]:
        if not rows:
            return []
        ids = [row[0] for row in rows]
        parts = self._parts(ids)
        return [StoredMessage(message_head(row), row[HEAD_WIDTH], parts.get(row[0], ())) for row in rows]

    def _parts(self, message_ids: list[int]) -> dict[int, tuple[Part, ...]]:
        low, high = min(message_ids), max(message_ids)
        if high - low < 2 * len(message_ids):
            rows: Iterable[Any] = self.db.execute(
                f"SELECT {_PART_COLUMNS} FROM message_parts p WHERE part_id >= ? AND part_id < ? ORDER BY part_id",
                (low << PART_ID_SHIFT, (high + 1) << PART_ID_SHIFT),
            )
        else:
            rows = self.db.execute(
                f"SELECT {_PART_COLUMNS} FROM json_each(?) ids CROSS JOIN message_parts p "
                "WHERE p.part_id >= ids.value * 65536 AND p.part_id < (ids.value + 1) * 65536",
                (json.dumps(sorted(message_ids)),),
            )
        return {
            message_id: tuple(Part(*row[1:]) for row in group)
            for message_id, group in groupby(rows, key=_first)
        }


class MessageChanges(MessageQueries):
    """Appending messages."""

    def append(self, conversation: Conversation, messages: Sequence[NewMessage], now: int) -> list[int]:
        if not messages:
            return []
        first_id = self._next_message_id()
        first_seq = conversation.next_seq
        taken = self.known_host_ids(
            [conversation.conversation_id], [m.host_id for m in messages if m.host_id is not None]
        )
        rows, parts, items = [], [], []
        for offset, message in enumerate(messages):
            message_id, seq = first_id + offset, first_seq + offset
            host_id = None if message.host_id in taken else message.host_id
            if host_id is not None:
                taken.add(host_id)
            rows.append(
                (
                    message_id,
                    conversation.conversation_id,
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
                    int(message.hidden),
                    message.skeleton,
                    message.follows,
                )
            )
            parts += part_rows(message_id, message.parts)
            items.append((conversation.conversation_id, seq, message_id, message.item_tokens))
        self.db.executemany(
            "INSERT INTO messages (message_id, conversation_id, seq, role, tokens, identity, created_at, group_seq, "
            "host_id, sender, channel, calls, answers, hidden, skeleton, follows) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            rows,
        )
        insert_parts(self.db, parts)
        self.db.executemany(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, tokens) "
            "VALUES (?, ?, 'message', ?, ?)",
            items,
        )
        self.db.execute(
            "UPDATE conversations SET next_seq = ?, message_count = message_count + ?, raw_items = raw_items + ?, "
            "raw_tokens = raw_tokens + ?, updated_at = ? WHERE conversation_id = ?",
            (
                first_seq + len(messages),
                len(messages),
                len(messages),
                sum(item[-1] for item in items),
                now,
                conversation.conversation_id,
            ),
        )
        return list(range(first_id, first_id + len(messages)))

    def hide(self, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        ids = json.dumps(list(message_ids))
        self.db.execute(
            "UPDATE messages SET hidden = 1 WHERE conversation_id = ? AND message_id IN (SELECT value FROM json_each(?))",
            (conversation_id, ids),
        )
        freed = self._one(
            "SELECT coalesce(sum(tokens), 0) FROM context_items WHERE conversation_id = ? AND message_id IN "
            "(SELECT value FROM json_each(?))",
            (conversation_id, ids),
        )[0]
        self.db.execute(
            "UPDATE context_items SET tokens = 0 WHERE conversation_id = ? AND message_id IN "
            "(SELECT value FROM json_each(?))",
            (conversation_id, ids),
        )
        self.db.execute(
            "UPDATE conversations SET raw_tokens = raw_tokens - ?, updated_at = ? WHERE conversation_id = ?",
            (freed, now, conversation_id),
        )

    def show(self, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        ids = json.dumps(list(message_ids))
        shown = (
            "SELECT message_id FROM messages WHERE conversation_id = ? AND hidden AND message_id IN "
            "(SELECT value FROM json_each(?))"
        )
        regained = self._one(
            "SELECT coalesce(sum(m.tokens), 0) FROM context_items i JOIN messages m USING (conversation_id, message_id) "
            f"WHERE i.conversation_id = ? AND m.role <> 'system' AND i.message_id IN ({shown})",
            (conversation_id, conversation_id, ids),
        )[0]
        self.db.execute(
            "UPDATE context_items SET tokens = (SELECT CASE WHEN m.role = 'system' THEN 0 ELSE m.tokens END FROM messages m "
            "WHERE m.conversation_id = context_items.conversation_id AND m.message_id = context_items.message_id) "
            f"WHERE conversation_id = ? AND message_id IN ({shown})",
            (conversation_id, conversation_id, ids),
        )
        self.db.execute(
            "UPDATE messages SET hidden = 0, withdrawn_at = NULL WHERE conversation_id = ? AND message_id IN "
            "(SELECT value FROM json_each(?))",
            (conversation_id, ids),
        )
        self.db.execute(
            "UPDATE conversations SET raw_tokens = raw_tokens + ?, updated_at = ? WHERE conversation_id = ?",
            (regained, now, conversation_id),
        )

    def _next_message_id(self) -> int:
        row = self._one("SELECT seq FROM sqlite_sequence WHERE name = 'messages'")
        return int(row[0]) + 1 if row else 1


def insert_parts(db: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> None:
    """Stores part rows made by `part_rows`."""
    db.executemany(
        "INSERT INTO message_parts (part_id, message_id, ordinal, type, path, text, exact, tool_name, tool_call_id, "
        "file_id, metadata) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
        rows,
    )


def part_rows(message_id: int, parts: Sequence[Part]) -> list[tuple[Any, ...]]:
    """A message's parts as rows for `insert_parts`."""
    if len(parts) >= MAX_PARTS:
        raise InputError(f"a message has {len(parts)} parts; at most {MAX_PARTS - 1} can be stored")
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


def message_head(row: Any) -> MessageHead:
    """A head from a row that starts with `HEAD_COLUMNS`."""
    values = list(row[:HEAD_WIDTH])
    values[11] = split_ids(values[11])
    values[12] = split_ids(values[12])
    values[13] = bool(values[13])
    return MessageHead(*values)


def join_ids(ids: Sequence[str]) -> str | None:
    """Call ids as one column: a line each, since decoding JSON for every row read costs too much."""
    return "\n".join(ids) or None


def split_ids(column: str | None) -> tuple[str, ...]:
    """The ids that `join_ids` put together."""
    return tuple(column.split("\n")) if column else ()


def _first(row: Any) -> Any:
    return row[0]


def _or_end(value: int | None) -> int:
    return (1 << 62) if value is None else value
