"""What must hold between the rows of a SQLite database: one query for each rule.

Each returns conversation, ref and detail of what breaks its rule. ``:here`` restricts a query to one
conversation; NULL means all of them. ``:now`` is in milliseconds.
"""

from __future__ import annotations

from lcm_plugin.store.audit_base import (
    DAY_MS,
    LANE_IDLE_DAYS,
    LEASE_GRACE_MS,
    ONE_RUN_IDLE_DAYS,
    STUCK_ATTEMPTS,
)

_UNREADABLE = """
        SELECT m.conversation_id, 'msg_' || m.message_id, 'its skeleton is not JSON' FROM messages m
        WHERE (:here IS NULL OR m.conversation_id = :here) AND m.hidden = {hidden} AND m.skeleton IS NOT NULL
            AND NOT json_valid(m.skeleton)
        UNION ALL
        SELECT m.conversation_id, 'msg_' || m.message_id, 'part ' || p.ordinal || ' is not JSON'
        FROM message_parts p JOIN messages m ON m.message_id = p.message_id
        WHERE (:here IS NULL OR m.conversation_id = :here)
            AND m.hidden = {hidden} AND (NOT json_valid(coalesce(p.exact, '0'))
            OR NOT json_valid(coalesce(p.metadata, '0')))"""

