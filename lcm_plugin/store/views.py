"""Views to read a database with any SQL tool: ``talk``, ``summary_tree``, ``context_now`` and ``parts``.

docs/storage.md lists their columns. ``parts`` has a typed column for each field that the LCM specification names; a
field stands in the part's text when that is a whole block of the message, else in the message's skeleton.
"""

from __future__ import annotations

from lcm_plugin.store.dialect import Dialect

_INPUTS = ("input", "arguments", "args", "action", "actions", "operation", "code")
# Where each field stands in a block, in the order in which one is taken; and the type of part it belongs to.
_FIELDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("tool_title", "tool", ("state.title", "title")),
    ("patch_hash", "patch", ("hash",)),
    ("patch_files", "patch", ("files",)),
    ("subtask_prompt", "subtask", ("prompt",)),
    ("subtask_desc", "subtask", ("description",)),
    ("subtask_agent", "subtask", ("agent",)),
    ("step_reason", "step_finish", ("reason",)),
    ("step_cost", "step_finish", ("cost",)),
    ("step_tokens_in", "step_finish", ("tokens.input",)),
    ("step_tokens_out", "step_finish", ("tokens.output",)),
)
_NUMBERS = {"step_cost": "numeric", "step_tokens_in": "bigint", "step_tokens_out": "bigint"}


def views(sql: Dialect) -> dict[str, str]:
    """The statements that make the views, by name."""
    return {
        "talk": _talk(sql),
        "summary_tree": _summary_tree(sql),
        "context_now": _context_now(sql),
        "parts": _parts(sql),
    }


def views_script(sql: Dialect) -> str:
    """The statements that make the views."""
    return "".join(f"{statement};\n" for statement in views(sql).values())


def _talk(sql: Dialect) -> str:
    return f"""CREATE VIEW talk AS
    SELECT c.session_key, c.session_id, m.conversation_id, m.seq, m.message_id, {sql.utc("m.created_at")} AS at, m.role,
        m.sender, {_text_of_message(sql)} AS text, m.tokens, m.hidden, m.withdrawn_at IS NOT NULL AS withdrawn
    FROM messages m JOIN conversations c ON c.conversation_id = m.conversation_id"""


def _summary_tree(sql: Dialect) -> str:
    return f"""CREATE VIEW summary_tree AS
    SELECT c.session_key, s.conversation_id, s.depth, s.summary_id,
        (SELECT min(l.summary_id) FROM summary_parents l WHERE l.parent_summary_id = s.summary_id) AS condensed_into,
        (SELECT count(*) FROM summary_messages l WHERE l.summary_id = s.summary_id)
            + (SELECT count(*) FROM summary_parents l WHERE l.summary_id = s.summary_id) AS sources,
        EXISTS (SELECT 1 FROM context_items i WHERE i.conversation_id = s.conversation_id
            AND i.summary_id = s.summary_id) AS in_context,
        {sql.utc("s.earliest_at")} AS from_time, {sql.utc("s.latest_at")} AS to_time, s.first_seq, s.last_seq,
        s.message_count, s.tokens, s.source_tokens, s.level, s.model, s.fallback, s.content
    FROM summaries s JOIN conversations c ON c.conversation_id = s.conversation_id"""


def _context_now(sql: Dialect) -> str:
    return f"""CREATE VIEW context_now AS
    SELECT c.session_key, i.conversation_id, i.ordinal, i.item_type, i.message_id, i.summary_id, s.depth, m.role,
        {sql.utc("coalesce(m.created_at, s.earliest_at)")} AS at, i.tokens,
        CASE WHEN i.summary_id IS NULL THEN {_text_of_message(sql)} ELSE s.content END AS text
    FROM context_items i JOIN conversations c ON c.conversation_id = i.conversation_id
    LEFT JOIN messages m ON m.conversation_id = i.conversation_id AND m.message_id = i.message_id
    LEFT JOIN summaries s ON s.conversation_id = i.conversation_id AND s.summary_id = i.summary_id
    WHERE c.active"""


def _parts(sql: Dialect) -> str:
    last_is_input = " OR ".join(f"path LIKE '%.{name}'" for name in _INPUTS)
    body = "type = 'tool' AND NOT is_block"
    error = sql.json_field("block", "is_error")
    fields = ",\n        ".join(
        f"{_field(sql, kind, name, paths)} AS {name}" for name, kind, paths in _FIELDS
    )
    return f"""CREATE VIEW parts AS
    SELECT session_key, session_id, conversation_id, seq, role, message_id, ordinal, type, path, text, file_id,
        tool_name, tool_call_id,
        CASE WHEN type = 'tool' THEN coalesce({sql.json_field("block", "state.status")},
            {sql.json_field("block", "status")}, CASE WHEN {error} IN ('true', '1') THEN 'error' END) END AS tool_status,
        CASE WHEN {body} AND role NOT IN ('tool', 'function') AND ({last_is_input}) THEN text END AS tool_input,
        CASE WHEN {body} AND (role IN ('tool', 'function') OR NOT ({last_is_input} OR path LIKE '%.error'))
            THEN text END AS tool_output,
        CASE WHEN {body} AND path LIKE '%.error' THEN text END AS tool_error,
        {fields},
        CASE WHEN type = 'file' THEN coalesce({_first(sql, ("mime", "mimeType", "mime_type", "media_type"))},
            {sql.json_field("block", "source.media_type")}) END AS file_mime,
        CASE WHEN type = 'file' THEN {_first(sql, ("filename", "name", "file_name", "file.filename"))} END AS file_name,
        CASE WHEN type = 'file' THEN coalesce({sql.json_field("block", "url")},
            CASE WHEN path LIKE '%url%' AND text NOT LIKE 'data:%' THEN text END) END AS file_url,
        coalesce({sql.json_field("block", "snapshot")}, CASE WHEN type = 'snapshot' THEN
            {sql.json_field("block", "hash")} END) AS snapshot_hash,
        coalesce({sql.json_field("block", "ignored")} IN ('true', '1'), false) AS is_ignored,
        coalesce({sql.json_field("block", "synthetic")} IN ('true', '1'), false) AS is_synthetic
    FROM (SELECT c.session_key, c.session_id, m.conversation_id, m.seq, m.role, p.message_id, p.ordinal,
            {sql.plain_text("p.type")} AS type, p.path, p.text, p.file_id, p.tool_name, p.tool_call_id,
            {sql.is_block("p")} AS is_block, {sql.block("p", "m")} AS block
        FROM conversations c JOIN messages m ON m.conversation_id = c.conversation_id
        JOIN message_parts p ON {sql.parts_of("m.conversation_id", "m.message_id")}) part"""


def _field(sql: Dialect, kind: str, name: str, paths: tuple[str, ...]) -> str:
    value = f"CASE WHEN type = '{kind}' THEN {_first(sql, paths)} END"
    return f"CAST({value} AS {_NUMBERS[name]})" if name in _NUMBERS else value


def _first(sql: Dialect, paths: tuple[str, ...]) -> str:
    """The first field of a block that is there."""
    found = ", ".join(sql.json_field("block", path) for path in paths)
    return f"coalesce({found})" if len(paths) > 1 else found


def _text_of_message(sql: Dialect) -> str:
    parts = sql.parts_of("m.conversation_id", "m.message_id")
    return (
        f"(SELECT {sql.joined('t.text', sql.newline)} FROM (SELECT p.text FROM message_parts p WHERE {parts} "
        "AND p.type NOT IN ('reasoning', 'compaction') AND p.text <> '' AND p.text NOT LIKE 'data:%;base64,%' "
        "ORDER BY p.ordinal) t)"
    )
