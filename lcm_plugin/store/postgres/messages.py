"""Messages and their parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from lcm_plugin.store.postgres.appending import APPEND, append_values
from lcm_plugin.store.postgres.transaction import PostgresStatements as Handle
from lcm_plugin.store.records import CallRow, Conversation, MessageHead, NewMessage, Part, StoredMessage

HEAD_COLUMNS = (
    "m.message_id, m.conversation_id, m.seq, m.role, m.tokens, m.identity, m.created_at, m.group_seq, "
    "m.host_id, m.sender, m.channel, m.calls, m.answers, m.hidden, m.withdrawn_at, m.follows"
)
HEAD_WIDTH = 16
_END = 1 << 62
_PART_COLUMNS = (
    "message_id, ordinal, type::text, path, text, exact, tool_name, tool_call_id, file_id, metadata::text"
)
# A user message that only hands over tool results has no text part of its own.
_USER_SPEAKS = (
    "m.role = 'user' AND NOT m.hidden AND (m.answers IS NULL OR EXISTS (SELECT 1 FROM message_parts p "
    "WHERE p.conversation_id = m.conversation_id AND p.message_id = m.message_id "
    "AND p.type = 'text' AND btrim(p.text) <> ''))"
)


class MessageQueries(Handle):
    """Reads of messages."""

    def heads(
        self, conversation_id: int, *, before_seq: int | None = None, limit: int, standing: bool = False
    ) -> list[MessageHead]:
        rows = self._all(
            f"SELECT {HEAD_COLUMNS} FROM messages m WHERE m.conversation_id = %s AND m.seq < %s "
            f"{'AND m.withdrawn_at IS NULL ' if standing else ''}ORDER BY m.seq DESC LIMIT %s",
            (conversation_id, _END if before_seq is None else before_seq, limit),
        )
        return [message_head(row) for row in reversed(rows)]

    def heads_after(self, conversation_id: int, after_seq: int) -> list[MessageHead]:
        rows = self._all(
            f"SELECT {HEAD_COLUMNS} FROM messages m WHERE m.conversation_id = %s AND m.seq > %s ORDER BY m.seq",
            (conversation_id, after_seq),
        )
        return [message_head(row) for row in rows]

    def heads_with_identity(
        self, conversation_id: int, identities: Sequence[int], *, limit: int, withdrawn: bool = False
    ) -> list[MessageHead]:
        rows = self._all(
            f"SELECT {HEAD_COLUMNS} FROM messages m WHERE m.conversation_id = %s AND m.identity = ANY(%s) "
            f"{'AND m.withdrawn_at IS NOT NULL ' if withdrawn else ''}ORDER BY m.seq DESC LIMIT %s",
            (conversation_id, list(identities), limit),
        )
        return [message_head(row) for row in reversed(rows)]

    def messages(self, conversation_id: int, *, after_seq: int = 0, limit: int) -> list[StoredMessage]:
        rows = self._all(
            f"SELECT {HEAD_COLUMNS}, m.skeleton FROM messages m WHERE m.conversation_id = %s AND m.seq > %s "
            "ORDER BY m.seq LIMIT %s",
            (conversation_id, after_seq, limit),
        )
        return self._with_parts(rows)

    def messages_by_id(self, message_ids: Sequence[int]) -> dict[int, StoredMessage]:
        rows = self._all(
            f"SELECT {HEAD_COLUMNS}, m.skeleton FROM unnest(%s::bigint[]) WITH ORDINALITY AS ids (id, place) "
            "JOIN messages m ON m.message_id = ids.id ORDER BY ids.place",
            (list(message_ids),),
        )
        return {stored.head.message_id: stored for stored in self._with_parts(rows)}

    def known_host_ids(self, conversation_ids: Sequence[int], host_ids: Sequence[str]) -> set[str]:
        if not host_ids:
            return set()
        rows = self._all(
            "SELECT h.id FROM unnest(%s::text[]) AS h (id) CROSS JOIN LATERAL (SELECT FROM messages m "
            "WHERE m.conversation_id = ANY(%s) AND m.host_id = h.id LIMIT 1) known",
            (list(host_ids), list(conversation_ids)),
        )
        return {row[0] for row in rows}

    def heads_with_host_ids(self, conversation_id: int, host_ids: Sequence[str]) -> dict[str, MessageHead]:
        rows = self._all(
            f"SELECT {HEAD_COLUMNS} FROM unnest(%s::text[]) AS h (id) CROSS JOIN LATERAL "
            "(SELECT * FROM messages WHERE conversation_id = %s AND host_id = h.id LIMIT 1) m",
            (list(host_ids), conversation_id),
        )
        return {str(head.host_id): head for head in map(message_head, rows)}

    def call_rows(self, conversation_id: int, *, limit: int) -> list[CallRow]:
        rows = self._all(
            "SELECT seq, group_seq, calls, answers FROM messages WHERE conversation_id = %s "
            "AND (calls IS NOT NULL OR answers IS NOT NULL) ORDER BY seq DESC LIMIT %s",
            (conversation_id, limit),
        )
        return [CallRow(row[0], row[1], _ids(row[2]), _ids(row[3])) for row in reversed(rows)]

    def lowest_group(self, conversation_id: int, from_seq: int, span: int, floor: int) -> int | None:
        row = self._one(
            "SELECT min(group_seq) FROM messages WHERE conversation_id = %s AND seq >= %s AND seq < %s "
            "AND group_seq >= %s",
            (conversation_id, from_seq, from_seq + span, floor),
        )
        return None if row[0] is None else int(row[0])

    def messages_at(self, conversation_id: int, seqs: Sequence[int]) -> list[StoredMessage]:
        rows = self._all(
            f"SELECT {HEAD_COLUMNS}, m.skeleton FROM messages m WHERE m.conversation_id = %s AND m.seq = ANY(%s) "
            "ORDER BY m.seq",
            (conversation_id, list(seqs)),
        )
        return self._with_parts(rows)

    def users_within(self, conversation_id: int, spans: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        rows = self._all(
            "SELECT s.low, s.high FROM unnest(%s::bigint[], %s::bigint[]) AS s (low, high) CROSS JOIN LATERAL "
            "(SELECT FROM messages m WHERE m.conversation_id = %s AND m.seq > s.low AND m.seq <= s.high "
            f"AND {_USER_SPEAKS} LIMIT 1) spoken",
            ([low for low, _ in spans], [high for _, high in spans], conversation_id),
        )
        return {(row[0], row[1]) for row in rows}

    def newest_system(self, conversation_id: int) -> MessageHead | None:
        row = self._one(
            f"SELECT {HEAD_COLUMNS} FROM messages m WHERE m.conversation_id = %s "
            "AND m.role IN ('system', 'developer') AND m.withdrawn_at IS NULL ORDER BY m.seq DESC LIMIT 1",
            (conversation_id,),
        )
        return message_head(row) if row else None

    def newest_user(self, conversation_id: int, *, before: int | None = None) -> MessageHead | None:
        row = self._one(
            f"SELECT {HEAD_COLUMNS} FROM messages m WHERE m.conversation_id = %s AND {_USER_SPEAKS} "
            "AND m.seq < %s ORDER BY m.seq DESC LIMIT 1",
            (conversation_id, _END if before is None else before),
        )
        return message_head(row) if row else None

    def _with_parts(self, rows: list[Any]) -> list[StoredMessage]:
        if not rows:
            return []
        parts = self._parts(rows)
        return [StoredMessage(message_head(row), row[HEAD_WIDTH], parts.get(row[0], ())) for row in rows]

    def _parts(self, heads: list[Any]) -> dict[int, tuple[Part, ...]]:
        rows = self._all(
            f"SELECT {_PART_COLUMNS} FROM message_parts WHERE conversation_id = ANY(%s) AND message_id = ANY(%s) "
            "ORDER BY message_id, ordinal",
            (list({row[1] for row in heads}), [row[0] for row in heads]),
        )
        return {
            message_id: tuple(Part(*row[1:]) for row in group)
            for message_id, group in groupby(rows, key=lambda row: row[0])
        }


class MessageChanges(MessageQueries):
    """Appending messages."""

    def append(self, conversation: Conversation, messages: Sequence[NewMessage], now: int) -> list[int]:
        if not messages:
            return []
        host_ids = [message.host_id for message in messages if message.host_id is not None]
        taken = self.known_host_ids([conversation.conversation_id], host_ids)
        stored = self._all(APPEND, append_values(conversation, messages, taken, now))
        return [row[0] for row in stored]

    def hide(self, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        self.lock_conversation(conversation_id)
        ids = list(message_ids)
        self._run(
            "UPDATE messages SET hidden = true WHERE conversation_id = %s AND message_id = ANY(%s)",
            (conversation_id, ids),
        )
        freed = self._one(
            "SELECT coalesce(sum(tokens), 0) FROM context_items WHERE conversation_id = %s AND message_id = ANY(%s)",
            (conversation_id, ids),
        )[0]
        self._run(
            "UPDATE context_items SET tokens = 0 WHERE conversation_id = %s AND message_id = ANY(%s)",
            (conversation_id, ids),
        )
        self._run(
            "UPDATE conversations SET raw_tokens = raw_tokens - %s, updated_at = %s WHERE conversation_id = %s",
            (freed, now, conversation_id),
        )

    def show(self, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        self.lock_conversation(conversation_id)
        ids = list(message_ids)
        regained = self._one(
            "WITH regained AS (UPDATE context_items i SET tokens = CASE WHEN m.role = 'system' THEN 0 ELSE m.tokens END "
            "FROM messages m WHERE i.conversation_id = %s AND i.message_id = ANY(%s) AND m.hidden "
            "AND m.conversation_id = i.conversation_id AND m.message_id = i.message_id RETURNING i.tokens) "
            "SELECT coalesce(sum(tokens), 0)::bigint FROM regained",
            (conversation_id, ids),
        )[0]
        self._run(
            "UPDATE messages SET hidden = false, withdrawn_at = NULL WHERE conversation_id = %s AND message_id = ANY(%s)",
            (conversation_id, ids),
        )
        self._run(
            "UPDATE conversations SET raw_tokens = raw_tokens + %s, updated_at = %s WHERE conversation_id = %s",
            (regained, now, conversation_id),
        )


def message_head(row: Any) -> MessageHead:
    """A head from a row that starts with `HEAD_COLUMNS`."""
    values = list(row[:HEAD_WIDTH])
    values[11] = _ids(values[11])
    values[12] = _ids(values[12])
    return MessageHead(*values)


def _ids(column: str | None) -> tuple[str, ...]:
    return tuple(column.split("\n")) if column else ()
