"""Messages and their parts. How messages are appended is each database's own."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from lcm_plugin.store.dialect import Dialect
from lcm_plugin.store.records import MOST_INSTRUCTIONS, CallRow, MessageHead, Part, StoredMessage
from lcm_plugin.store.transaction import Transaction

HEAD_COLUMNS = (
    "m.message_id, m.conversation_id, m.seq, m.role, m.tokens, m.identity, m.created_at, m.group_seq, "
    "m.host_id, m.sender, m.channel, m.calls, m.answers, m.hidden, m.withdrawn_at, m.follows, m.speaks, "
    "m.cleared_tokens"
)
HEAD_WIDTH = 18
PART_COLUMNS = "p.message_id, p.ordinal, p.type, p.path, p.text, p.exact, p.tool_name, p.tool_call_id, p.file_id, p.metadata"
END = 1 << 62
CLEARED_SCHEMA = """
ALTER TABLE messages ADD COLUMN cleared_tokens integer;
CREATE INDEX messages_cleared ON messages (conversation_id) WHERE cleared_tokens IS NOT NULL;
"""
_HEADS = f"SELECT {HEAD_COLUMNS} FROM messages m"
_WHOLE = f"SELECT {HEAD_COLUMNS}, m.skeleton FROM"


def item_tokens(alias: str = "", *, hidden: str = "{}hidden OR ") -> str:
    """What a message costs as a context item, by the columns of ``messages`` under an alias (with its dot).

    With an empty ``hidden``, what it would cost if it were shown.
    """
    return (
        f"CASE WHEN {hidden.format(alias)}{alias}role = 'system' THEN 0 "
        f"ELSE coalesce({alias}cleared_tokens, {alias}tokens) END"
    )


class MessageTable(Transaction):
    """Reads of messages, and which of them are hidden."""

    def heads(
        self, conversation_id: int, *, before_seq: int | None = None, limit: int, standing: bool = False
    ) -> list[MessageHead]:
        rows = self.all(
            f"{_HEADS} WHERE m.conversation_id = :here AND m.seq < :before "
            f"{'AND m.withdrawn_at IS NULL ' if standing else ''}ORDER BY m.seq DESC LIMIT :limit",
            here=conversation_id,
            before=END if before_seq is None else before_seq,
            limit=limit,
        )
        return [message_head(row) for row in reversed(rows)]

    def heads_after(self, conversation_id: int, after_seq: int) -> list[MessageHead]:
        rows = self.all(
            f"{_HEADS} WHERE m.conversation_id = :here AND m.seq > :after ORDER BY m.seq",
            here=conversation_id,
            after=after_seq,
        )
        return [message_head(row) for row in rows]

    def heads_with_identity(
        self, conversation_id: int, identities: Sequence[int], *, limit: int, withdrawn: bool = False
    ) -> list[MessageHead]:
        found = self.sql.looked_up(
            self.sql.given("identities"),
            "messages m",
            "m.conversation_id = :here AND m.identity = identities.value"
            f"{' AND m.withdrawn_at IS NOT NULL' if withdrawn else ''}",
        )
        rows = self.all(
            f"SELECT {HEAD_COLUMNS} {found} ORDER BY m.seq DESC LIMIT :limit",
            here=conversation_id,
            identities=self.sql.array(sorted(set(identities))),
            limit=limit,
        )
        return [message_head(row) for row in reversed(rows)]

    def messages(self, conversation_id: int, *, after_seq: int = 0, limit: int) -> list[StoredMessage]:
        rows = self.all(
            f"{_WHOLE} messages m WHERE m.conversation_id = :here AND m.seq > :after ORDER BY m.seq LIMIT :limit",
            here=conversation_id,
            after=after_seq,
            limit=limit,
        )
        return self._with_parts(rows)

    def messages_by_id(self, message_ids: Sequence[int]) -> dict[int, StoredMessage]:
        rows = self.all(
            f"{_WHOLE} {self.sql.given('ids')} CROSS JOIN messages m WHERE m.message_id = ids.value",
            ids=self.sql.array(message_ids),
        )
        found = {stored.head.message_id: stored for stored in self._with_parts(rows)}
        return {one: found[one] for one in message_ids if one in found}

    def known_host_ids(self, conversation_ids: Sequence[int], host_ids: Sequence[str]) -> set[str]:
        if not host_ids:
            return set()
        asked = f"{self.sql.given('owners')} CROSS JOIN {self.sql.given('hosts', 'text')}"
        found = self.sql.looked_up(
            asked, "messages m", "m.conversation_id = owners.value AND m.host_id = hosts.value"
        )
        rows = self.all(
            f"SELECT m.host_id {found}",
            owners=self.sql.array(conversation_ids),
            hosts=self.sql.array(host_ids),
        )
        return {row[0] for row in rows}

    def heads_with_host_ids(self, conversation_id: int, host_ids: Sequence[str]) -> dict[str, MessageHead]:
        found = self.sql.looked_up(
            self.sql.given("hosts", "text"),
            "messages m",
            "m.conversation_id = :here AND m.host_id = hosts.value",
        )
        rows = self.all(
            f"SELECT {HEAD_COLUMNS} {found}",
            here=conversation_id,
            hosts=self.sql.array(host_ids),
        )
        return {str(head.host_id): head for head in map(message_head, rows)}

    def withdrawn_among(self, message_ids: Sequence[int]) -> set[int]:
        found = self.sql.looked_up(
            self.sql.given("ids", "bigint"),
            "messages m",
            "m.message_id = ids.value AND m.withdrawn_at IS NOT NULL",
        )
        rows = self.all(f"SELECT m.message_id {found}", ids=self.sql.array(list(message_ids)))
        return {row[0] for row in rows}

    def call_rows(self, conversation_id: int, ids: set[str], *, limit: int) -> list[CallRow]:
        rows = self.all(
            "SELECT seq, group_seq, calls, answers FROM messages WHERE conversation_id = :here "
            "AND (calls IS NOT NULL OR answers IS NOT NULL) ORDER BY seq DESC LIMIT :limit",
            here=conversation_id,
            limit=limit,
        )
        # Ids of a new call are in none of them, which costs less to see in one text than row by row.
        text = "\n".join([f"{row[2]}\n{row[3]}" for row in rows])
        if not any(given in text for given in ids):
            return []
        found = ((row[0], row[1], _split_ids(row[2]), _split_ids(row[3])) for row in reversed(rows))
        return [CallRow(*row) for row in found if not (ids.isdisjoint(row[2]) and ids.isdisjoint(row[3]))]

    def newest_tool_calls(
        self, conversation_id: int, *, after: int, limit: int
    ) -> list[tuple[int, int, str, bool]]:
        rows = self.all(
            "SELECT m.seq, m.message_id, p.tool_name, m.hidden FROM (SELECT conversation_id, message_id, seq, hidden "
            "FROM messages WHERE conversation_id = :here AND seq > :after AND (calls IS NOT NULL OR answers IS NOT NULL) "
            "AND calls IS NOT NULL ORDER BY seq DESC LIMIT :limit) m CROSS JOIN message_parts p "
            f"WHERE {self.sql.parts_of('m.conversation_id', 'm.message_id')} AND p.tool_name IS NOT NULL "
            "ORDER BY m.seq DESC",
            here=conversation_id,
            after=after,
            limit=limit,
        )
        return [(row[0], row[1], row[2], bool(row[3])) for row in rows]

    def lowest_group(self, conversation_id: int, from_seq: int, span: int, floor: int) -> int | None:
        row = self.one(
            "SELECT min(group_seq) FROM messages "
            "WHERE conversation_id = :here AND seq >= :first AND seq < :end AND group_seq >= :floor",
            here=conversation_id,
            first=from_seq,
            end=from_seq + span,
            floor=floor,
        )
        return None if row[0] is None else int(row[0])

    def messages_at(self, conversation_id: int, seqs: Sequence[int]) -> list[StoredMessage]:
        found = self.sql.looked_up(
            self.sql.given("seqs"), "messages m", "m.conversation_id = :here AND m.seq = seqs.value"
        )
        rows = self.all(
            f"SELECT {HEAD_COLUMNS}, m.skeleton {found} ORDER BY m.seq",
            here=conversation_id,
            seqs=self.sql.array(sorted(set(seqs))),
        )
        return self._with_parts(rows)

    def users_within(self, conversation_id: int, spans: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        low, high = self.sql.json_item("e.value", 0), self.sql.json_item("e.value", 1)
        rows = self.all(
            f"SELECT {low}, {high} FROM {self.sql.json_items(':spans')} WHERE EXISTS (SELECT 1 FROM messages m "
            f"WHERE m.conversation_id = :here AND m.seq > {low} AND m.seq <= {high} AND m.speaks AND NOT m.hidden "
            # Written so, the first is looked for in each span; else the planner might read all users' messages.
            "LIMIT 1 OFFSET 0)",
            here=conversation_id,
            spans=json.dumps(spans),
        )
        return {(row[0], row[1]) for row in rows}

    def instructions(self, conversation_id: int) -> list[tuple[MessageHead, bool]]:
        rows = self.all(
            f"SELECT {HEAD_COLUMNS}, EXISTS (SELECT 1 FROM context_items i WHERE i.conversation_id = m.conversation_id "
            "AND i.message_id = m.message_id) FROM messages m WHERE m.conversation_id = :here "
            "AND m.role IN ('system', 'developer') AND NOT m.hidden ORDER BY m.seq DESC LIMIT :limit",
            here=conversation_id,
            limit=MOST_INSTRUCTIONS,
        )
        return [(message_head(row), bool(row[HEAD_WIDTH])) for row in reversed(rows)]

    def newest_user(self, conversation_id: int, *, before: int | None = None) -> MessageHead | None:
        row = self.one(
            f"{_HEADS} WHERE m.conversation_id = :here AND m.speaks AND NOT m.hidden AND m.seq < :before "
            "ORDER BY m.seq DESC LIMIT 1",
            here=conversation_id,
            before=END if before is None else before,
        )
        return message_head(row) if row else None

    def hide(self, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        self.lock_conversation(conversation_id)
        here = {"here": conversation_id, "ids": self.sql.array(message_ids)}
        chosen = self.sql.ids_here("message_id")
        self.run(f"UPDATE messages SET hidden = true WHERE {chosen}", **here)
        freed = self.one(f"SELECT coalesce(sum(tokens), 0) FROM context_items WHERE {chosen}", **here)[0]
        self.run(f"UPDATE context_items SET tokens = 0 WHERE {chosen}", **here)
        self._add_raw_tokens(conversation_id, -int(freed), now)

    def show(self, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        self.lock_conversation(conversation_id)
        here = {"here": conversation_id, "ids": self.sql.array(message_ids)}
        chosen = self.sql.ids_here("message_id")
        shown = f"message_id IN (SELECT message_id FROM messages WHERE {chosen} AND hidden)"
        self.run(
            f"UPDATE context_items SET tokens = (SELECT {item_tokens('m.', hidden='')} "
            "FROM messages m WHERE m.conversation_id = context_items.conversation_id "
            f"AND m.message_id = context_items.message_id) WHERE conversation_id = :here AND {shown}",
            **here,
        )
        regained = self.one(
            f"SELECT coalesce(sum(tokens), 0) FROM context_items WHERE conversation_id = :here AND {shown}",
            **here,
        )[0]
        self.run(f"UPDATE messages SET hidden = false, withdrawn_at = NULL WHERE {chosen}", **here)
        self._add_raw_tokens(conversation_id, int(regained), now)

    def clear_results(self, conversation_id: int, tokens: Mapping[int, int], now: int) -> None:
        self.lock_conversation(conversation_id)
        here = {"here": conversation_id, "ids": self.sql.array(list(tokens))}
        chosen = self.sql.ids_here("message_id")
        total = f"SELECT coalesce(sum(tokens), 0) FROM context_items WHERE {chosen}"
        before = self.one(total, **here)[0]
        self.run_many(
            "UPDATE messages SET cleared_tokens = :tokens WHERE conversation_id = :here AND message_id = :message",
            [{"here": conversation_id, "message": one, "tokens": count} for one, count in tokens.items()],
        )
        self.run(
            f"UPDATE context_items SET tokens = (SELECT {item_tokens('m.')} FROM messages m "
            "WHERE m.conversation_id = context_items.conversation_id AND m.message_id = context_items.message_id) "
            f"WHERE {chosen}",
            **here,
        )
        self._add_raw_tokens(conversation_id, int(self.one(total, **here)[0]) - int(before), now)
        self._bump_with_snapshots(conversation_id)

    def cleared_results(self, conversation_id: int) -> tuple[int, int]:
        row = self.one(
            "SELECT count(*), CAST(coalesce(sum(m.tokens - m.cleared_tokens), 0) AS bigint) FROM messages m "
            "WHERE m.conversation_id = :here AND m.cleared_tokens IS NOT NULL AND NOT m.hidden AND EXISTS (SELECT 1 "
            "FROM context_items c WHERE c.conversation_id = m.conversation_id AND c.message_id = m.message_id)",
            here=conversation_id,
        )
        return (row[0], row[1])

    def insert_parts(self, conversation_id: int, message_id: int, parts: Sequence[Part]) -> None:
        """Stores parts of a message."""
        key, value = self.sql.part_key(":here", ":message", ":ordinal")
        self.run_many(
            f"INSERT INTO message_parts ({key}, message_id, ordinal, type, path, text, exact, tool_name, tool_call_id, "
            f"file_id, metadata) VALUES ({value}, :message, :ordinal, :type, :path, :text, :exact, :tool_name, "
            ":tool_call_id, :file_id, :metadata)",
            [
                {"here": conversation_id, "message": message_id}
                | {name: getattr(part, name) for name in Part.__slots__}
                for part in parts
            ],
        )

    def insert_notes(self, conversation_id: int, message_id: int, first: int, notes: Sequence[str]) -> None:
        """Puts this package's own notes on a message back, as parts from an ordinal on."""
        self.insert_parts(
            conversation_id,
            message_id,
            [Part(first + n, "compaction", "", "", metadata=note) for n, note in enumerate(notes)],
        )

    @abstractmethod
    def part_rows(self, heads: Sequence[Any]) -> Iterable[Any]:
        """The rows (`PART_COLUMNS`) of the parts of messages, given as rows of `HEAD_COLUMNS`, message by message."""

    def _bump_with_snapshots(self, conversation_id: int) -> None:
        """A new revision that leaves what ``/new`` took out undoable."""
        self.run(
            "UPDATE conversations SET revision = revision + 1 WHERE conversation_id = :here",
            here=conversation_id,
        )
        self.carry_snapshots(conversation_id)

    def carry_snapshots(self, conversation_id: int) -> None:
        """Lets a ``/new`` be undone although the revision was raised by one since."""
        self.run(
            "UPDATE context_snapshots SET revision = revision + 1 WHERE conversation_id = :here "
            "AND restored_at IS NULL",
            here=conversation_id,
        )

    def _add_raw_tokens(self, conversation_id: int, change: int, now: int) -> None:
        self.run(
            "UPDATE conversations SET raw_tokens = raw_tokens + :change, updated_at = :now "
            "WHERE conversation_id = :here",
            change=change,
            now=now,
            here=conversation_id,
        )

    def _with_parts(self, rows: list[Any]) -> list[StoredMessage]:
        if not rows:
            return []
        parts = {
            message_id: tuple(Part(*row[1:]) for row in group)
            for message_id, group in groupby(self.part_rows(rows), key=_first)
        }
        return [StoredMessage(message_head(row), row[HEAD_WIDTH], parts.get(row[0], ())) for row in rows]


