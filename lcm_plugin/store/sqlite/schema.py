"""The SQLite schema, as migrations.

Each text exists once, in ``message_parts.text``. ``part_id`` is ``message_id << 16 | ordinal``, so
that a message's parts lie together and need no second index. Ordinals of context items are message
seqs: gaps are fine and nothing is ever renumbered. `migrate` runs at open, in one exclusive
transaction; a database that holds data is copied before its schema changes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING

from lcm_plugin.errors import SchemaError
from lcm_plugin.store.dialect import SqliteDialect
from lcm_plugin.store.insight.contexts import SENT_CONTEXTS_SCHEMA
from lcm_plugin.store.insight.table import ACTIONS_SCHEMA
from lcm_plugin.store.insight.texts import TEXTS_SCHEMA
from lcm_plugin.store.maps.table import MAPS_SCHEMA
from lcm_plugin.store.tables.conversations import NAMES_SCHEMA, resets_schema
from lcm_plugin.store.tables.messages import CLEARED_SCHEMA, speaks_schema
from lcm_plugin.store.tables.pins import PINS_SCHEMA
from lcm_plugin.store.tables.summaries import FALLBACK_CAUSES_SCHEMA
from lcm_plugin.store.tables.withdrawal import SPANS_SCHEMA
from lcm_plugin.store.views import views_script

if TYPE_CHECKING:
    from sqlite_utils import Database
    from sqlite_utils.migrations import Migrations

MIGRATION_SET = "lcm"
PART_ID_SHIFT = 16

_TABLES = """
CREATE TABLE conversations (
    conversation_id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_key TEXT NOT NULL,
    session_id TEXT,
    active INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
    title TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    archived_at INTEGER,
    archive_cause TEXT,
    revision INTEGER NOT NULL DEFAULT 0,
    next_seq INTEGER NOT NULL DEFAULT 1,
    message_count INTEGER NOT NULL DEFAULT 0,
    raw_items INTEGER NOT NULL DEFAULT 0,
    raw_tokens INTEGER NOT NULL DEFAULT 0,
    summary_items INTEGER NOT NULL DEFAULT 0,
    summary_tokens INTEGER NOT NULL DEFAULT 0,
    restart_seq INTEGER NOT NULL DEFAULT 1
);
CREATE UNIQUE INDEX conversations_active_key ON conversations (session_key) WHERE active = 1;
CREATE INDEX conversations_key ON conversations (session_key, conversation_id);

CREATE TABLE session_runs (
    session_id TEXT NOT NULL,
    session_key TEXT NOT NULL,
    conversation_id INTEGER REFERENCES conversations ON DELETE CASCADE,
    last_seen_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, session_key)
) WITHOUT ROWID;
CREATE INDEX session_runs_conversation ON session_runs (conversation_id);

CREATE TABLE messages (
    message_id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    role TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    identity INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    group_seq INTEGER NOT NULL,
    host_id TEXT,
    sender TEXT,
    channel TEXT,
    calls TEXT,
    answers TEXT,
    hidden INTEGER NOT NULL DEFAULT 0,
    skeleton TEXT
);
CREATE UNIQUE INDEX messages_seq ON messages (conversation_id, seq);
CREATE INDEX messages_identity ON messages (conversation_id, identity);
CREATE UNIQUE INDEX messages_host_id ON messages (conversation_id, host_id) WHERE host_id IS NOT NULL;
CREATE INDEX messages_calls ON messages (conversation_id, seq) WHERE calls IS NOT NULL OR answers IS NOT NULL;
CREATE INDEX messages_system ON messages (conversation_id, seq) WHERE role IN ('system', 'developer');
CREATE INDEX messages_user ON messages (conversation_id, seq) WHERE role = 'user' AND hidden = 0;

CREATE TABLE message_parts (
    part_id INTEGER PRIMARY KEY,
    message_id INTEGER NOT NULL REFERENCES messages ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    type TEXT NOT NULL CHECK (type IN ('text', 'reasoning', 'tool', 'patch', 'file', 'subtask', 'compaction',
        'step_start', 'step_finish', 'snapshot', 'agent', 'retry')),
    path TEXT NOT NULL,
    text TEXT NOT NULL,
    exact TEXT,
    tool_name TEXT,
    tool_call_id TEXT,
    file_id TEXT,
    metadata TEXT,
    CHECK (part_id = message_id * 65536 + ordinal)
);
CREATE INDEX message_parts_file ON message_parts (file_id) WHERE file_id IS NOT NULL;

