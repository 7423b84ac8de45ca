"""The statements of `InsightReader` that no other table has."""

from __future__ import annotations

from dataclasses import asdict

from lcm_plugin.store.insight.contexts import SentContextTable
from lcm_plugin.store.insight.records import Action, SummaryBill
from lcm_plugin.store.records import BY_PERSON, Conversation
from lcm_plugin.store.tables.conversations import SELECT, conversation_of

# Types that both databases know. An action outlives what it was done to.
ACTIONS_SCHEMA = """
CREATE TABLE actions (
    action_id text PRIMARY KEY,
    conversation_id bigint,
    created_at bigint NOT NULL,
    requested_by text NOT NULL,
    action text NOT NULL,
    about text NOT NULL,
    outcome text NOT NULL
);
CREATE INDEX actions_newest ON actions (created_at);
CREATE INDEX actions_conversation ON actions (conversation_id, created_at);
"""
_ACTION = "action_id, conversation_id, created_at, requested_by, action, about, outcome"


class InsightTable(SentContextTable):
    """Reads for people, and what people did."""

    def conversations_used_since(self, since: int, *, limit: int) -> list[Conversation]:
        rows = self.all(
            f"{SELECT} WHERE updated_at >= :since ORDER BY updated_at DESC, conversation_id DESC LIMIT :limit",
            since=since,
            limit=limit,
        )
        return [conversation_of(row) for row in rows]

    def last_stored_at(self) -> int | None:
        newest: int | None = self.one("SELECT max(updated_at) FROM conversations")[0]
        return newest

    def summary_bill(self, conversation_id: int | None) -> list[SummaryBill]:
        chosen = "" if conversation_id is None else "AND s.conversation_id = :here "
        texts = (
            "SELECT s.model, s.level, s.source_tokens, s.tokens, s.made_ms, s.created_at FROM summaries s "
            f"WHERE s.level <> :person {chosen}UNION ALL "
            "SELECT t.model, t.level, s.source_tokens, t.tokens, t.made_ms, s.created_at FROM summary_texts t "
            "JOIN summaries s ON s.conversation_id = t.conversation_id AND s.summary_id = t.summary_id "
            f"WHERE t.level <> :person {chosen}"
        )
        rows = self.all(
            "SELECT model, level, count(*), CAST(sum(source_tokens) AS bigint), CAST(sum(tokens) AS bigint), "
            f"CAST(coalesce(sum(made_ms), 0) AS bigint), max(created_at) FROM ({texts}) texts "
            "GROUP BY model, level ORDER BY model, level",
            here=conversation_id,
            person=BY_PERSON,
        )
        return [SummaryBill(*row) for row in rows]

    def actions(self, conversation_id: int | None, *, limit: int) -> list[Action]:
        chosen = "" if conversation_id is None else "WHERE conversation_id = :here "
        rows = self.all(
            f"SELECT {_ACTION} FROM actions {chosen}ORDER BY created_at DESC, action_id LIMIT :limit",
            here=conversation_id,
            limit=limit,
        )
        return [Action(*row) for row in rows]

    def add_action(self, action: Action) -> None:
        self.run(
            f"INSERT INTO actions ({_ACTION}) VALUES (:action_id, :conversation_id, :created_at, :requested_by, :action, "
            ":about, :outcome)",
            **asdict(action),
        )
