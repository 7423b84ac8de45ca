"""What `doctor apply` changes."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_plugin.store.records import Summary
from lcm_plugin.store.sqlite.audit import QUERIES as AUDITS
from lcm_plugin.store.sqlite.conversations import Handle
from lcm_plugin.store.sqlite.search import SearchChanges


class RepairChanges(SearchChanges, Handle):
    """Repairs of one conversation."""

    def drop_dangling_items(self, conversation_id: int) -> int:
        return self.db.execute(
            "DELETE FROM context_items WHERE conversation_id = ?1 AND NOT EXISTS (SELECT 1 FROM messages m "
            "WHERE m.message_id = context_items.message_id AND m.conversation_id = ?1) AND NOT EXISTS (SELECT 1 "
            "FROM summaries s WHERE s.summary_id = context_items.summary_id AND s.conversation_id = ?1)",
            (conversation_id,),
        ).rowcount

    def drop_covered_items(self, conversation_id: int) -> int:
        return self.db.execute(
            "DELETE FROM context_items WHERE conversation_id = ? AND message_id IN "
            "(SELECT message_id FROM summary_messages)",
            (conversation_id,),
        ).rowcount

    def restore_items(self, conversation_id: int) -> int:
        lost = self.db.execute(AUDITS["message_uncovered"], {"here": conversation_id, "now": 0}).fetchall()
        return self.db.executemany(
            "INSERT OR IGNORE INTO context_items (conversation_id, ordinal, item_type, message_id, tokens) "
            "SELECT conversation_id, seq, 'message', message_id, tokens FROM messages WHERE message_id = ?",
            [(int(row[1].removeprefix("msg_")),) for row in lost],
        ).rowcount

    def copy_item_tokens(self, conversation_id: int) -> int:
        return self.db.execute(
            "UPDATE context_items SET tokens = m.cost FROM (SELECT message_id, CASE WHEN hidden OR role = 'system' "
            "THEN 0 ELSE tokens END AS cost FROM messages WHERE conversation_id = ?1) m "
            "WHERE context_items.conversation_id = ?1 AND context_items.message_id = m.message_id "
            "AND context_items.tokens <> m.cost",
            (conversation_id,),
        ).rowcount

    def recount(self, conversation_id: int) -> int:
        return self.db.execute(
            "UPDATE conversations SET "
            "(raw_items, raw_tokens, summary_items, summary_tokens) = (SELECT count(message_id), "
            "coalesce(sum(tokens) FILTER (WHERE message_id IS NOT NULL), 0), count(summary_id), "
            "coalesce(sum(tokens) FILTER (WHERE summary_id IS NOT NULL), 0) FROM context_items "
            "WHERE conversation_id = ?1), "
            "(message_count, next_seq) = (SELECT count(*), max(next_seq, coalesce(max(seq), 0) + 1) FROM messages "
            "WHERE conversation_id = ?1), revision = revision + 1 WHERE conversation_id = ?1",
            (conversation_id,),
        ).rowcount

    def recount_sources(self, conversation_id: int) -> int:
        changed = self.db.execute(
            "UPDATE summaries SET message_count = n, descendant_count = n FROM (SELECT summary_id AS id, count(*) AS n "
            "FROM summary_messages GROUP BY summary_id) WHERE summary_id = id AND conversation_id = ? "
            "AND (message_count, descendant_count) <> (n, n)",
            (conversation_id,),
        ).rowcount
        deepest = self._one("SELECT max(depth) FROM summaries WHERE conversation_id = ?", (conversation_id,))[
            0
        ]
        for depth in range(1, (deepest or 0) + 1):
            changed += self.db.execute(
                "UPDATE summaries SET message_count = n, descendant_count = d FROM (SELECT l.summary_id AS id, "
                "sum(q.message_count) AS n, sum(q.descendant_count + 1) AS d FROM summary_parents l JOIN summaries q "
                "ON q.summary_id = l.parent_summary_id GROUP BY l.summary_id) WHERE summary_id = id "
                "AND conversation_id = ? AND depth = ? AND (message_count, descendant_count) <> (n, d)",
                (conversation_id, depth),
            ).rowcount
        return changed

    def free_lease(self, conversation_id: int) -> int:
        return self.db.execute(
            "UPDATE compaction_debt SET state = 'pending', owner = NULL, lease_until = 0, next_attempt_at = 0 "
            "WHERE conversation_id = ? AND state = 'running'",
            (conversation_id,),
        ).rowcount

    def rewrite_summary(self, summary: Summary, item_tokens: int) -> None:
        self.unindex_summaries([summary.summary_id])
        self.db.execute(
            "UPDATE summaries SET content = ?, tokens = ?, level = ?, model = ?, prompt_version = ?, fallback = ?, "
            "capped = ? WHERE summary_id = ?",
            (
                summary.content,
                summary.tokens,
                summary.level,
                summary.model,
                summary.prompt_version,
                int(summary.fallback),
                int(summary.capped),
                summary.summary_id,
            ),
        )
        self.reindex_summaries([summary.summary_id])
        self.db.execute(
            "UPDATE context_items SET tokens = ? WHERE summary_id = ?", (item_tokens, summary.summary_id)
        )
        self.recount(summary.conversation_id)

    def summaries_to_rewrite(self, conversation_id: int) -> Sequence[str]:
        rows = self._all(
            "WITH RECURSIVE stale (id) AS (SELECT summary_id FROM summaries WHERE conversation_id = ? AND fallback = 1 "
            "UNION SELECT l.summary_id FROM summary_parents l JOIN stale ON stale.id = l.parent_summary_id) "
            "SELECT summary_id FROM summaries JOIN stale ON id = summary_id ORDER BY depth, summary_rowid",
            (conversation_id,),
        )
        return [row[0] for row in rows]
