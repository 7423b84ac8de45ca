"""What `doctor apply` changes in one conversation."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_plugin.store.integrity import message_ids
from lcm_plugin.store.records import Summary
from lcm_plugin.store.tables.audit import AuditTable
from lcm_plugin.store.tables.messages import item_tokens
from lcm_plugin.store.tables.summaries import SummaryTable

_REF = "coalesce('msg_' || c.message_id, c.summary_id)"
_FROM_MESSAGES = (
    "SELECT l.summary_id AS id, count(*) AS n, count(*) AS d, sum(m.tokens) AS t, min(m.seq) AS a, max(m.seq) AS b, "
    "min(m.created_at) AS e, max(m.created_at) AS z FROM summary_messages l "
    "JOIN messages m ON m.message_id = l.message_id WHERE m.conversation_id = :here GROUP BY l.summary_id"
)
_FROM_SUMMARIES = (
    "SELECT l.summary_id AS id, sum(q.message_count) AS n, sum(q.descendant_count + 1) AS d, "
    "sum(q.message_tokens) AS t, min(q.first_seq) AS a, max(q.last_seq) AS b, min(q.earliest_at) AS e, "
    "max(q.latest_at) AS z FROM summary_parents l JOIN summaries q ON q.summary_id = l.parent_summary_id "
    "WHERE q.conversation_id = :here GROUP BY l.summary_id"
)
_COVERED = (
    "UPDATE summaries SET message_count = n, descendant_count = d, message_tokens = t, first_seq = a, last_seq = b, "
    "earliest_at = e, latest_at = z FROM ({source}) covered WHERE summary_id = id AND conversation_id = :here "
    "AND depth = :depth AND (message_count, descendant_count, message_tokens, first_seq, last_seq, earliest_at, "
    "latest_at) <> (n, d, t, a, b, e, z)"
)


class RepairTable(AuditTable, SummaryTable):
    """Repairs of one conversation."""

    def drop_dangling_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        self.lock_conversation(conversation_id)
        return self.run(
            f"DELETE FROM context_items AS c WHERE c.conversation_id = :here AND {_REF} {self.sql.any_of('refs')} "
            "AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.message_id = c.message_id AND m.conversation_id = :here) "
            "AND NOT EXISTS (SELECT 1 FROM summaries s WHERE s.summary_id = c.summary_id AND s.conversation_id = :here)",
            here=conversation_id,
            refs=self.sql.array(refs),
        )

    def drop_covered_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        self.lock_conversation(conversation_id)
        return self.run(
            f"DELETE FROM context_items AS c WHERE c.conversation_id = :here AND {_REF} {self.sql.any_of('refs')} "
            "AND c.message_id IN (SELECT message_id FROM summary_messages)",
            here=conversation_id,
            refs=self.sql.array(refs),
        )

    def restore_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        self.lock_conversation(conversation_id)
        wanted = set(refs)
        lost = [one.ref for one in self.audit("message_uncovered", conversation_id=conversation_id)]
        return self.run(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, tokens) "
            f"SELECT conversation_id, seq, 'message', message_id, {item_tokens()} FROM messages "
            f"WHERE message_id {self.sql.any_of('ids')} ON CONFLICT DO NOTHING",
            ids=self.sql.array(message_ids([ref for ref in lost if ref in wanted])),
        )

    def restore_summary(self, summary: Summary, item_tokens: int) -> int:
        self.lock_conversation(summary.conversation_id)
        return self.run(
            "INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id, tokens) "
            "SELECT :here, :first, 'summary', :summary, :tokens WHERE NOT EXISTS (SELECT 1 FROM context_items c "
            "LEFT JOIN messages m ON m.message_id = c.message_id LEFT JOIN summaries s ON s.summary_id = c.summary_id "
            "WHERE c.conversation_id = :here AND coalesce(m.seq, s.first_seq) <= :last "
            "AND coalesce(m.seq, s.last_seq) >= :first) ON CONFLICT DO NOTHING",
            here=summary.conversation_id,
            first=summary.first_seq,
            last=summary.last_seq,
            summary=summary.summary_id,
            tokens=item_tokens,
        )

    def reorder_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        self.lock_conversation(conversation_id)
        misplaced = self.all(
            "SELECT c.ordinal, coalesce(m.seq, s.first_seq) FROM context_items c "
            "LEFT JOIN messages m ON m.message_id = c.message_id LEFT JOIN summaries s ON s.summary_id = c.summary_id "
            "WHERE c.conversation_id = :here AND c.ordinal NOT BETWEEN coalesce(m.seq, s.first_seq) AND "
            f"coalesce(m.seq, s.last_seq) AND {_REF} {self.sql.any_of('refs')}",
            here=conversation_id,
            refs=self.sql.array(refs),
        )
        return sum(
            self.run(
                "UPDATE context_items SET ordinal = :target WHERE conversation_id = :here AND ordinal = :place "
                "AND NOT EXISTS (SELECT 1 FROM context_items WHERE conversation_id = :here AND ordinal = :target)",
                here=conversation_id,
                place=place,
                target=target,
            )
            for place, target in misplaced
        )

    def copy_item_tokens(self, conversation_id: int, refs: Sequence[str]) -> int:
        self.lock_conversation(conversation_id)
        return self.run(
            f"UPDATE context_items AS c SET tokens = m.cost FROM (SELECT message_id, {item_tokens()} AS cost "
            "FROM messages WHERE conversation_id = :here) m "
            "WHERE c.conversation_id = :here AND c.message_id = m.message_id AND c.tokens <> m.cost "
            f"AND {_REF} {self.sql.any_of('refs')}",
            here=conversation_id,
            refs=self.sql.array(refs),
        )

    def recount(self, conversation_id: int) -> int:
        self.lock_conversation(conversation_id)
        return self.run(
            "UPDATE conversations AS v SET raw_items = c.raw_items, raw_tokens = c.raw_tokens, "
            "summary_items = c.summary_items, summary_tokens = c.summary_tokens, message_count = m.messages, "
            f"next_seq = {self.sql.greatest('v.next_seq', 'm.newest + 1')}, revision = v.revision + 1 FROM (SELECT "
            "count(message_id) AS raw_items, coalesce(sum(tokens) FILTER (WHERE message_id IS NOT NULL), 0) AS "
            "raw_tokens, count(summary_id) AS summary_items, coalesce(sum(tokens) FILTER "
            "(WHERE summary_id IS NOT NULL), 0) AS summary_tokens FROM context_items "
            "WHERE conversation_id = :here) c, (SELECT count(*) AS messages, coalesce(max(seq), 0) AS newest "
            "FROM messages WHERE conversation_id = :here) m WHERE v.conversation_id = :here",
            here=conversation_id,
        )

    def recount_sources(self, conversation_id: int) -> int:
        self.lock_conversation(conversation_id)
        changed = self.run(_COVERED.format(source=_FROM_MESSAGES), here=conversation_id, depth=0)
        for depth in range(1, self._deepest(conversation_id) + 1):
            changed += self.run(_COVERED.format(source=_FROM_SUMMARIES), here=conversation_id, depth=depth)
        return changed

    def relink(self, conversation_id: int, refs: Sequence[str]) -> int:
        self.lock_conversation(conversation_id)
        mended = 0
        for ref in refs:
            sources = self.all(
                "SELECT m.message_id FROM summaries s JOIN messages m ON m.conversation_id = s.conversation_id "
                "AND m.seq BETWEEN s.first_seq AND s.last_seq WHERE s.summary_id = :ref AND s.conversation_id = :here "
                "AND NOT EXISTS (SELECT 1 FROM summary_messages l WHERE l.message_id = m.message_id "
                "AND l.summary_id <> :ref) ORDER BY m.seq",
                ref=ref,
                here=conversation_id,
            )
            count = self.one("SELECT message_count FROM summaries WHERE summary_id = :ref", ref=ref)
            if count is None or count[0] != len(sources):
                continue
            self.run("DELETE FROM summary_messages WHERE summary_id = :ref", ref=ref)
            self.insert_message_links(
                [
                    {"here": conversation_id, "summary": ref, "ordinal": ordinal, "source": row[0]}
                    for ordinal, row in enumerate(sources)
                ]
            )
            mended += 1
        return mended

    def recount_depths(self, conversation_id: int) -> int:
        self.lock_conversation(conversation_id)
        changed = 0
        for _ in range(self._deepest(conversation_id) + 1):
            now = self.run(
                "UPDATE summaries SET depth = d FROM (SELECT l.summary_id AS id, max(q.depth) + 1 AS d FROM "
                "summary_parents l JOIN summaries q ON q.summary_id = l.parent_summary_id WHERE l.summary_id <> "
                "l.parent_summary_id GROUP BY l.summary_id HAVING min(q.depth) = max(q.depth)) counted "
                "WHERE summary_id = id AND conversation_id = :here AND kind = 'condensed' AND depth <> d",
                here=conversation_id,
            )
            changed += now
            if not now:
                break
        return changed

    def free_lease(self, conversation_id: int) -> int:
        return self.run(
            "UPDATE compaction_debt SET state = 'pending', owner = NULL, lease_until = 0, next_attempt_at = 0, "
            "attempts = 0 WHERE conversation_id = :here AND state <> 'done'",
            here=conversation_id,
        )

    def delete_blob(self, sha256: str) -> int:
        self.hold_files()
        return self.run(
            "DELETE FROM file_blobs WHERE sha256 = :digest AND NOT EXISTS (SELECT 1 FROM large_files "
            "WHERE sha256 = :digest AND storage_uri = 'db:')",
            digest=sha256,
        )

    def _deepest(self, conversation_id: int) -> int:
        row = self.one("SELECT max(depth) FROM summaries WHERE conversation_id = :here", here=conversation_id)
        return int(row[0] or 0)