QUERIES = {
    "message_unreadable": _UNREADABLE.format(hidden=0),
    "message_quarantined": _UNREADABLE.format(hidden=1),
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
        SELECT s.conversation_id, s.summary_id, s.message_count || ' messages of ' || s.message_tokens ||
            ' tokens instead of ' || count(*) || ' of ' || sum(m.tokens)
        FROM summaries s JOIN summary_messages l ON l.summary_id = s.summary_id
        JOIN messages m ON m.message_id = l.message_id
        WHERE (:here IS NULL OR s.conversation_id = :here)
        GROUP BY s.summary_id HAVING count(*) <> s.message_count OR count(*) <> s.descendant_count
            OR sum(m.tokens) <> s.message_tokens
        UNION ALL
        SELECT s.conversation_id, s.summary_id, s.message_count || ' messages of ' || s.message_tokens ||
            ' tokens instead of ' || sum(q.message_count) || ' of ' || sum(q.message_tokens)
        FROM summaries s JOIN summary_parents l ON l.summary_id = s.summary_id
        JOIN summaries q ON q.summary_id = l.parent_summary_id
        WHERE (:here IS NULL OR s.conversation_id = :here)
        GROUP BY s.summary_id HAVING sum(q.message_count) <> s.message_count
            OR sum(q.descendant_count + 1) <> s.descendant_count OR sum(q.message_tokens) <> s.message_tokens""",
    "summary_span": """
        SELECT s.conversation_id, s.summary_id, 'seq ' || s.first_seq || ' to ' || s.last_seq || ' instead of ' ||
            min(m.seq) || ' to ' || max(m.seq)
        FROM summaries s JOIN summary_messages l ON l.summary_id = s.summary_id
        JOIN messages m ON m.message_id = l.message_id
        WHERE (:here IS NULL OR s.conversation_id = :here)
        GROUP BY s.summary_id HAVING (min(m.seq), max(m.seq), min(m.created_at), max(m.created_at))
            <> (s.first_seq, s.last_seq, s.earliest_at, s.latest_at)
        UNION ALL
        SELECT s.conversation_id, s.summary_id, 'seq ' || s.first_seq || ' to ' || s.last_seq || ' instead of ' ||
            min(q.first_seq) || ' to ' || max(q.last_seq)
        FROM summaries s JOIN summary_parents l ON l.summary_id = s.summary_id
        JOIN summaries q ON q.summary_id = l.parent_summary_id
        WHERE (:here IS NULL OR s.conversation_id = :here)
        GROUP BY s.summary_id HAVING (min(q.first_seq), max(q.last_seq), min(q.earliest_at), max(q.latest_at))
            <> (s.first_seq, s.last_seq, s.earliest_at, s.latest_at)""",
    "summary_fallback": """
        SELECT s.conversation_id, s.summary_id, 'depth ' || s.depth FROM summaries s
        WHERE (:here IS NULL OR s.conversation_id = :here) AND s.fallback = 1""",
    "summary_oversize": """
        SELECT s.conversation_id, s.summary_id, s.tokens || ' tokens from ' || s.source_tokens FROM summaries s
        WHERE (:here IS NULL OR s.conversation_id = :here) AND s.tokens >= s.source_tokens""",
    "summary_link_lost": """
        SELECT s.conversation_id, s.summary_id, linked || ' messages linked of ' || s.message_count
        FROM (SELECT q.*, (SELECT count(*) FROM summary_messages l WHERE l.summary_id = q.summary_id) AS linked
            FROM summaries q WHERE (:here IS NULL OR q.conversation_id = :here) AND q.depth = 0) s
        WHERE linked < s.message_count AND EXISTS (SELECT 1 FROM messages m WHERE m.conversation_id = s.conversation_id
            AND m.seq BETWEEN s.first_seq AND s.last_seq
            AND NOT EXISTS (SELECT 1 FROM context_items c WHERE c.message_id = m.message_id)
            AND NOT EXISTS (SELECT 1 FROM summary_messages l WHERE l.message_id = m.message_id))""",
    "summary_foreign": """
        SELECT s.conversation_id, s.summary_id, 'msg_' || l.message_id || ' of conversation ' || m.conversation_id
        FROM summary_messages l JOIN summaries s ON s.summary_id = l.summary_id
        JOIN messages m ON m.message_id = l.message_id
        WHERE (:here IS NULL OR s.conversation_id = :here) AND m.conversation_id <> s.conversation_id
        UNION ALL
        SELECT s.conversation_id, s.summary_id, q.summary_id || ' of conversation ' || q.conversation_id
        FROM summary_parents l JOIN summaries s ON s.summary_id = l.summary_id
        JOIN summaries q ON q.summary_id = l.parent_summary_id
        WHERE (:here IS NULL OR s.conversation_id = :here) AND q.conversation_id <> s.conversation_id""",
    "summary_capped": """
        SELECT s.conversation_id, s.summary_id, s.tokens || ' tokens' FROM summaries s
        WHERE (:here IS NULL OR s.conversation_id = :here) AND s.capped = 1""",
    "message_incomplete": """
        SELECT conversation_id, 'msg_' || message_id, CASE WHEN parts = 0 THEN 'it has no part' ELSE
            parts || ' parts, the last is number ' || last END
        FROM (SELECT m.conversation_id, m.message_id, m.skeleton, (SELECT count(*) FROM message_parts p
                WHERE p.part_id >= m.message_id * 65536 AND p.part_id < (m.message_id + 1) * 65536) AS parts,
            (SELECT max(p.ordinal) FROM message_parts p
                WHERE p.part_id >= m.message_id * 65536 AND p.part_id < (m.message_id + 1) * 65536) AS last
            FROM messages m WHERE (:here IS NULL OR m.conversation_id = :here))
        WHERE (parts = 0 AND skeleton IS NULL) OR last + 1 <> parts""",
    "message_order": """
        SELECT conversation_id, 'msg_' || message_id, 'seq ' || seq || ', after msg_' || before || ', group ' || group_seq
        FROM (SELECT m.conversation_id, m.message_id, m.seq, m.group_seq,
                lag(m.message_id) OVER (PARTITION BY m.conversation_id ORDER BY m.seq) AS before
            FROM messages m WHERE (:here IS NULL OR m.conversation_id = :here))
        WHERE before > message_id OR group_seq > seq""",
    "debt_stale": f"""
        SELECT d.conversation_id, 'conversation ' || d.conversation_id, CASE WHEN d.lease_until < :now
            THEN 'its lease ended, held by ' ELSE 'its lease lies far ahead of the clock, held by ' END || d.owner
        FROM compaction_debt d WHERE (:here IS NULL OR d.conversation_id = :here) AND d.state = 'running'
            AND d.lease_until NOT BETWEEN :now - {LEASE_GRACE_MS} AND :now + {LEASE_GRACE_MS}""",
    "debt_stuck": f"""
        SELECT d.conversation_id, 'conversation ' || d.conversation_id, d.attempts || ' attempts, state ' || d.state ||
            CASE WHEN d.last_error = '' THEN '' ELSE ': ' || d.last_error END
        FROM compaction_debt d JOIN conversations v ON v.conversation_id = d.conversation_id
        WHERE (:here IS NULL OR d.conversation_id = :here) AND d.state IN ('pending', 'deferred', 'failed')
            AND v.active = 1 AND (d.attempts >= {STUCK_ATTEMPTS} AND d.requested_at < :now - {DAY_MS}
            OR d.next_attempt_at > :now + {DAY_MS})""",
    "lane_stale": f"""
        SELECT v.conversation_id, v.session_key, 'last used ' || ((:now - v.updated_at) / {DAY_MS}) || ' days ago'
        FROM conversations v WHERE (:here IS NULL OR v.conversation_id = :here) AND v.active = 1 AND v.updated_at > 0
            AND (v.updated_at < :now - {LANE_IDLE_DAYS} * {DAY_MS} OR (v.updated_at < :now - {ONE_RUN_IDLE_DAYS} * {DAY_MS}
            AND (':' || v.session_key || ':' LIKE '%:subagent:%' OR ':' || v.session_key || ':' LIKE '%:cron:%'
            OR ':' || v.session_key || ':' LIKE '%:run:%')))""",
    "blob_orphan": """
        SELECT NULL, b.sha256, length(b.data) || ' bytes' FROM file_blobs b WHERE :here IS NULL
            AND NOT EXISTS (SELECT 1 FROM large_files f WHERE f.sha256 = b.sha256 AND f.storage_uri = 'db:')""",
}
