"""What must hold between the rows of a database: one query for each rule.

Each returns conversation, ref and detail of what breaks its rule. ``:here`` restricts a query to one
conversation; NULL means all of them. ``:now`` is in milliseconds.
"""

from __future__ import annotations

from functools import cache

from lcm_plugin.store.dialect import Dialect
from lcm_plugin.store.integrity import (
    DAY_MS,
    LEASE_GRACE_MS,
    STUCK_ATTEMPTS,
)
from lcm_plugin.store.tables.messages import item_tokens

_RULES = {
    "context_dangling": """
        SELECT c.conversation_id, coalesce('msg_' || c.message_id, c.summary_id), 'ordinal ' || c.ordinal
        FROM context_items c LEFT JOIN messages m ON m.message_id = c.message_id
        LEFT JOIN summaries s ON s.summary_id = c.summary_id
        WHERE {here_c} AND m.message_id IS NULL AND s.summary_id IS NULL""",
    "context_foreign": """
        SELECT c.conversation_id, coalesce('msg_' || c.message_id, c.summary_id),
            'belongs to conversation ' || coalesce(m.conversation_id, s.conversation_id)
        FROM context_items c LEFT JOIN messages m ON m.message_id = c.message_id
        LEFT JOIN summaries s ON s.summary_id = c.summary_id
        WHERE {here_c}
            AND coalesce(m.conversation_id, s.conversation_id) <> c.conversation_id""",
    "context_order": """
        SELECT conversation_id, ref, 'ordinal ' || ordinal || ' after ' || coalesce(before_end, 0)
        FROM (SELECT c.conversation_id, c.ordinal, coalesce('msg_' || c.message_id, c.summary_id) AS ref,
                coalesce(m.seq, s.first_seq) AS first_seq, coalesce(m.seq, s.last_seq) AS last_seq,
                lag(coalesce(m.seq, s.last_seq)) OVER (PARTITION BY c.conversation_id ORDER BY c.ordinal) AS before_end
            FROM context_items c LEFT JOIN messages m ON m.message_id = c.message_id
            LEFT JOIN summaries s ON s.summary_id = c.summary_id
            WHERE {here_c}) placed
        WHERE ordinal NOT BETWEEN first_seq AND last_seq OR before_end >= first_seq""",
    "context_tokens": """
        SELECT c.conversation_id, 'msg_' || c.message_id, c.tokens || ' instead of ' || {item_tokens}
        FROM context_items c JOIN messages m ON m.message_id = c.message_id
        WHERE {here_c} AND c.tokens <> {item_tokens}""",
    "message_withdrawn": """
        SELECT m.conversation_id, 'msg_' || m.message_id, 'seq ' || m.seq FROM messages m
        WHERE {here_m} AND m.withdrawn_at IS NOT NULL AND NOT m.hidden""",
    "counters": """
        SELECT v.conversation_id, 'conversation ' || v.conversation_id, 'raw ' || v.raw_items || '/' || v.raw_tokens ||
            ' summaries ' || v.summary_items || '/' || v.summary_tokens || ' instead of raw ' ||
            coalesce(t.raw_items, 0) || '/' || coalesce(t.raw_tokens, 0) || ' summaries ' ||
            coalesce(t.summary_items, 0) || '/' || coalesce(t.summary_tokens, 0)
        FROM conversations v LEFT JOIN (SELECT conversation_id, count(message_id) AS raw_items,
                sum(CASE WHEN message_id IS NULL THEN 0 ELSE tokens END) AS raw_tokens,
                count(summary_id) AS summary_items,
                sum(CASE WHEN summary_id IS NULL THEN 0 ELSE tokens END) AS summary_tokens
            FROM context_items WHERE {here_only} GROUP BY conversation_id) t
            ON t.conversation_id = v.conversation_id
        WHERE {here_v} AND (v.raw_items, v.raw_tokens, v.summary_items,
            v.summary_tokens) <> (coalesce(t.raw_items, 0), coalesce(t.raw_tokens, 0), coalesce(t.summary_items, 0),
            coalesce(t.summary_tokens, 0))""",
    "message_count": """
        SELECT v.conversation_id, 'conversation ' || v.conversation_id, v.message_count || ' messages up to seq ' ||
            (v.next_seq - 1) || ' instead of ' || count(m.message_id) || ' up to ' || coalesce(max(m.seq), 0)
        FROM conversations v LEFT JOIN messages m ON m.conversation_id = v.conversation_id
        WHERE {here_v} GROUP BY v.conversation_id
        HAVING count(m.message_id) <> v.message_count OR coalesce(max(m.seq), 0) >= v.next_seq""",
    "message_uncovered": """
        SELECT m.conversation_id, 'msg_' || m.message_id, 'seq ' || m.seq FROM messages m
        WHERE {here_m}
            AND NOT EXISTS (SELECT 1 FROM context_items c WHERE c.message_id = m.message_id)
            AND NOT EXISTS (SELECT 1 FROM summary_messages l WHERE l.message_id = m.message_id)
            AND NOT EXISTS (SELECT 1 FROM context_snapshots p CROSS JOIN {items}
                WHERE p.conversation_id = m.conversation_id AND {item_kind} = 'message'
                AND {item_ref} = CAST(m.message_id AS text))""",
    "message_covered_twice": """
        SELECT m.conversation_id, 'msg_' || m.message_id, 'in ' || {summaries} ||
            CASE WHEN c.message_id IS NULL THEN '' ELSE ' and in the context' END
        FROM summary_messages l JOIN messages m ON m.message_id = l.message_id
        LEFT JOIN context_items c ON c.message_id = m.message_id
        WHERE {here_m}
        GROUP BY m.conversation_id, m.message_id, c.message_id HAVING count(*) > 1 OR c.message_id IS NOT NULL""",
    "part_without_file": """
        SELECT m.conversation_id, 'msg_' || m.message_id, p.file_id
        FROM message_parts p JOIN messages m ON m.message_id = p.message_id
        LEFT JOIN large_files f ON f.file_id = p.file_id
        WHERE {here_m} AND p.file_id IS NOT NULL AND f.file_id IS NULL""",
    "summary_without_source": """
        SELECT s.conversation_id, s.summary_id, 'depth ' || s.depth FROM summaries s
        WHERE {here_s} AND CASE WHEN s.depth = 0
            THEN NOT EXISTS (SELECT 1 FROM summary_messages l WHERE l.summary_id = s.summary_id)
            ELSE NOT EXISTS (SELECT 1 FROM summary_parents l WHERE l.summary_id = s.summary_id) END""",
    "summary_missing_source": """
        SELECT s.conversation_id, s.summary_id, 'msg_' || l.message_id FROM summary_messages l
        JOIN summaries s ON s.summary_id = l.summary_id LEFT JOIN messages m ON m.message_id = l.message_id
        WHERE {here_s} AND m.message_id IS NULL
        UNION ALL
        SELECT s.conversation_id, s.summary_id, l.parent_summary_id FROM summary_parents l
        JOIN summaries s ON s.summary_id = l.summary_id LEFT JOIN summaries q ON q.summary_id = l.parent_summary_id
        WHERE {here_s} AND q.summary_id IS NULL""",
    "summary_depth": """
        SELECT s.conversation_id, s.summary_id, 'depth ' || s.depth || ' over sources of depth ' || min(q.depth) ||
            ' to ' || max(q.depth)
        FROM summaries s JOIN summary_parents l ON l.summary_id = s.summary_id
        JOIN summaries q ON q.summary_id = l.parent_summary_id
        WHERE {here_s}
        GROUP BY s.conversation_id, s.summary_id HAVING min(q.depth) <> max(q.depth) OR s.depth <> max(q.depth) + 1""",
    "summary_orphan": """
        SELECT s.conversation_id, s.summary_id, 'depth ' || s.depth FROM summaries s
        WHERE {here_s}
            AND NOT EXISTS (SELECT 1 FROM context_items c WHERE c.summary_id = s.summary_id)
            AND NOT EXISTS (SELECT 1 FROM summary_parents l WHERE l.parent_summary_id = s.summary_id)
            AND NOT EXISTS (SELECT 1 FROM context_snapshots p CROSS JOIN {items}
                WHERE p.conversation_id = s.conversation_id AND {item_ref} = s.summary_id)""",
    "summary_sums": """
        SELECT s.conversation_id, s.summary_id, s.message_count || ' messages of ' || s.message_tokens ||
            ' tokens instead of ' || count(*) || ' of ' || sum(m.tokens)
        FROM summaries s JOIN summary_messages l ON l.summary_id = s.summary_id
        JOIN messages m ON m.message_id = l.message_id
        WHERE {here_s}
        GROUP BY s.conversation_id, s.summary_id HAVING count(*) <> s.message_count OR count(*) <> s.descendant_count
            OR sum(m.tokens) <> s.message_tokens
        UNION ALL
        SELECT s.conversation_id, s.summary_id, s.message_count || ' messages of ' || s.message_tokens ||
            ' tokens instead of ' || sum(q.message_count) || ' of ' || sum(q.message_tokens)
        FROM summaries s JOIN summary_parents l ON l.summary_id = s.summary_id
        JOIN summaries q ON q.summary_id = l.parent_summary_id
        WHERE {here_s}
        GROUP BY s.conversation_id, s.summary_id HAVING sum(q.message_count) <> s.message_count
            OR sum(q.descendant_count + 1) <> s.descendant_count OR sum(q.message_tokens) <> s.message_tokens""",
    "summary_span": """
        SELECT s.conversation_id, s.summary_id, 'seq ' || s.first_seq || ' to ' || s.last_seq || ' instead of ' ||
            min(m.seq) || ' to ' || max(m.seq)
        FROM summaries s JOIN summary_messages l ON l.summary_id = s.summary_id
        JOIN messages m ON m.message_id = l.message_id
        WHERE {here_s}
        GROUP BY s.conversation_id, s.summary_id HAVING (min(m.seq), max(m.seq), min(m.created_at), max(m.created_at))
            <> (s.first_seq, s.last_seq, s.earliest_at, s.latest_at)
        UNION ALL
        SELECT s.conversation_id, s.summary_id, 'seq ' || s.first_seq || ' to ' || s.last_seq || ' instead of ' ||
            min(q.first_seq) || ' to ' || max(q.last_seq)
        FROM summaries s JOIN summary_parents l ON l.summary_id = s.summary_id
        JOIN summaries q ON q.summary_id = l.parent_summary_id
        WHERE {here_s}
        GROUP BY s.conversation_id, s.summary_id HAVING (min(q.first_seq), max(q.last_seq),
            min(q.earliest_at), max(q.latest_at)) <> (s.first_seq, s.last_seq, s.earliest_at, s.latest_at)""",
    "summary_fallback": """
        SELECT s.conversation_id, s.summary_id, 'depth ' || s.depth ||
            CASE s.fallback_cause WHEN '' THEN '' ELSE ', ' || s.fallback_cause END FROM summaries s
        WHERE {here_s} AND s.fallback""",
    "summary_oversize": """
        SELECT s.conversation_id, s.summary_id, s.tokens || ' tokens from ' || s.source_tokens FROM summaries s
        WHERE {here_s} AND s.tokens >= s.source_tokens AND s.level <> 'person'""",
    "summary_link_lost": """
        SELECT s.conversation_id, s.summary_id, linked || ' messages linked of ' || s.message_count
        FROM (SELECT q.*, (SELECT count(*) FROM summary_messages l WHERE l.summary_id = q.summary_id) AS linked
            FROM summaries q WHERE {here_q} AND q.depth = 0) s
        WHERE linked < s.message_count AND EXISTS (SELECT 1 FROM messages m WHERE m.conversation_id = s.conversation_id
            AND m.seq BETWEEN s.first_seq AND s.last_seq
            AND NOT EXISTS (SELECT 1 FROM context_items c WHERE c.message_id = m.message_id)
            AND NOT EXISTS (SELECT 1 FROM summary_messages l WHERE l.message_id = m.message_id))""",
    "summary_foreign": """
        SELECT s.conversation_id, s.summary_id, 'msg_' || l.message_id || ' of conversation ' || m.conversation_id
        FROM summary_messages l JOIN summaries s ON s.summary_id = l.summary_id
        JOIN messages m ON m.message_id = l.message_id
        WHERE {here_s} AND m.conversation_id <> s.conversation_id
        UNION ALL
        SELECT s.conversation_id, s.summary_id, q.summary_id || ' of conversation ' || q.conversation_id
        FROM summary_parents l JOIN summaries s ON s.summary_id = l.summary_id
        JOIN summaries q ON q.summary_id = l.parent_summary_id
        WHERE {here_s} AND q.conversation_id <> s.conversation_id""",
    "summary_capped": """
        SELECT s.conversation_id, s.summary_id, s.tokens || ' tokens' FROM summaries s
        WHERE {here_s} AND s.capped""",
    "message_incomplete": """
        SELECT conversation_id, 'msg_' || message_id, CASE WHEN parts = 0 THEN 'it has no part' ELSE
            parts || ' parts, the last is number ' || last END
        FROM (SELECT m.conversation_id, m.message_id, m.skeleton, (SELECT count(*) FROM message_parts p
                WHERE {parts}) AS parts,
            (SELECT max(p.ordinal) FROM message_parts p
                WHERE {parts}) AS last
            FROM messages m WHERE {here_m}) counted
        WHERE (parts = 0 AND skeleton IS NULL) OR last + 1 <> parts""",
    "message_order": """
        SELECT conversation_id, 'msg_' || message_id, 'seq ' || seq || ', after msg_' || before || ', group ' || group_seq
        FROM (SELECT m.conversation_id, m.message_id, m.seq, m.group_seq,
                -- An edited message and its former version have changed places; both have a row before them written down.
                m.follows IS NULL AS plain, max(m.message_id) FILTER (WHERE m.follows IS NULL) OVER (PARTITION BY
                m.conversation_id ORDER BY m.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
            FROM messages m WHERE {here_m}) placed
        WHERE (plain AND before > message_id) OR group_seq > seq""",
    "pin_without_message": """
        SELECT n.conversation_id, n.pin_id, 'msg_' || n.message_id FROM pins n
        WHERE {here_n} AND n.message_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.message_id = n.message_id)""",
    "debt_stale": """
        SELECT d.conversation_id, 'conversation ' || d.conversation_id, CASE WHEN d.lease_until < :now
            THEN 'its lease ended, held by ' ELSE 'its lease lies far ahead of the clock, held by ' END || d.owner
        FROM compaction_debt d WHERE {here_d} AND d.state = 'running'
            AND d.lease_until NOT BETWEEN :now - {lease_grace} AND :now + {lease_grace}""",
    "debt_stuck": """
        SELECT d.conversation_id, 'conversation ' || d.conversation_id, d.attempts || ' attempts, state ' || d.state ||
            CASE WHEN d.last_error = '' THEN '' ELSE ': ' || d.last_error END
        FROM compaction_debt d JOIN conversations v ON v.conversation_id = d.conversation_id
        WHERE {here_d} AND d.state IN ('pending', 'deferred', 'failed')
            AND v.active AND (d.attempts >= {stuck} AND d.requested_at < :now - {day}
            OR d.next_attempt_at > :now + {day})""",
    "blob_orphan": """
        SELECT NULL, b.sha256, {blob_bytes} || ' bytes' FROM file_blobs b WHERE CAST(:here AS bigint) IS NULL
            AND NOT EXISTS (SELECT 1 FROM large_files f WHERE f.sha256 = b.sha256 AND f.storage_uri = 'db:')""",
}


@cache
def rules(sql: Dialect) -> dict[str, str]:
    """The query of each rule."""
    fragments = {
        "items": sql.json_items("p.items"),
        "item_kind": sql.json_item("e.value", 1, "text"),
        "item_ref": sql.json_item("e.value", 2, "text"),
        "summaries": sql.joined("l.summary_id", "' and '"),
        "parts": sql.parts_of("m.conversation_id", "m.message_id"),
        "blob_bytes": sql.octets("b.data"),
        "item_tokens": item_tokens("m."),
    }
    numbers = {
        "day": DAY_MS,
        "lease_grace": LEASE_GRACE_MS,
        "stuck": STUCK_ATTEMPTS,
    }
    here = {f"here_{alias}": in_conversation(f"{alias}.conversation_id") for alias in "cdmnqsv"}
    here["here_only"] = in_conversation("conversation_id")
    return {name: query.format(**fragments, **numbers, **here) for name, query in _RULES.items()}


def in_conversation(column: str) -> str:
    """The condition that a row belongs to the conversation ``:here``, if one is given."""
    return f"(CAST(:here AS bigint) IS NULL OR {column} = :here)"
