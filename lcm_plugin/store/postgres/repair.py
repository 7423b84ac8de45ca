"""What `doctor apply` changes."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_plugin.store.postgres.audit import QUERIES as AUDITS
from lcm_plugin.store.postgres.conversations import Handle
from lcm_plugin.store.postgres.search import SearchChanges
from lcm_plugin.store.records import Summary


class RepairChanges(SearchChanges, Handle):
    """Repairs of one conversation."""

    def drop_dangling_items(self, conversation_id: int) -> int:
        return self._run(
            "DELETE FROM context_items WHERE conversation_id = %(here)s AND NOT EXISTS (SELECT 1 FROM messages m "
            "WHERE m.message_id = context_items.message_id AND m.conversation_id = %(here)s) AND NOT EXISTS (SELECT 1 "
            "FROM summaries s WHERE s.summary_id = context_items.summary_id AND s.conversation_id = %(here)s)",
            {"here": conversation_id},
        )

    def drop_covered_items(self, conversation_id: int) -> int:
        return self._run(
            "DELETE FROM context_items WHERE conversation_id = %s AND message_id IN "
            "(SELECT message_id FROM summary_messages)",
            (conversation_id,),
        )

    def restore_items(self, conversation_id: int) -> int:
        lost = self._all(AUDITS["message_uncovered"], {"here": conversation_id, "now": 0})
        return self._run(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, tokens) "
            "SELECT conversation_id, seq, 'message', message_id, tokens FROM messages "
            "WHERE conversation_id = %s AND message_id = ANY(%s) ON CONFLICT DO NOTHING",
            (conversation_id, [int(row[1].removeprefix("msg_")) for row in lost]),
        )

    def copy_item_tokens(self, conversation_id: int) -> int:
        return self._run(
            "UPDATE context_items SET tokens = m.cost FROM (SELECT message_id, CASE WHEN hidden OR role = 'system' "
            "THEN 0 ELSE tokens END AS cost FROM messages WHERE conversation_id = %(here)s) m "
            "WHERE context_items.conversation_id = %(here)s AND context_items.message_id = m.message_id "
            "AND context_items.tokens <> m.cost",
            {"here": conversation_id},
        )

    def recount(self, conversation_id: int) -> int:
        return self._run(
            "UPDATE conversations v SET raw_items = c.raw_items, raw_tokens = c.raw_tokens, "
            "summary_items = c.summary_items, summary_tokens = c.summary_tokens, message_count = m.messages, "
            "next_seq = greatest(v.next_seq, m.newest + 1), revision = v.revision + 1 FROM (SELECT "
            "count(message_id) AS raw_items, coalesce(sum(tokens) FILTER (WHERE message_id IS NOT NULL), 0) AS "
            "raw_tokens, count(summary_id) AS summary_items, coalesce(sum(tokens) FILTER "
            "(WHERE summary_id IS NOT NULL), 0) AS summary_tokens FROM context_items "
            "WHERE conversation_id = %(here)s) c, (SELECT count(*) AS messages, coalesce(max(seq), 0) AS newest "
            "FROM messages WHERE conversation_id = %(here)s) m WHERE v.conversation_id = %(here)s",
            {"here": conversation_id},
        )

    def recount_sources(self, conversation_id: int) -> int:
        changed = self._run(
            "UPDATE summaries SET message_count = n, descendant_count = n FROM (SELECT summary_id AS id, count(*) AS n "
            "FROM summary_messages GROUP BY summary_id) counted WHERE summary_id = id AND conversation_id = %s "
            "AND (message_count, descendant_count) <> (n, n)",
            (conversation_id,),
        )
        deepest = self._one(
            "SELECT max(depth) FROM summaries WHERE conversation_id = %s", (conversation_id,)
        )[0]
        for depth in range(1, (deepest or 0) + 1):
            changed += self._run(
                "UPDATE summaries SET message_count = n, descendant_count = d FROM (SELECT l.summary_id AS id, "
                "sum(q.message_count) AS n, sum(q.descendant_count + 1) AS d FROM summary_parents l JOIN summaries q "
                "ON q.summary_id = l.parent_summary_id GROUP BY l.summary_id) counted WHERE summary_id = id "
                "AND conversation_id = %s AND depth = %s AND (message_count, descendant_count) <> (n, d)",
                (conversation_id, depth),
            )
        return changed

    def free_lease(self, conversation_id: int) -> int:
        return self._run(
            "UPDATE compaction_debt SET state = 'pending', owner = NULL, lease_until = 0, next_attempt_at = 0 "
            "WHERE conversation_id = %s AND state = 'running'",
            (conversation_id,),
        )

    def rewrite_summary(self, summary: Summary, item_tokens: int) -> None:
        self.unindex_summaries([summary.summary_id])
        self._run(
            "UPDATE summaries SET content = %s, tokens = %s, level = %s, model = %s, prompt_version = %s, fallback = %s, "
            "capped = %s WHERE summary_id = %s",
            (
                summary.content,
                summary.tokens,
                summary.level,
                summary.model,
                summary.prompt_version,
                summary.fallback,
                summary.capped,
                summary.summary_id,
            ),
        )
        self.reindex_summaries([summary.summary_id])
        self._run(
            "UPDATE context_items SET tokens = %s WHERE summary_id = %s", (item_tokens, summary.summary_id)
        )
        self.recount(summary.conversation_id)

    def summaries_to_rewrite(self, conversation_id: int) -> Sequence[str]:
        rows = self._all(
            "WITH RECURSIVE stale (id) AS (SELECT summary_id FROM summaries WHERE conversation_id = %s AND fallback "
            "UNION SELECT l.summary_id FROM summary_parents l JOIN stale ON stale.id = l.parent_summary_id) "
            "SELECT summary_id FROM summaries JOIN stale ON id = summary_id ORDER BY depth, summary_rowid",
            (conversation_id,),
        )
        return [row[0] for row in rows]
