"""What `doctor apply` changes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from lcm_plugin.store.records import Summary
from lcm_plugin.store.repair_base import message_ids
from lcm_plugin.store.sqlite.audit import OBJECTS, expected_objects
from lcm_plugin.store.sqlite.audit_queries import QUERIES as AUDITS
from lcm_plugin.store.sqlite.search import SearchChanges
from lcm_plugin.store.sqlite.search_index import KINDS
from lcm_plugin.store.sqlite.transaction import SqliteStatements as Handle

_NAMED = "coalesce('msg_' || context_items.message_id, context_items.summary_id) IN (SELECT value FROM json_each(?2))"
_FROM_MESSAGES = (
    "SELECT l.summary_id AS id, count(*) AS n, count(*) AS d, sum(m.tokens) AS t, min(m.seq) AS a, max(m.seq) AS b, "
    "min(m.created_at) AS e, max(m.created_at) AS z FROM summary_messages l "
    "JOIN messages m ON m.message_id = l.message_id WHERE m.conversation_id = ?1 GROUP BY l.summary_id"
)
_FROM_SUMMARIES = (
    "SELECT l.summary_id AS id, sum(q.message_count) AS n, sum(q.descendant_count + 1) AS d, "
    "sum(q.message_tokens) AS t, min(q.first_seq) AS a, max(q.last_seq) AS b, min(q.earliest_at) AS e, "
    "max(q.latest_at) AS z FROM summary_parents l JOIN summaries q ON q.summary_id = l.parent_summary_id "
    "WHERE q.conversation_id = ?1 GROUP BY l.summary_id"
)
_COVERED = (
    "UPDATE summaries SET message_count = n, descendant_count = d, message_tokens = t, first_seq = a, last_seq = b, "
    "earliest_at = e, latest_at = z FROM ({source}) WHERE summary_id = id AND conversation_id = ?1 AND depth = ?2 "
    "AND (message_count, descendant_count, message_tokens, first_seq, last_seq, earliest_at, latest_at) "
    "<> (n, d, t, a, b, e, z)"
)


class RepairChanges(SearchChanges, Handle):
    """Repairs of one conversation."""

    def drop_dangling_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        return self.db.execute(
            f"DELETE FROM context_items WHERE conversation_id = ?1 AND {_NAMED} AND NOT EXISTS (SELECT 1 FROM "
            "messages m WHERE m.message_id = context_items.message_id AND m.conversation_id = ?1) AND NOT EXISTS "
            "(SELECT 1 FROM summaries s WHERE s.summary_id = context_items.summary_id AND s.conversation_id = ?1)",
            (conversation_id, json.dumps(list(refs))),
        ).rowcount

    def drop_covered_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        return self.db.execute(
            f"DELETE FROM context_items WHERE conversation_id = ?1 AND {_NAMED} AND message_id IN "
            "(SELECT message_id FROM summary_messages)",
            (conversation_id, json.dumps(list(refs))),
        ).rowcount

    def restore_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        wanted = set(refs)
        lost = self.db.execute(AUDITS["message_uncovered"], {"here": conversation_id, "now": 0}).fetchall()
        return self.db.executemany(
            "INSERT OR IGNORE INTO context_items (conversation_id, ordinal, item_type, message_id, tokens) "
            "SELECT conversation_id, seq, 'message', message_id, CASE WHEN hidden OR role = 'system' THEN 0 "
            "ELSE tokens END FROM messages WHERE message_id = ?",
            [(message_id,) for message_id in message_ids([row[1] for row in lost if row[1] in wanted])],
        ).rowcount

    def restore_summary(self, summary: Summary, item_tokens: int) -> int:
        here = (summary.conversation_id, summary.first_seq, summary.last_seq)
        taken = self._one(
            "SELECT 1 FROM context_items c LEFT JOIN messages m ON m.message_id = c.message_id "
            "LEFT JOIN summaries s ON s.summary_id = c.summary_id WHERE c.conversation_id = ?1 "
            "AND coalesce(m.seq, s.first_seq) <= ?3 AND coalesce(m.seq, s.last_seq) >= ?2 LIMIT 1",
            here,
        )
        if taken:
            return 0
        return self.db.execute(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id, tokens) "
            "VALUES (?, ?, 'summary', ?, ?) ON CONFLICT DO NOTHING",
            (*here[:2], summary.summary_id, item_tokens),
        ).rowcount

    def reorder_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        misplaced = self._all(
            "SELECT c.ordinal, coalesce(m.seq, s.first_seq) FROM context_items c "
            "LEFT JOIN messages m ON m.message_id = c.message_id LEFT JOIN summaries s ON s.summary_id = c.summary_id "
            "WHERE c.conversation_id = ?1 AND c.ordinal NOT BETWEEN coalesce(m.seq, s.first_seq) AND "
            "coalesce(m.seq, s.last_seq) AND coalesce('msg_' || c.message_id, c.summary_id) IN "
            "(SELECT value FROM json_each(?2))",
            (conversation_id, json.dumps(list(refs))),
        )
        return self.db.executemany(
            "UPDATE OR IGNORE context_items SET ordinal = ?3 WHERE conversation_id = ?1 AND ordinal = ?2",
            [(conversation_id, *places) for places in misplaced],
        ).rowcount

    def copy_item_tokens(self, conversation_id: int, refs: Sequence[str]) -> int:
        return self.db.execute(
            "UPDATE context_items SET tokens = m.cost FROM (SELECT message_id, CASE WHEN hidden OR role = 'system' "
            "THEN 0 ELSE tokens END AS cost FROM messages WHERE conversation_id = ?1) m "
            "WHERE context_items.conversation_id = ?1 AND context_items.message_id = m.message_id "
            f"AND context_items.tokens <> m.cost AND {_NAMED}",
            (conversation_id, json.dumps(list(refs))),
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
        changed = self.db.execute(_COVERED.format(source=_FROM_MESSAGES), (conversation_id, 0)).rowcount
        for depth in range(1, self._deepest(conversation_id) + 1):
            changed += self.db.execute(
                _COVERED.format(source=_FROM_SUMMARIES), (conversation_id, depth)
            ).rowcount
        return changed

    def relink(self, conversation_id: int, refs: Sequence[str]) -> int:
        mended = 0
        for ref in refs:
            sources = self._all(
                "SELECT m.message_id FROM summaries s JOIN messages m ON m.conversation_id = s.conversation_id "
                "AND m.seq BETWEEN s.first_seq AND s.last_seq WHERE s.summary_id = ?1 AND s.conversation_id = ?2 "
                "AND NOT EXISTS (SELECT 1 FROM summary_messages l WHERE l.message_id = m.message_id "
                "AND l.summary_id <> ?1) ORDER BY m.seq",
                (ref, conversation_id),
            )
            whole = self._one(
                "SELECT message_count = ? FROM summaries WHERE summary_id = ?", (len(sources), ref)
            )
            if not (whole and whole[0]):
                continue
            self.db.execute("DELETE FROM summary_messages WHERE summary_id = ?", (ref,))
            self.db.executemany(
                "INSERT INTO summary_messages (summary_id, ordinal, message_id) VALUES (?, ?, ?)",
                [(ref, ordinal, row[0]) for ordinal, row in enumerate(sources)],
            )
            mended += 1
        return mended

    def recount_depths(self, conversation_id: int) -> int:
        changed = 0
        for _ in range(self._deepest(conversation_id) + 1):
            now = self.db.execute(
                "UPDATE summaries SET depth = d FROM (SELECT l.summary_id AS id, max(q.depth) + 1 AS d FROM "
                "summary_parents l JOIN summaries q ON q.summary_id = l.parent_summary_id WHERE l.summary_id <> "
                "l.parent_summary_id GROUP BY l.summary_id HAVING min(q.depth) = max(q.depth)) "
                "WHERE summary_id = id AND conversation_id = ? AND kind = 'condensed' AND depth <> d",
                (conversation_id,),
            ).rowcount
            changed += now
            if not now:
                break
        return changed

    def free_lease(self, conversation_id: int) -> int:
        return self.db.execute(
            "UPDATE compaction_debt SET state = 'pending', owner = NULL, lease_until = 0, next_attempt_at = 0, "
            "attempts = 0 WHERE conversation_id = ? AND state <> 'done'",
            (conversation_id,),
        ).rowcount

    def delete_blob(self, sha256: str) -> int:
        return self.db.execute(
            "DELETE FROM file_blobs WHERE sha256 = ?1 AND NOT EXISTS (SELECT 1 FROM large_files "
            "WHERE sha256 = ?1 AND storage_uri = 'db:')",
            (sha256,),
        ).rowcount

    def restore_schema(self) -> int:
        here = dict(self._all(OBJECTS))
        wrong = {name: sql for name, sql in expected_objects().items() if here.get(name) != sql}
        for name, sql in wrong.items():
            kind = sql.split()[1].replace("UNIQUE", "INDEX")
            self.db.execute(f"DROP {kind} IF EXISTS {name}")
            self.db.execute(sql)
        return len(wrong)

    def rebuild_index(self) -> bool:
        self.db.execute("SAVEPOINT rebuild")
        try:
            self.reset_index()
        except sqlite3.DatabaseError:
            self.db.execute("ROLLBACK TO rebuild")
            self._forget_index()
            self.reset_index()
            return False
        finally:
            self.db.execute("RELEASE rebuild")
        return True

    def _forget_index(self) -> None:
        """Takes the index's tables out of the schema without reading them, since their pages are damaged."""
        self.db.execute("PRAGMA writable_schema = ON")
        names = ", ".join(f"'{kind}s_fts', '{kind}s_trigram'" for kind in KINDS)
        self.db.execute(
            f"DELETE FROM sqlite_master WHERE name IN ({names}, 'index_state') OR tbl_name = 'index_state' OR "
            + " OR ".join(
                f"name GLOB '{kind}s_{half}_*' OR tbl_name GLOB '{kind}s_{half}_*'"
                for kind in KINDS
                for half in ("fts", "trigram")
            )
        )
        self.db.execute("PRAGMA writable_schema = RESET")

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

    def _deepest(self, conversation_id: int) -> int:
        row = self._one("SELECT max(depth) FROM summaries WHERE conversation_id = ?", (conversation_id,))
        return int(row[0] or 0)
