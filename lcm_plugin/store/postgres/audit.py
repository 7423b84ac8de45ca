"""The integrity checker's queries. Each returns conversation, ref and detail of what breaks a rule."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from lcm_plugin.store.audit_base import Breach
from lcm_plugin.store.postgres.conversations import Handle

_LEASE_GRACE_MS = 3_600_000
_cursor_names = itertools.count()

# `here` restricts a query to one conversation; NULL means all of them.
QUERIES = {
    "context_dangling": """
        SELECT c.conversation_id, coalesce('msg_' || c.message_id, c.summary_id), 'ordinal ' || c.ordinal
        FROM context_items c LEFT JOIN messages m ON m.message_id = c.message_id
        LEFT JOIN summaries s ON s.summary_id = c.summary_id
        WHERE (%(here)s::bigint IS NULL OR c.conversation_id = %(here)s)
            AND m.message_id IS NULL AND s.summary_id IS NULL""",
    "context_foreign": """
        SELECT c.conversation_id, coalesce('msg_' || c.message_id, c.summary_id),
            'belongs to conversation ' || coalesce(m.conversation_id, s.conversation_id)
        FROM context_items c LEFT JOIN messages m ON m.message_id = c.message_id
        LEFT JOIN summaries s ON s.summary_id = c.summary_id
        WHERE (%(here)s::bigint IS NULL OR c.conversation_id = %(here)s)
            AND coalesce(m.conversation_id, s.conversation_id) <> c.conversation_id""",
    "context_order": """
        SELECT conversation_id, ref, 'ordinal ' || ordinal || ' after ' || coalesce(before_end, 0)
        FROM (SELECT c.conversation_id, c.ordinal, coalesce('msg_' || c.message_id, c.summary_id) AS ref,
                coalesce(m.seq, s.first_seq) AS first_seq, coalesce(m.seq, s.last_seq) AS last_seq,
                lag(coalesce(m.seq, s.last_seq)) OVER (PARTITION BY c.conversation_id ORDER BY c.ordinal) AS before_end
            FROM context_items c LEFT JOIN messages m ON m.message_id = c.message_id
            LEFT JOIN summaries s ON s.summary_id = c.summary_id
            WHERE (%(here)s::bigint IS NULL OR c.conversation_id = %(here)s)) placed
        WHERE ordinal NOT BETWEEN first_seq AND last_seq OR before_end >= first_seq""",
    "context_tokens": """
        SELECT c.conversation_id, 'msg_' || c.message_id, c.tokens || ' instead of ' || m.tokens
        FROM context_items c JOIN messages m ON m.message_id = c.message_id
        WHERE (%(here)s::bigint IS NULL OR c.conversation_id = %(here)s)
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
            FROM context_items WHERE (%(here)s::bigint IS NULL OR conversation_id = %(here)s) GROUP BY conversation_id) t
            ON t.conversation_id = v.conversation_id
        WHERE (%(here)s::bigint IS NULL OR v.conversation_id = %(here)s) AND (v.raw_items, v.raw_tokens, v.summary_items,
            v.summary_tokens) <> (coalesce(t.raw_items, 0), coalesce(t.raw_tokens, 0), coalesce(t.summary_items, 0),
            coalesce(t.summary_tokens, 0))""",
    "message_count": """
        SELECT v.conversation_id, 'conversation ' || v.conversation_id, v.message_count || ' messages up to seq ' ||
            (v.next_seq - 1) || ' instead of ' || count(m.message_id) || ' up to ' || coalesce(max(m.seq), 0)
        FROM conversations v LEFT JOIN messages m ON m.conversation_id = v.conversation_id
        WHERE (%(here)s::bigint IS NULL OR v.conversation_id = %(here)s) GROUP BY v.conversation_id
        HAVING count(m.message_id) <> v.message_count OR coalesce(max(m.seq), 0) >= v.next_seq""",
    "message_uncovered": """
        SELECT m.conversation_id, 'msg_' || m.message_id, 'seq ' || m.seq FROM messages m
        WHERE (%(here)s::bigint IS NULL OR m.conversation_id = %(here)s)
            AND NOT EXISTS (SELECT 1 FROM context_items c WHERE c.message_id = m.message_id)
            AND NOT EXISTS (SELECT 1 FROM summary_messages l WHERE l.message_id = m.message_id)
            AND NOT EXISTS (SELECT 1 FROM context_snapshots p, jsonb_array_elements(p.items) i
                WHERE p.conversation_id = m.conversation_id AND i.value ->> 1 = 'message'
                AND i.value ->> 2 = m.message_id::text)""",
    "message_covered_twice": """
        SELECT m.conversation_id, 'msg_' || m.message_id, 'in ' || string_agg(l.summary_id, ' and ') ||
            CASE WHEN c.message_id IS NULL THEN '' ELSE ' and in the context' END
        FROM summary_messages l JOIN messages m ON m.message_id = l.message_id
        LEFT JOIN context_items c ON c.message_id = m.message_id
        WHERE (%(here)s::bigint IS NULL OR m.conversation_id = %(here)s)
        GROUP BY m.conversation_id, m.message_id, c.message_id HAVING count(*) > 1 OR c.message_id IS NOT NULL""",
    "part_without_file": """
        SELECT m.conversation_id, 'msg_' || m.message_id, p.file_id
        FROM message_parts p JOIN messages m ON m.message_id = p.message_id
        LEFT JOIN large_files f ON f.file_id = p.file_id
        WHERE (%(here)s::bigint IS NULL OR m.conversation_id = %(here)s) AND p.file_id IS NOT NULL AND f.file_id IS NULL""",
    "summary_without_source": """
        SELECT s.conversation_id, s.summary_id, 'depth ' || s.depth FROM summaries s
        WHERE (%(here)s::bigint IS NULL OR s.conversation_id = %(here)s) AND CASE WHEN s.depth = 0
            THEN NOT EXISTS (SELECT 1 FROM summary_messages l WHERE l.summary_id = s.summary_id)
            ELSE NOT EXISTS (SELECT 1 FROM summary_parents l WHERE l.summary_id = s.summary_id) END""",
    "summary_missing_source": """
        SELECT s.conversation_id, s.summary_id, 'msg_' || l.message_id FROM summary_messages l
        JOIN summaries s ON s.summary_id = l.summary_id LEFT JOIN messages m ON m.message_id = l.message_id
        WHERE (%(here)s::bigint IS NULL OR s.conversation_id = %(here)s) AND m.message_id IS NULL
        UNION ALL
        SELECT s.conversation_id, s.summary_id, l.parent_summary_id FROM summary_parents l
        JOIN summaries s ON s.summary_id = l.summary_id LEFT JOIN summaries q ON q.summary_id = l.parent_summary_id
        WHERE (%(here)s::bigint IS NULL OR s.conversation_id = %(here)s) AND q.summary_id IS NULL""",
    "summary_depth": """
        SELECT s.conversation_id, s.summary_id, 'depth ' || s.depth || ' over sources of depth ' || min(q.depth) ||
            ' to ' || max(q.depth)
        FROM summaries s JOIN summary_parents l ON l.summary_id = s.summary_id
        JOIN summaries q ON q.summary_id = l.parent_summary_id
        WHERE (%(here)s::bigint IS NULL OR s.conversation_id = %(here)s)
        GROUP BY s.conversation_id, s.summary_id HAVING min(q.depth) <> max(q.depth) OR s.depth <> max(q.depth) + 1""",
    "summary_orphan": """
        SELECT s.conversation_id, s.summary_id, 'depth ' || s.depth FROM summaries s
        WHERE (%(here)s::bigint IS NULL OR s.conversation_id = %(here)s)
            AND NOT EXISTS (SELECT 1 FROM context_items c WHERE c.summary_id = s.summary_id)
            AND NOT EXISTS (SELECT 1 FROM summary_parents l WHERE l.parent_summary_id = s.summary_id)
            AND NOT EXISTS (SELECT 1 FROM context_snapshots p, jsonb_array_elements(p.items) i
                WHERE p.conversation_id = s.conversation_id AND i.value ->> 2 = s.summary_id)""",
    "summary_sums": """
        SELECT s.conversation_id, s.summary_id, s.message_count || ' messages instead of ' || count(*)
        FROM summaries s JOIN summary_messages l ON l.summary_id = s.summary_id
        WHERE (%(here)s::bigint IS NULL OR s.conversation_id = %(here)s)
        GROUP BY s.conversation_id, s.summary_id HAVING count(*) <> s.message_count OR count(*) <> s.descendant_count
        UNION ALL
        SELECT s.conversation_id, s.summary_id, s.message_count || ' messages instead of ' || sum(q.message_count)
        FROM summaries s JOIN summary_parents l ON l.summary_id = s.summary_id
        JOIN summaries q ON q.summary_id = l.parent_summary_id
        WHERE (%(here)s::bigint IS NULL OR s.conversation_id = %(here)s)
        GROUP BY s.conversation_id, s.summary_id HAVING sum(q.message_count) <> s.message_count
            OR sum(q.descendant_count + 1) <> s.descendant_count""",
    "summary_fallback": """
        SELECT s.conversation_id, s.summary_id, 'depth ' || s.depth FROM summaries s
        WHERE (%(here)s::bigint IS NULL OR s.conversation_id = %(here)s) AND s.fallback""",
    "summary_oversize": """
        SELECT s.conversation_id, s.summary_id, s.tokens || ' tokens from ' || s.source_tokens FROM summaries s
        WHERE (%(here)s::bigint IS NULL OR s.conversation_id = %(here)s) AND s.tokens >= s.source_tokens""",
    "debt_stale": f"""
        SELECT d.conversation_id, 'conversation ' || d.conversation_id, 'its lease ended, held by ' || d.owner
        FROM compaction_debt d WHERE (%(here)s::bigint IS NULL OR d.conversation_id = %(here)s)
            AND d.state = 'running' AND d.lease_until < %(now)s - {_LEASE_GRACE_MS}""",
}


_STORED_JSON = """
    SELECT m.conversation_id, 'msg_' || m.message_id, 'its skeleton is not JSON', m.skeleton FROM messages m
    WHERE (%(here)s::bigint IS NULL OR m.conversation_id = %(here)s) AND m.skeleton IS NOT NULL
    UNION ALL
    SELECT p.conversation_id, 'msg_' || p.message_id, 'part ' || p.ordinal || ' is not JSON', p.exact
    FROM message_parts p
    WHERE (%(here)s::bigint IS NULL OR p.conversation_id = %(here)s) AND p.exact IS NOT NULL"""


class AuditQueries(Handle):
    """Reads of the integrity checker."""

    def audit(self, name: str, *, conversation_id: int | None = None, now: int = 0) -> Iterator[Breach]:
        values = {"here": conversation_id, "now": now}
        if name == "message_unreadable":
            for *found, text in self._stream(_STORED_JSON, values):
                if not _is_json(text):
                    yield Breach(*found)
            return
        for row in self._stream(QUERIES[name], values):
            yield Breach(*row)

    def structure_faults(self) -> list[str]:
        rows = self._all(
            "SELECT conrelid::regclass || ': ' || conname || ' is not enforced' FROM pg_constraint "
            "WHERE connamespace = current_schema()::regnamespace AND NOT convalidated UNION ALL "
            "SELECT indexrelid::regclass || ' is not valid' FROM pg_index JOIN pg_class ON oid = indexrelid "
            "WHERE relnamespace = current_schema()::regnamespace AND NOT indisvalid"
        )
        return [row[0] for row in rows]

    def _stream(self, query: str, values: dict[str, int | None]) -> Iterator[tuple[Any, ...]]:
        with self.db.cursor(name=f"lcm_audit_{next(_cursor_names)}") as cursor:
            cursor.execute(query.encode(), values)
            yield from cursor


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
