"""Appending messages, and reading their parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lcm_plugin.store.postgres.appending import APPEND, append_values
from lcm_plugin.store.postgres.transaction import PostgresStatements
from lcm_plugin.store.records import Conversation, NewMessage
from lcm_plugin.store.tables.messages import PART_COLUMNS, MessageTable


class PostgresMessages(MessageTable, PostgresStatements):
    """Messages with their parts and context items go in with one statement."""

    def append(self, conversation: Conversation, messages: Sequence[NewMessage], now: int) -> list[int]:
        if not messages:
            return []
        host_ids = [message.host_id for message in messages if message.host_id is not None]
        taken = self.known_host_ids([conversation.conversation_id], host_ids)
        return [row[0] for row in self.all(APPEND, **append_values(conversation, messages, taken, now))]

    def part_rows(self, heads: Sequence[Any]) -> Iterable[Any]:
        return self.all(
            f"SELECT {PART_COLUMNS} FROM message_parts p WHERE p.conversation_id = ANY(:owners) "
            "AND p.message_id = ANY(:ids) ORDER BY p.message_id, p.ordinal",
            owners=list({head[1] for head in heads}),
            ids=[head[0] for head in heads],
        )
