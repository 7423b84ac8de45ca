"""A history that is large enough for PostgreSQL's planner to choose as it would in earnest, made by the server itself.

One conversation holds most of it, compacted as far as its newest 300 messages; many small ones lie beside it. The
texts are made up of numbers spelled in letters, so that every row has other words: ``common`` stands in every second
message, ``zebrafish`` in every 4,000th, ``静默模式`` in every 3,000th.
"""

from __future__ import annotations

import psycopg

from lcm_plugin.messages.encodings import ENCODING
from lcm_plugin.store.postgres.url import split_schema

LARGE, LANES, PER_LANE = 16_000, 2_600, 3
KEY, SMALL_KEY = "agent:main:main", "agent:main:lane-7"
RAW, PER_LEAF, PER_NODE = 448, 4, 12
STEP_MS = 60_000

_CONDENSED = tuple(
    statement.replace("{depth}", str(depth))
    .replace("{below}", str(depth - 1))
    .replace("{span}", str(PER_LEAF * PER_NODE**depth))
    for depth in (1, 2)
    for statement in (
        """
INSERT INTO summaries (conversation_id, summary_id, kind, depth, content, tokens, earliest_at, latest_at, first_seq,
    last_seq, descendant_count, message_count, source_tokens, message_tokens, level, created_at)
SELECT 1, 'sum_' || lpad(to_hex(x'1000000'::bigint * {depth} + node), 16, '0'), 'condensed', {depth},
    'chapter ' || node || ' common work',
    100, min(earliest_at), max(latest_at), min(first_seq), max(last_seq), sum(descendant_count + 1), sum(message_count),
    sum(tokens), sum(message_tokens), 'normal', %(now)s
FROM (SELECT *, (first_seq - 1) / {span} node FROM summaries WHERE depth = {below}) s
GROUP BY node""",
        """
INSERT INTO summary_parents (conversation_id, summary_id, ordinal, parent_summary_id)
SELECT 1, d.summary_id, row_number() OVER (PARTITION BY d.summary_id ORDER BY s.first_seq) - 1, s.summary_id
FROM summaries d JOIN summaries s ON s.depth = {below} AND s.first_seq BETWEEN d.first_seq AND d.last_seq
WHERE d.depth = {depth}""",
    )
)
_STATEMENTS = (
    """
INSERT INTO conversations (session_key, session_id, active, created_at, updated_at, archived_at, archive_cause,
    message_count, next_seq, raw_items, raw_tokens)
SELECT CASE WHEN n = 0 THEN %(key)s WHEN n <= %(lanes)s THEN 'agent:main:lane-' || n ELSE 'agent:other:' || n END,
    'run-' || n, n <= %(lanes)s, %(began)s, %(now)s, CASE WHEN n > %(lanes)s THEN %(now)s END,
    CASE WHEN n > %(lanes)s THEN 'reset' END, c, c + 1, c, c * 30
FROM generate_series(0, 2 * %(lanes)s) n,
    LATERAL (SELECT CASE WHEN n = 0 THEN %(large)s WHEN n <= %(lanes)s THEN %(per_lane)s ELSE 0 END c) counted""",
    """
INSERT INTO session_runs SELECT session_id, session_key, conversation_id, updated_at FROM conversations""",
    """
CREATE TEMP TABLE places AS
SELECT nextval('message_ids') message_id, 1::bigint conversation_id, n seq, n total
FROM generate_series(1, %(large)s) n
UNION ALL
SELECT nextval('message_ids'), 1 + (n - 1) / %(per_lane)s + 1, (n - 1) %% %(per_lane)s + 1, n + %(large)s
FROM generate_series(1, %(lanes)s * %(per_lane)s) n""",
    """
INSERT INTO messages (conversation_id, message_id, seq, role, kind, tokens, identity, created_at, group_seq, host_id,
    sender, calls, answers, speaks)
SELECT conversation_id, message_id, seq, role, role::message_role, 30, total * 7919, %(began)s + seq * %(step)s,
    seq - (seq %% 4) / 3, CASE WHEN total %% 3 = 0 THEN 'host-' || total END, CASE WHEN role = 'user' THEN 'ann' END,
    CASE WHEN seq %% 4 = 2 THEN 'call_' || total END, CASE WHEN seq %% 4 = 3 THEN 'call_' || total - 1 END, role = 'user'
FROM places, LATERAL (SELECT (ARRAY['assistant', 'user', 'assistant', 'tool'])[seq %% 4 + 1] role) r""",
    """
INSERT INTO message_parts (conversation_id, message_id, ordinal, type, path, text, tool_name, file_id)
SELECT conversation_id, message_id, 0, 'text', 'content',
    concat_ws(' ', translate(md5(total::text), '0123456789', 'ghijklmnop'), 'turn', total,
        CASE WHEN total %% 2 = 0 THEN 'common' END,
        CASE WHEN total %% 4000 = 7 THEN 'zebrafish my-lamp' END, CASE WHEN total %% 3000 = 5 THEN '静默模式' END,
        translate(md5((total * 31)::text), '0123456789', 'qrstuvwxyz')),
    CASE WHEN seq %% 4 = 3 THEN 'shell' END, CASE WHEN total %% 50 = 0 THEN 'file_' || lpad(to_hex(total), 16, '0') END
FROM places""",
    """
INSERT INTO large_files (conversation_id, file_id, sha256, storage_uri, byte_size, created_at)
SELECT conversation_id, 'file_' || lpad(to_hex(total), 16, '0'), encode(sha256(total::text::bytea), 'hex'), 'db:',
    length(total::text), %(now)s
FROM places WHERE total %% 50 = 0""",
    """
INSERT INTO file_blobs SELECT encode(sha256(total::text::bytea), 'hex'), total::text::bytea FROM places
WHERE total %% 50 = 0""",
    """
INSERT INTO summaries (conversation_id, summary_id, kind, depth, content, tokens, earliest_at, latest_at, first_seq,
    last_seq, descendant_count, message_count, source_tokens, message_tokens, level, created_at)
SELECT 1, 'sum_' || lpad(to_hex(n), 16, '0'), 'leaf', 0, concat_ws(' ', 'what was done in', n, 'with common tools',
    translate(md5(n::text), '0123456789', 'ghijklmnop'), CASE WHEN n %% 200 = 1 THEN 'zebrafish' END), 60,
    %(began)s + first * %(step)s, %(began)s + (first + %(per_leaf)s - 1) * %(step)s, first, first + %(per_leaf)s - 1,
    %(per_leaf)s, %(per_leaf)s, %(per_leaf)s * 30, %(per_leaf)s * 30, 'normal', %(now)s
FROM generate_series(1, %(leaves)s) n, LATERAL (SELECT (n - 1) * %(per_leaf)s + 1 first) f""",
    """
INSERT INTO summary_messages (conversation_id, summary_id, ordinal, message_id)
SELECT 1, 'sum_' || lpad(to_hex((seq - 1) / %(per_leaf)s + 1), 16, '0'), (seq - 1) %% %(per_leaf)s, message_id
FROM places WHERE conversation_id = 1 AND seq <= %(covered)s""",
    *_CONDENSED,
    """
INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id, tokens)
SELECT 1, first_seq, 'summary', summary_id, tokens FROM summaries WHERE depth = 2""",
    """
INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, tokens)
SELECT conversation_id, seq, 'message', message_id, 30 FROM places WHERE conversation_id > 1 OR seq > %(covered)s""",
    """
UPDATE conversations SET raw_items = %(raw)s, raw_tokens = %(raw)s * 30, summary_items = t.items, summary_tokens = t.tokens
FROM (SELECT count(*) items, sum(tokens) tokens FROM context_items WHERE summary_id IS NOT NULL) t
WHERE conversation_id = 1""",
    """
INSERT INTO compaction_debt (conversation_id, state, requested_at)
SELECT conversation_id, (CASE WHEN conversation_id %% 400 = 9 THEN 'pending' ELSE 'done' END)::debt_state, %(now)s
FROM conversations WHERE active""",
    """
INSERT INTO integrity_jobs (conversation_id, requested_at, mode, state, finished_at)
SELECT conversation_id, %(now)s, 'scan', CASE WHEN conversation_id %% 400 = 9 THEN 'pending' ELSE 'done' END, %(now)s
FROM conversations WHERE active""",
    # Its counts are made up, so no background work may count it again.
    "INSERT INTO guards (guard_key, state) VALUES ('encoding', jsonb_build_object('name', %(encoding)s::text))",
)


def fill(url: str, now: int) -> None:
    """Fills an empty schema; the newest message is a minute older than ``now`` (ms)."""
    plain, schema = split_schema(url)
    covered = LARGE - RAW
    values = {
        "key": KEY,
        "encoding": ENCODING,
        "lanes": LANES,
        "large": LARGE,
        "per_lane": PER_LANE,
        "per_leaf": PER_LEAF,
        "leaves": covered // PER_LEAF,
        "covered": covered // PER_LEAF * PER_LEAF,
        "raw": LARGE - covered // PER_LEAF * PER_LEAF,
        "now": now,
        "step": STEP_MS,
        "began": now - (LARGE + 1) * STEP_MS,
    }
    with psycopg.connect(plain, autocommit=True, options=f"-c search_path={schema},public") as connection:
        connection.execute("SET maintenance_work_mem = '256MB'")
        for statement in _STATEMENTS:
            used = {name: value for name, value in values.items() if f"%({name})s" in statement}
            psycopg.ClientCursor(connection).execute(statement.encode(), used)
        connection.execute("VACUUM ANALYZE")