CREATE TABLE summaries (
    summary_rowid INTEGER PRIMARY KEY AUTOINCREMENT,
    summary_id TEXT NOT NULL UNIQUE,
    conversation_id INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE,
    kind TEXT NOT NULL CHECK (kind IN ('leaf', 'condensed')),
    depth INTEGER NOT NULL CHECK (depth >= 0),
    content TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    earliest_at INTEGER NOT NULL,
    latest_at INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    descendant_count INTEGER NOT NULL,
    message_count INTEGER NOT NULL,
    source_tokens INTEGER NOT NULL,
    message_tokens INTEGER NOT NULL,
    level TEXT NOT NULL,
    model TEXT NOT NULL DEFAULT '',
    prompt_version TEXT NOT NULL DEFAULT '',
    fallback INTEGER NOT NULL DEFAULT 0,
    capped INTEGER NOT NULL DEFAULT 0,
    file_ids TEXT,
    created_at INTEGER NOT NULL,
    CHECK ((kind = 'leaf') = (depth = 0))
);
CREATE INDEX summaries_conversation ON summaries (conversation_id, depth);
CREATE INDEX summaries_fallback ON summaries (conversation_id) WHERE fallback = 1;

CREATE TABLE summary_messages (
    summary_id TEXT NOT NULL REFERENCES summaries (summary_id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    message_id INTEGER NOT NULL REFERENCES messages ON DELETE RESTRICT,
    PRIMARY KEY (summary_id, ordinal)
) WITHOUT ROWID;
CREATE INDEX summary_messages_message ON summary_messages (message_id);

CREATE TABLE summary_parents (
    summary_id TEXT NOT NULL REFERENCES summaries (summary_id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    parent_summary_id TEXT NOT NULL REFERENCES summaries (summary_id) ON DELETE RESTRICT,
    PRIMARY KEY (summary_id, ordinal)
) WITHOUT ROWID;
CREATE INDEX summary_parents_source ON summary_parents (parent_summary_id);

CREATE TABLE context_items (
    conversation_id INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    item_type TEXT NOT NULL CHECK (item_type IN ('message', 'summary')),
    message_id INTEGER REFERENCES messages ON DELETE RESTRICT,
    summary_id TEXT REFERENCES summaries (summary_id) ON DELETE RESTRICT,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (conversation_id, ordinal),
    CHECK ((item_type = 'message') = (message_id IS NOT NULL)),
    CHECK ((item_type = 'summary') = (summary_id IS NOT NULL))
) WITHOUT ROWID;
CREATE INDEX context_items_message ON context_items (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX context_items_summary ON context_items (conversation_id, ordinal, summary_id) WHERE summary_id IS NOT NULL;
CREATE INDEX context_items_summary_id ON context_items (summary_id) WHERE summary_id IS NOT NULL;

CREATE TABLE context_snapshots (
    snapshot_id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    cause TEXT NOT NULL,
    revision INTEGER NOT NULL,
    items TEXT NOT NULL,
    restored_at INTEGER
);
CREATE INDEX context_snapshots_conversation ON context_snapshots (conversation_id, snapshot_id);

CREATE TABLE large_files (
    file_id TEXT PRIMARY KEY,
    conversation_id INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE,
    sha256 TEXT NOT NULL,
    storage_uri TEXT NOT NULL,
    byte_size INTEGER NOT NULL,
    file_name TEXT NOT NULL DEFAULT '',
    mime_type TEXT NOT NULL DEFAULT '',
    line_count INTEGER,
    exploration_summary TEXT NOT NULL DEFAULT '',
    truncated INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX large_files_conversation ON large_files (conversation_id, file_id);

CREATE TABLE file_blobs (
    sha256 TEXT PRIMARY KEY,
    data BLOB NOT NULL
);

CREATE TABLE compaction_debt (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversations ON DELETE CASCADE,
    state TEXT NOT NULL CHECK (state IN ('pending', 'running', 'deferred', 'done', 'failed')),
    reason TEXT NOT NULL DEFAULT '',
    requested_at INTEGER NOT NULL,
    budget INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER NOT NULL DEFAULT 0,
    owner TEXT,
    lease_until INTEGER NOT NULL DEFAULT 0,
    last_error TEXT NOT NULL DEFAULT '',
    revision INTEGER NOT NULL DEFAULT -1,
    next_seq INTEGER NOT NULL DEFAULT -1,
    overhead INTEGER NOT NULL DEFAULT 0,
    model TEXT NOT NULL DEFAULT '',
    context_window INTEGER
);
CREATE INDEX compaction_debt_due ON compaction_debt (next_attempt_at) WHERE state <> 'done';

CREATE TABLE guards (
    guard_key TEXT PRIMARY KEY,
    state TEXT NOT NULL
) WITHOUT ROWID;

CREATE VIEW message_text AS
    SELECT m.message_id, (
        SELECT group_concat(p.text, char(10)) FROM message_parts p
        WHERE p.part_id >= m.message_id * 65536 AND p.part_id < (m.message_id + 1) * 65536
        AND p.type <> 'reasoning' AND p.text <> '' AND p.text NOT GLOB 'data:*;base64,*'
    ) AS text
    FROM messages m;
"""

_REMOVALS = """
CREATE TABLE removals (
    removal_id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('prune', 'redact')),
    created_at INTEGER NOT NULL,
    requested_by TEXT NOT NULL,
    conversations INTEGER NOT NULL DEFAULT 0,
    messages INTEGER NOT NULL DEFAULT 0,
    summaries INTEGER NOT NULL DEFAULT 0,
    files INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE removed_messages (
    message_id INTEGER PRIMARY KEY REFERENCES messages ON DELETE CASCADE,
    conversation_id INTEGER NOT NULL,
    removal_id INTEGER NOT NULL REFERENCES removals,
    whole INTEGER NOT NULL CHECK (whole IN (0, 1)),
    former_identity INTEGER
);
CREATE INDEX removed_messages_former ON removed_messages (conversation_id, former_identity)
    WHERE former_identity IS NOT NULL;
CREATE INDEX removed_messages_removal ON removed_messages (removal_id);
"""


_INTEGRITY_JOBS = """
CREATE TABLE integrity_jobs (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversations ON DELETE CASCADE,
    reason TEXT NOT NULL DEFAULT '',
    requested_at INTEGER NOT NULL,
    mode TEXT NOT NULL CHECK (mode IN ('scan', 'scan_and_plan')),
    state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'running', 'done', 'failed')),
    owner TEXT,
    lease_until INTEGER NOT NULL DEFAULT 0,
    finished_at INTEGER NOT NULL DEFAULT 0,
    result TEXT NOT NULL DEFAULT ''
);
CREATE INDEX integrity_jobs_due ON integrity_jobs (requested_at) WHERE state IN ('pending', 'running');
"""

_FAST_READS = """
CREATE INDEX integrity_jobs_finished ON integrity_jobs (finished_at DESC, conversation_id)
    WHERE state IN ('done', 'failed');
"""

_WITHDRAWN = """
ALTER TABLE messages ADD COLUMN withdrawn_at INTEGER;
ALTER TABLE messages ADD COLUMN follows INTEGER;
CREATE INDEX messages_withdrawn ON messages (conversation_id, identity) WHERE withdrawn_at IS NOT NULL;
"""


# Conditions as statements write them for both databases: SQLite finds a partial index only by the words of its
# condition. Versions of this package that know nothing of these read `user_version`, and refuse a number above 5; it
# is not kept up to date any more.
_PLAIN_CONDITIONS = """
DROP INDEX IF EXISTS conversations_active_key;
CREATE UNIQUE INDEX conversations_active_key ON conversations (session_key) WHERE active;
DROP INDEX IF EXISTS messages_user;
CREATE INDEX messages_user ON messages (conversation_id, seq) WHERE role = 'user' AND NOT hidden;
DROP INDEX IF EXISTS summaries_fallback;
CREATE INDEX summaries_fallback ON summaries (conversation_id) WHERE fallback;
PRAGMA user_version = 6;
"""

_READABLE = f"""
CREATE INDEX IF NOT EXISTS summaries_rowid ON summaries (conversation_id, summary_rowid);
DROP VIEW IF EXISTS message_text;
DROP VIEW IF EXISTS talk;
DROP VIEW IF EXISTS summary_tree;
DROP VIEW IF EXISTS context_now;
DROP VIEW IF EXISTS parts;
{views_script(SqliteDialect())}"""

# Which messages are the host's instructions, by seq. Until now it was the newest system message, and older ones were
# not shown.
_INSTRUCTIONS = """
ALTER TABLE conversations ADD COLUMN instructions TEXT DEFAULT '';
UPDATE conversations SET instructions = coalesce((SELECT CAST(max(m.seq) AS TEXT) FROM messages m
    WHERE m.conversation_id = conversations.conversation_id AND m.role IN ('system', 'developer')
    AND m.withdrawn_at IS NULL), '');
UPDATE messages SET hidden = 1 WHERE role = 'system' AND CAST(seq AS TEXT) <>
    (SELECT c.instructions FROM conversations c WHERE c.conversation_id = messages.conversation_id);
"""

# Senders are found by name; the index of words, which holds the parts of names like ``retryLimit`` now, is made again.
_NAMES = """
CREATE INDEX IF NOT EXISTS messages_sender ON messages (conversation_id, sender) WHERE sender IS NOT NULL;
DROP TABLE IF EXISTS messages_fts;
DROP TABLE IF EXISTS messages_trigram;
DROP TABLE IF EXISTS summaries_fts;
DROP TABLE IF EXISTS summaries_trigram;
DROP TABLE IF EXISTS index_state;
"""

_STEPS = {
    "base_tables": _TABLES,
    "removals": _REMOVALS,
    "integrity_jobs": _INTEGRITY_JOBS,
    "fast_reads": _FAST_READS,
    "withdrawn_messages": _WITHDRAWN,
    "plain_conditions": _PLAIN_CONDITIONS,
    "readable_views": _READABLE,
    "instructions": _INSTRUCTIONS,
    "pins": PINS_SCHEMA,
    "names_in_searches": _NAMES,
    "speaks": speaks_schema(SqliteDialect()),
    "fallback_causes": FALLBACK_CAUSES_SCHEMA,
    "maps": MAPS_SCHEMA,
    "conversation_names": NAMES_SCHEMA,
    "resets": resets_schema(SqliteDialect()),
    "actions": ACTIONS_SCHEMA,
    "cleared_results": CLEARED_SCHEMA,
    "summary_spans": SPANS_SCHEMA,
    "sent_contexts": SENT_CONTEXTS_SCHEMA,
    "summary_texts": TEXTS_SCHEMA,
}
SCHEMA_VERSION = len(_STEPS)


def migrations() -> Migrations:
    """The ordered set of schema changes."""
    from sqlite_utils.migrations import Migrations

    steps = Migrations(MIGRATION_SET)
    for name, script in _STEPS.items():
        steps(name=name)(_step(script))
    return steps


def schema_version(connection: sqlite3.Connection) -> int:
    """How many migrations the database has had; raises `SchemaError` when it is not ours or newer."""
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    applied = set()
    if "_sqlite_migrations" in tables:
        rows = connection.execute(
            "SELECT name FROM _sqlite_migrations WHERE migration_set = ?", (MIGRATION_SET,)
        )
        applied = {row[0] for row in rows}
    if unknown := sorted(applied - _STEPS.keys()):
        raise SchemaError(
            f"a newer lcm_plugin changed the database's schema ({', '.join(unknown)}), this one knows up to "
            f"{list(_STEPS)[-1]}: update it"
        )
    if tables and not applied:
        (path, *_) = (row[2] for row in connection.execute("PRAGMA database_list") if row[1] == "main")
        raise SchemaError(f"{path or 'the file'} is a SQLite database of another program")
    return len(applied)


def migrate(connection: sqlite3.Connection) -> None:
    """Brings the schema up to date. Must be called inside an exclusive transaction."""
    from sqlite_utils import Database

    migrations().apply(Database(connection, execute_plugins=False, recursive_triggers=False))


def _step(script: str) -> Callable[[Database], None]:
    def run(db: Database) -> None:
        for statement in _statements(script):
            db.execute(statement)

    run.__name__ = "run"
    return run


def _statements(script: str) -> list[str]:
    return [statement for statement in script.split(";\n") if statement.strip()]
