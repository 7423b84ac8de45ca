"""The integrity checker's queries. Each returns conversation, ref and detail of what breaks a rule."""

from __future__ import annotations

from collections.abc import Iterator

from lcm_plugin.store.audit_base import Breach
from lcm_plugin.store.sqlite.conversations import Handle

_LEASE_GRACE_MS = 3_600_000

# `here` restricts a query to one conversation; NULL means all of them.
QUERIES = {
    "context_dangling": """
        SELECT c.conversation_id, coalesce('msg_' || c.message_id, c.summary_id), 'ordinal ' || c.ordinal
        FROM context_items c LEFT JOIN messages m ON m.message_id = c.message_id
        LEFT JOIN summaries s ON s.summary_id = c.summary_id
        WHERE (:here IS NULL OR c.conversation_id = :here) AND m.message_id IS NULL AND s.summary_id IS NULL""",
    "context_foreign": """
        SELECT c.conversation_id, coalesce('msg_' || c.message_id, c.summary_id),
            'belongs to conversation ' || coalesce(m.conversation_id, s.conversation_id)
        FROM context_items c LEFT JOIN messages m ON m.message_id = c.message_id
        LEFT JOIN summaries s ON s.summary_id = c.summary_id
        WHERE (:here IS NULL OR c.conversation_id = :here)
            AND coalesce(m.conversation_id, s.conversation_id) <> c.conversation_id""",
    "context_order": """
        SELECT conversation_id, ref, 'ordinal ' || ordinal || ' after ' || coalesce(before_end, 0)
        FROM (SELECT c.conversation_id, c.ordinal, coalesce('msg_' || c.message_id, c.summary_id) AS ref,
                coalesce(m.seq, s.first_seq) AS first, coalesce(m.seq, s.last_seq) AS last,
                lag(coalesce(m.seq, s.last_seq)) OVER (PARTITION BY c.conversation_id ORDER BY c.ordinal) AS before_end
            FROM context_items c LEFT JOIN messages m ON m.message_id = c.message_id
            LEFT JOIN summaries s ON s.summary_id = c.summary_id
            WHERE (:here IS NULL OR c.conversation_id = :here))
        WHERE ordinal NOT BETWEEN first AND last OR before_end >= first""",
    "context_tokens": """
        SELECT c.conversation_id, 'msg_' || c.message_id, c.tokens || ' instead of ' || m.tokens
        FROM context_items c JOIN messages m ON m.message_id = c.message_id
        WHERE (:here IS NULL OR c.conversation_id = :here)
            AND c.tokens <> CASE WHEN m.hidden OR m.role = 'system' THEN 0 ELSE m.tokens END""",
    "counters": """
        SELECT v.conversation_id, 'conversation ' || v.conversation_id, 'raw ' || v.raw_items || '/' || v.raw_tokens ||
            ' summaries ' || v.summary_items || '/' || v.summary_tokens || ' instead of raw ' ||
            coalesce(t.raw_items, 0) || '/' || coalesce(t.raw_tokens, 0) || ' summaries ' ||
            coalesce(t.summary_items, 0) || '/' || coalesce(t.summary_tokens, 0)
        FROM conversations v LEFT JOIN (SELECT conversation_id, count(message_id) AS raw_items,
                sum(CASE WHEN message_id IS NULL THEN 0 ELSE tokens END) AS raw_tokens,
                count(summary_id) AS summary_items,
                sum(CASE WHEN summary_id IS NULL THEN 0 ELSE tokens END) AS summary_tokens
            FROM context_items WHERE (:here IS NULL OR conversation_id = :here) GROUP BY conversation_id) t
            ON t.conversation_id = v.conversation_id
        WHERE (:here IS NULL OR v.conversation_id = :here) AND (v.raw_items, v.raw_tokens, v.summary_items,
            v.summary_tokens) <> (coalesce(t.raw_items, 0), coalesce(t.raw_tokens, 0), coalesce(t.summary_items, 0),
            coalesce(t.summary_tokens, 0))""",
    "message_count": """
        SELECT v.conversation_id, 'conversation ' || v.conversation_id, v.message_count || ' messages up to seq ' ||
            (v.next_seq - 1) || ' instead of ' || count(m.message_id) || ' up to ' || coalesce(max(m.seq), 0)
        FROM conversations v LEFT JOIN messages m ON m.conversation_id = v.conversation_id
        WHERE (:here IS NULL OR v.conversation_id = :here) GROUP BY v.conversation_id
        HAVING count(m.message_id) <> v.message_count OR coalesce(max(m.seq), 0) >= v.next_seq""",
    "message_uncovered": """
        SELECT m.conversation_id, 'msg_' || m.message_id, 'seq ' || m.seq FROM messages m
        WHERE (:here IS NULL OR m.conversation_id = :here)
            AND NOT EXISTS (SELECT 1 FROM context_items c WHERE c.message_id = m.message_id)
            AND NOT EXISTS (SELECT 1 FROM summary_messages l WHERE l.message_id = m.message_id)
            AND NOT EXISTS (SELECT 1 FROM context_snapshots p, json_each(p.items) i
                WHERE p.conversation_id = m.conversation_id AND json_extract(i.value, '$[1]') = 'message'
                AND json_extract(i.value, '$[2]') = m.message_id)""",
    "message_covered_twice": """
        SELECT m.conversation_id, 'msg_' || m.message_id, 'in ' || group_concat(l.summary_id, ' and ') ||
            CASE WHEN c.message_id IS NULL THEN '' ELSE ' and in the context' END
        FROM summary_messages l JOIN messages m ON m.message_id = l.message_id
        LEFT JOIN context_items c ON c.message_id = m.message_id
        WHERE (:here IS NULL OR m.conversation_id = :here)
        GROUP BY m.message_id HAVING count(*) > 1 OR c.message_id IS NOT NULL""",
    "message_unreadable": """
        SELECT m.conversation_id, 'msg_' || m.message_id, 'its skeleton is not JSON' FROM messages m
        WHERE (:here IS NULL OR m.conversation_id = :here) AND m.skeleton IS NOT NULL AND NOT json_valid(m.skeleton)
        UNION ALL
        SELECT m.conversation_id, 'msg_' || m.message_id, 'part ' || p.ordinal || ' is not JSON'
        FROM message_parts p JOIN messages m ON m.message_id = p.message_id
        WHERE (:here IS NULL OR m.conversation_id = :here)
            AND (NOT json_valid(coalesce(p.exact, '0')) OR NOT json_valid(coalesce(p.metadata, '0')))""",
    "part_without_file": """
        SELECT m.conversation_id, 'msg_' || m.message_id, p.file_id
        FROM message_parts p JOIN messages m ON m.message_id = p.message_id
        LEFT JOIN large_files f ON f.file_id = p.file_id
        WHERE (:here IS NULL OR m.conversation_id = :here) AND p.file_id IS NOT NULL AND f.file_id IS NULL""",
    "summary_without_source": """
        SELECT s.conversation_id, s.summary_id, 'depth ' || s.depth FROM summaries s
        WHERE (:here IS NULL OR s.conversation_id = :here) AND CASE WHEN s.depth = 0
            THEN NOT EXISTS (SELECT 1 FROM summary_messages l WHERE l.summary_id = s.summary_id)
            ELSE NOT EXISTS (SELECT 1 FROM summary_parents l WHERE l.summary_id = s.summary_id) END""",
    "summary_missing_source": """
        SELECT s.conversation_id, s.summary_id, 'msg_' || l.message_id FROM summary_messages l
        JOIN summaries s ON s.summary_id = l.summary_id LEFT JOIN messages m ON m.message_id = l.message_id
        WHERE (:here IS NULL OR s.conversation_id = :here) AND m.message_id IS NULL
        UNION ALL
        SELECT s.conversation_id, s.summary_id, l.parent_summary_id FROM summary_parents l
        JOIN summaries s ON s.summary_id = l.summary_id LEFT JOIN summaries q ON q.summary_id = l.parent_summary_id
        WHERE (:here IS NULL OR s.conversation_id = :here) AND q.summary_id IS NULL""",
    "summary_depth": """
        SELECT s.conversation_id, s.summary_id, 'depth ' || s.depth || ' over sources of depth ' || min(q.depth) ||
            ' to ' || max(q.depth)
        FROM summaries s JOIN summary_parents l ON l.summary_id = s.summary_id
        JOIN summaries q ON q.summary_id = l.parent_summary_id
        WHERE (:here IS NULL OR s.conversation_id = :here)
        GROUP BY s.summary_id HAVING min(q.depth) <> max(q.depth) OR s.depth <> max(q.depth) + 1""",
    "summary_orphan": """
        SELECT s.conversation_id, s.summary_id, 'depth ' || s.depth FROM summaries s
        WHERE (:here IS NULL OR s.conversation_id = :here)
            AND NOT EXISTS (SELECT 1 FROM context_items c WHERE c.summary_id = s.summary_id)
            AND NOT EXISTS (SELECT 1 FROM summary_parents l WHERE l.parent_summary_id = s.summary_id)
            AND NOT EXISTS (SELECT 1 FROM context_snapshots p, json_each(p.items) i
                WHERE p.conversation_id = s.conversation_id AND json_extract(i.value, '$[2]') = s.summary_id)""",
    "summary_sums": """
        SELECT s.conversation_id, s.summary_id, s.message_count || ' messages instead of ' || count(*)
        FROM summaries s JOIN summary_messages l ON l.summary_id = s.summary_id
        WHERE (:here IS NULL OR s.conversation_id = :here)
        GROUP BY s.summary_id HAVING count(*) <> s.message_count OR count(*) <> s.descendant_count
        UNION ALL
        SELECT s.conversation_id, s.summary_id, s.message_count || ' messages instead of ' || sum(q.message_count)
        FROM summaries s JOIN summary_parents l ON l.summary_id = s.summary_id
        JOIN summaries q ON q.summary_id = l.parent_summary_id
        WHERE (:here IS NULL OR s.conversation_id = :here)
        GROUP BY s.summary_id HAVING sum(q.message_count) <> s.message_count
            OR sum(q.descendant_count + 1) <> s.descendant_count""",
    "summary_fallback": """
        SELECT s.conversation_id, s.summary_id, 'depth ' || s.depth FROM summaries s
        WHERE (:here IS NULL OR s.conversation_id = :here) AND s.fallback = 1""",
    "summary_oversize": """
        SELECT s.conversation_id, s.summary_id, s.tokens || ' tokens from ' || s.source_tokens FROM summaries s
        WHERE (:here IS NULL OR s.conversation_id = :here) AND s.tokens >= s.source_tokens""",
    "debt_stale": f"""
        SELECT d.conversation_id, 'conversation ' || d.conversation_id, 'its lease ended, held by ' || d.owner
        FROM compaction_debt d WHERE (:here IS NULL OR d.conversation_id = :here)
            AND d.state = 'running' AND d.lease_until < :now - {_LEASE_GRACE_MS}""",
}


class AuditQueries(Handle):
    """Reads of the integrity checker."""

    def audit(self, name: str, *, conversation_id: int | None = None, now: int = 0) -> Iterator[Breach]:
        for row in self.db.execute(QUERIES[name], {"here": conversation_id, "now": now}):
            yield Breach(*row)

    def structure_faults(self) -> list[str]:
        faults = [row[0] for row in self.db.execute("PRAGMA quick_check(100)") if row[0] != "ok"]
        broken = self.db.execute("PRAGMA foreign_key_check").fetchmany(100)
        return faults + [f"row {row[1]} of {row[0]} refers to a missing row of {row[2]}" for row in broken]