def speaks_schema(sql: Dialect) -> str:
    """The migration that adds the column ``speaks``."""
    return f"""
ALTER TABLE messages ADD COLUMN speaks boolean NOT NULL DEFAULT false;
{speaks_of_old_rows(sql)};
DROP INDEX messages_user;
CREATE INDEX messages_user ON messages (conversation_id, seq) WHERE speaks AND NOT hidden;
"""


def speaks_of_old_rows(sql: Dialect) -> str:
    """Fills the column for rows from before it: what only hands over tool results has no text part."""
    return (
        "UPDATE messages AS m SET speaks = true WHERE m.role = 'user' AND (m.answers IS NULL OR EXISTS (SELECT 1 "
        f"FROM message_parts p WHERE {sql.parts_of('m.conversation_id', 'm.message_id')} AND p.type = 'text' "
        "AND trim(p.text) <> ''))"
    )


def message_head(row: Any) -> MessageHead:
    """A head from a row that starts with `HEAD_COLUMNS`."""
    calls, answers = row[11], row[12]
    values = [
        *row[:11],
        tuple(calls.split("\n")) if calls else (),
        tuple(answers.split("\n")) if answers else (),
        bool(row[13]),
        row[14],
        row[15],
        bool(row[16]),
        row[17],
    ]
    return MessageHead(*values)


def join_ids(ids: Sequence[str]) -> str | None:
    """Call ids as one column: a line each, since decoding JSON for every row read costs too much."""
    return "\n".join(ids) or None


def _split_ids(column: str | None) -> tuple[str, ...]:
    """The ids that `join_ids` put together."""
    return tuple(column.split("\n")) if column else ()


def _first(row: Any) -> Any:
    return row[0]
