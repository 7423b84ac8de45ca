"""What `doctor apply` changes."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_plugin.store.postgres.audit import expected_indexes, word_columns
from lcm_plugin.store.postgres.audit_queries import QUERIES as AUDITS
from lcm_plugin.store.postgres.schema import trigram_indexes
from lcm_plugin.store.postgres.search import SearchChanges
from lcm_plugin.store.postgres.transaction import PostgresStatements as Handle
from lcm_plugin.store.records import Summary
from lcm_plugin.store.repair_base import message_ids

_NAMED = "coalesce('msg_' || context_items.message_id, context_items.summary_id) = ANY(%(refs)s)"
_FROM_MESSAGES = (
    "SELECT l.summary_id AS id, count(*) AS n, count(*) AS d, sum(m.tokens) AS t, min(m.seq) AS a, max(m.seq) AS b, "
    "min(m.created_at) AS e, max(m.created_at) AS z FROM summary_messages l "
    "JOIN messages m ON m.message_id = l.message_id WHERE m.conversation_id = %(here)s GROUP BY l.summary_id"
)
_FROM_SUMMARIES = (
    "SELECT l.summary_id AS id, sum(q.message_count) AS n, sum(q.descendant_count + 1) AS d, "
    "sum(q.message_tokens) AS t, min(q.first_seq) AS a, max(q.last_seq) AS b, min(q.earliest_at) AS e, "
    "max(q.latest_at) AS z FROM summary_parents l JOIN summaries q ON q.summary_id = l.parent_summary_id "
    "WHERE q.conversation_id = %(here)s GROUP BY l.summary_id"
)
_COVERED = (
    "UPDATE summaries SET message_count = n, descendant_count = d, message_tokens = t, first_seq = a, last_seq = b, "
    "earliest_at = e, latest_at = z FROM ({source}) covered WHERE summary_id = id AND conversation_id = %(here)s "
    "AND depth = %(depth)s AND (message_count, descendant_count, message_tokens, first_seq, last_seq, earliest_at, "
    "latest_at) <> (n, d, t, a, b, e, z)"
)


class RepairChanges(SearchChanges, Handle):
    """Repairs of one conversation."""

    def drop_dangling_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        self.lock_conversation(conversation_id)
        return self._run(
            f"DELETE FROM context_items WHERE conversation_id = %(here)s AND {_NAMED} AND NOT EXISTS (SELECT 1 FROM "
            "messages m WHERE m.message_id = context_items.message_id AND m.conversation_id = %(here)s) AND NOT EXISTS "
            "(SELECT 1 FROM summaries s WHERE s.summary_id = context_items.summary_id "
            "AND s.conversation_id = %(here)s)",
            {"here": conversation_id, "refs": list(refs)},
        )

    def drop_covered_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        self.lock_conversation(conversation_id)
        return self._run(
            f"DELETE FROM context_items WHERE conversation_id = %(here)s AND {_NAMED} AND message_id IN "
            "(SELECT message_id FROM summary_messages)",
            {"here": conversation_id, "refs": list(refs)},
        )

    def restore_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        self.lock_conversation(conversation_id)
        wanted = set(refs)
        lost = self._all(AUDITS["message_uncovered"], {"here": conversation_id, "now": 0})
        return self._run(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, tokens) "
            "SELECT conversation_id, seq, 'message', message_id, CASE WHEN hidden OR role = 'system' THEN 0 "
            "ELSE tokens END FROM messages WHERE conversation_id = %s AND message_id = ANY(%s) ON CONFLICT DO NOTHING",
            (conversation_id, message_ids([row[1] for row in lost if row[1] in wanted])),
        )

    def restore_summary(self, summary: Summary, item_tokens: int) -> int:
        self.lock_conversation(summary.conversation_id)
        return self._run(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id, tokens) "
            "SELECT %(here)s, %(first)s, 'summary', %(id)s, %(tokens)s WHERE NOT EXISTS (SELECT FROM context_items c "
            "LEFT JOIN messages m ON m.message_id = c.message_id LEFT JOIN summaries s ON s.summary_id = c.summary_id "
            "WHERE c.conversation_id = %(here)s AND coalesce(m.seq, s.first_seq) <= %(last)s "
            "AND coalesce(m.seq, s.last_seq) >= %(first)s) ON CONFLICT DO NOTHING",
            {
                "here": summary.conversation_id,
                "first": summary.first_seq,
                "last": summary.last_seq,
                "id": summary.summary_id,
                "tokens": item_tokens,
            },
        )

    def reorder_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        self.lock_conversation(conversation_id)
        misplaced = self._all(
            "SELECT c.ordinal, coalesce(m.seq, s.first_seq) FROM context_items c "
            "LEFT JOIN messages m ON m.message_id = c.message_id LEFT JOIN summaries s ON s.summary_id = c.summary_id "
            "WHERE c.conversation_id = %(here)s AND c.ordinal NOT BETWEEN coalesce(m.seq, s.first_seq) AND "
            "coalesce(m.seq, s.last_seq) AND coalesce('msg_' || c.message_id, c.summary_id) = ANY(%(refs)s)",
            {"here": conversation_id, "refs": list(refs)},
        )
        return sum(
            self._run(
                "UPDATE context_items SET ordinal = %(to)s WHERE conversation_id = %(here)s AND ordinal = %(from)s "
                "AND NOT EXISTS (SELECT FROM context_items WHERE conversation_id = %(here)s AND ordinal = %(to)s)",
                {"here": conversation_id, "from": place, "to": target},
            )
            for place, target in misplaced
        )

    def copy_item_tokens(self, conversation_id: int, refs: Sequence[str]) -> int:
        self.lock_conversation(conversation_id)
        return self._run(
            "UPDATE context_items SET tokens = m.cost FROM (SELECT message_id, CASE WHEN hidden OR role = 'system' "
            "THEN 0 ELSE tokens END AS cost FROM messages WHERE conversation_id = %(here)s) m "
            "WHERE context_items.conversation_id = %(here)s AND context_items.message_id = m.message_id "
            f"AND context_items.tokens <> m.cost AND {_NAMED}",
            {"here": conversation_id, "refs": list(refs)},
        )

    def recount(self, conversation_id: int) -> int:
        self.lock_conversation(conversation_id)
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
        self.lock_conversation(conversation_id)
        values = {"here": conversation_id, "depth": 0}
        changed = self._run(_COVERED.format(source=_FROM_MESSAGES), values)
        for depth in range(1, self._deepest(conversation_id) + 1):
            changed += self._run(_COVERED.format(source=_FROM_SUMMARIES), values | {"depth": depth})
        return changed

    def relink(self, conversation_id: int, refs: Sequence[str]) -> int:
        self.lock_conversation(conversation_id)
        mended = 0
        for ref in refs:
            values = {"ref": ref, "here": conversation_id}
            sources = self._all(
                "SELECT m.message_id FROM summaries s JOIN messages m ON m.conversation_id = s.conversation_id "
                "AND m.seq BETWEEN s.first_seq AND s.last_seq WHERE s.summary_id = %(ref)s "
                "AND s.conversation_id = %(here)s AND NOT EXISTS (SELECT 1 FROM summary_messages l "
                "WHERE l.message_id = m.message_id AND l.summary_id <> %(ref)s) ORDER BY m.seq",
                values,
            )
            count = self._one("SELECT message_count FROM summaries WHERE summary_id = %(ref)s", values)
            if count is None or count[0] != len(sources):
                continue
            self._run("DELETE FROM summary_messages WHERE summary_id = %(ref)s", values)
            self._many(
                "INSERT INTO summary_messages (conversation_id, summary_id, ordinal, message_id) VALUES (%s, %s, %s, %s)",
                [(conversation_id, ref, ordinal, row[0]) for ordinal, row in enumerate(sources)],
            )
            mended += 1
        return mended

    def recount_depths(self, conversation_id: int) -> int:
        self.lock_conversation(conversation_id)
        changed = 0
        for _ in range(self._deepest(conversation_id) + 1):
            now = self._run(
                "UPDATE summaries SET depth = d FROM (SELECT l.summary_id AS id, max(q.depth) + 1 AS d FROM "
                "summary_parents l JOIN summaries q ON q.summary_id = l.parent_summary_id WHERE l.summary_id <> "
                "l.parent_summary_id GROUP BY l.summary_id HAVING min(q.depth) = max(q.depth)) counted "
                "WHERE summary_id = id AND conversation_id = %s AND kind = 'condensed' AND depth <> d",
                (conversation_id,),
            )
            changed += now
            if not now:
                break
        return changed

    def free_lease(self, conversation_id: int) -> int:
        return self._run(
            "UPDATE compaction_debt SET state = 'pending', owner = NULL, lease_until = 0, next_attempt_at = 0, "
            "attempts = 0 WHERE conversation_id = %s AND state <> 'done'",
            (conversation_id,),
        )

    def delete_blob(self, sha256: str) -> int:
        self.hold_files()
        return self._run(
            "DELETE FROM file_blobs WHERE sha256 = %(digest)s AND NOT EXISTS (SELECT FROM large_files "
            "WHERE sha256 = %(digest)s AND storage_uri = 'db:')",
            {"digest": sha256},
        )

    def restore_schema(self) -> int:
        here = self._all("SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()")
        expected = expected_indexes() | trigram_indexes(self.db)
        missing = [sql for name, sql in expected.items() if (name,) not in here]
        for sql in missing:
            self._run(sql.replace("%", "%%"))
        return len(missing)

    def rebuild_index(self) -> bool:
        for table, definition in word_columns():
            written = definition.replace("%", "%%")
            self._run(f"ALTER TABLE {table} DROP COLUMN IF EXISTS words, ADD COLUMN words {written}")
        self.restore_schema()
        return True

    def rewrite_summary(self, summary: Summary, item_tokens: int) -> None:
        self.lock_conversation(summary.conversation_id)
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

    def _deepest(self, conversation_id: int) -> int:
        row = self._one("SELECT max(depth) FROM summaries WHERE conversation_id = %s", (conversation_id,))
        return int(row[0] or 0)
