"""The PostgreSQL schema, as numbered migrations under an advisory lock.

``conversation_id`` leads every primary key of the tables that grow with history, so that Citus can distribute them by
it; what is looked up across conversations is small and can be reference tables. `docs/postgres.md` has the statements.
"""

from __future__ import annotations

from lcm_plugin.errors import SchemaError, StoreUnavailable
from lcm_plugin.store.dialect import PostgresDialect
from lcm_plugin.store.insight.contexts import SENT_CONTEXTS_SCHEMA
from lcm_plugin.store.insight.table import ACTIONS_SCHEMA
from lcm_plugin.store.insight.texts import TEXTS_SCHEMA
from lcm_plugin.store.maps.table import MAPS_SCHEMA
from lcm_plugin.store.postgres.connection import Connection
from lcm_plugin.store.postgres.trigrams import PENDING_KIB, add_trigrams
from lcm_plugin.store.tables.conversations import NAMES_SCHEMA, resets_schema
from lcm_plugin.store.tables.messages import CLEARED_SCHEMA, speaks_schema
from lcm_plugin.store.tables.pins import PINS_SCHEMA
from lcm_plugin.store.tables.summaries import FALLBACK_CAUSES_SCHEMA
from lcm_plugin.store.tables.withdrawal import SPANS_SCHEMA
from lcm_plugin.store.views import views_script

_MIGRATION_LOCK = 0x6C636D  # "lcm"
_MOST_INDEXED_CHARS = 250_000

# Letters with the usual marks, folded to the bare letter as SQLite's tokenizer does.
_MARKED = "áàâäãåāăąçćčďđéèêëēėęěğíìîïīįłĺľñńňóòôöõøōőŕřśšşťțúùûüūůűųýÿžźż"
_BARE = "aaaaaaaaacccddeeeeeeeegiiiiiilllnnnoooooooorrsssttuuuuuuuuyyzzz"
_CJK = (
    "\\u3005-\\u3007\\u3040-\\u30ff\\u31f0-\\u31ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uac00-\\ud7af"
    "\\uf900-\\ufaff\\uff66-\\uff9f"
)
_SIGNS = "[\\x01-\\x2f\\x3a-\\x40\\x5b-\\x60\\x7b-\\x7f]+"

_BASE = f"""
CREATE TEXT SEARCH DICTIONARY lcm_stem (TEMPLATE = snowball, LANGUAGE = english);
CREATE TEXT SEARCH CONFIGURATION lcm_words (COPY = simple);
ALTER TEXT SEARCH CONFIGURATION lcm_words ALTER MAPPING FOR asciiword, asciihword, hword_asciipart, hword_numpart,
    word, hword, hword_part, numword, numhword WITH lcm_stem;
CREATE FUNCTION lcm_clean(raw text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT regexp_replace(translate(lower(regexp_replace(raw, E'{_SIGNS}',
        ' ', 'g')), '{_MARKED}', '{_BARE}'), E'([{_CJK}])', E' \\\\1 ', 'g') $$;
CREATE FUNCTION lcm_vector(raw text) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT to_tsvector('{{schema}}.lcm_words'::regconfig, {{schema}}.lcm_clean(left(raw, {_MOST_INDEXED_CHARS}))) $$;
CREATE FUNCTION lcm_phrase(raw text) RETURNS tsquery LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT phraseto_tsquery('{{schema}}.lcm_words'::regconfig, {{schema}}.lcm_clean(raw)) $$;

CREATE TYPE message_role AS ENUM ('system', 'user', 'assistant', 'tool', 'other');
CREATE TYPE part_type AS ENUM ('text', 'reasoning', 'tool', 'patch', 'file', 'subtask', 'compaction', 'step_start',
    'step_finish', 'snapshot', 'agent', 'retry');
CREATE TYPE summary_kind AS ENUM ('leaf', 'condensed');
CREATE TYPE item_type AS ENUM ('message', 'summary');
CREATE TYPE debt_state AS ENUM ('pending', 'running', 'deferred', 'done', 'failed');

CREATE TABLE conversations (
    conversation_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_key text NOT NULL,
    session_id text,
    active boolean NOT NULL DEFAULT true,
    title text,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    archived_at bigint,
    archive_cause text,
    revision bigint NOT NULL DEFAULT 0,
    next_seq bigint NOT NULL DEFAULT 1,
    message_count bigint NOT NULL DEFAULT 0,
    raw_items bigint NOT NULL DEFAULT 0,
    raw_tokens bigint NOT NULL DEFAULT 0,
    summary_items bigint NOT NULL DEFAULT 0,
    summary_tokens bigint NOT NULL DEFAULT 0,
    restart_seq bigint NOT NULL DEFAULT 1
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX conversations_active_key ON conversations (session_key) WHERE active;
CREATE INDEX conversations_key ON conversations (session_key, conversation_id);

CREATE TABLE session_runs (
    session_id text NOT NULL,
    session_key text NOT NULL,
    conversation_id bigint REFERENCES conversations ON DELETE CASCADE,
    last_seen_at bigint NOT NULL,
    PRIMARY KEY (session_id, session_key)
);
CREATE INDEX session_runs_conversation ON session_runs (conversation_id);

CREATE SEQUENCE message_ids;
CREATE TABLE messages (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    message_id bigint NOT NULL,
    seq bigint NOT NULL,
    role text NOT NULL,
    kind message_role NOT NULL,
    tokens integer NOT NULL,
    identity bigint NOT NULL,
    created_at bigint NOT NULL,
    group_seq bigint NOT NULL,
    host_id text,
    sender text,
    channel text,
    calls text,
    answers text,
    hidden boolean NOT NULL DEFAULT false,
    skeleton text,
    PRIMARY KEY (conversation_id, message_id)
);
CREATE UNIQUE INDEX messages_seq ON messages (conversation_id, seq);
CREATE INDEX messages_identity ON messages (conversation_id, identity);
CREATE UNIQUE INDEX messages_host_id ON messages (conversation_id, host_id) WHERE host_id IS NOT NULL;
CREATE INDEX messages_id ON messages (message_id);
CREATE INDEX messages_calls ON messages (conversation_id, seq) WHERE calls IS NOT NULL OR answers IS NOT NULL;
CREATE INDEX messages_system ON messages (conversation_id, seq) WHERE role IN ('system', 'developer');
CREATE INDEX messages_user ON messages (conversation_id, seq) WHERE role = 'user' AND NOT hidden;

CREATE TABLE message_parts (
    conversation_id bigint NOT NULL,
    message_id bigint NOT NULL,
    ordinal integer NOT NULL,
    type part_type NOT NULL,
    path text NOT NULL,
    text text NOT NULL,
    exact text,
    tool_name text,
    tool_call_id text,
    file_id text,
    metadata json,
    words tsvector GENERATED ALWAYS AS (
        CASE WHEN type IN ('reasoning', 'compaction') OR text LIKE 'data:%;base64,%' THEN NULL
        ELSE lcm_vector(text) END) STORED,
    PRIMARY KEY (conversation_id, message_id, ordinal),
    FOREIGN KEY (conversation_id, message_id) REFERENCES messages ON DELETE CASCADE
);
CREATE INDEX message_parts_words ON message_parts USING gin (words);
CREATE INDEX message_parts_id ON message_parts (message_id);
CREATE INDEX message_parts_file ON message_parts (conversation_id, file_id) WHERE file_id IS NOT NULL;

CREATE SEQUENCE summary_rowids;
CREATE TABLE summaries (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    summary_id text NOT NULL,
    summary_rowid bigint NOT NULL DEFAULT nextval('summary_rowids'),
    kind summary_kind NOT NULL,
    depth integer NOT NULL CHECK (depth >= 0),
    content text NOT NULL,
    tokens integer NOT NULL,
    earliest_at bigint NOT NULL,
    latest_at bigint NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    descendant_count bigint NOT NULL,
    message_count bigint NOT NULL,
    source_tokens bigint NOT NULL,
    message_tokens bigint NOT NULL,
    level text NOT NULL,
    model text NOT NULL DEFAULT '',
    prompt_version text NOT NULL DEFAULT '',
    fallback boolean NOT NULL DEFAULT false,
    capped boolean NOT NULL DEFAULT false,
    file_ids jsonb,
    created_at bigint NOT NULL,
    words tsvector GENERATED ALWAYS AS (lcm_vector(content)) STORED,
    PRIMARY KEY (conversation_id, summary_id),
    CHECK ((kind = 'leaf') = (depth = 0))
);
CREATE INDEX summaries_id ON summaries (summary_id);
CREATE INDEX summaries_rowid ON summaries (conversation_id, summary_rowid);
CREATE INDEX summaries_depth ON summaries (conversation_id, depth);
CREATE INDEX summaries_fallback ON summaries (conversation_id) WHERE fallback;
CREATE INDEX summaries_words ON summaries USING gin (words);

CREATE TABLE summary_messages (
    conversation_id bigint NOT NULL,
    summary_id text NOT NULL,
    ordinal integer NOT NULL,
    message_id bigint NOT NULL,
    PRIMARY KEY (conversation_id, summary_id, ordinal),
    FOREIGN KEY (conversation_id, summary_id) REFERENCES summaries ON DELETE CASCADE,
    FOREIGN KEY (conversation_id, message_id) REFERENCES messages ON DELETE RESTRICT
);
CREATE INDEX summary_messages_message ON summary_messages (message_id);
CREATE INDEX summary_messages_summary ON summary_messages (summary_id);

CREATE TABLE summary_parents (
    conversation_id bigint NOT NULL,
    summary_id text NOT NULL,
    ordinal integer NOT NULL,
    parent_summary_id text NOT NULL,
    PRIMARY KEY (conversation_id, summary_id, ordinal),
    FOREIGN KEY (conversation_id, summary_id) REFERENCES summaries ON DELETE CASCADE,
    FOREIGN KEY (conversation_id, parent_summary_id) REFERENCES summaries ON DELETE RESTRICT
);
CREATE INDEX summary_parents_source ON summary_parents (parent_summary_id);
CREATE INDEX summary_parents_summary ON summary_parents (summary_id);

CREATE TABLE context_items (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    ordinal bigint NOT NULL,
    item_type item_type NOT NULL,
    message_id bigint,
    summary_id text,
    tokens integer NOT NULL,
    PRIMARY KEY (conversation_id, ordinal),
    FOREIGN KEY (conversation_id, message_id) REFERENCES messages ON DELETE RESTRICT,
    FOREIGN KEY (conversation_id, summary_id) REFERENCES summaries ON DELETE RESTRICT,
    CHECK ((item_type = 'message') = (message_id IS NOT NULL)),
    CHECK ((item_type = 'summary') = (summary_id IS NOT NULL))
);
CREATE INDEX context_items_message ON context_items (conversation_id, message_id) WHERE message_id IS NOT NULL;
CREATE INDEX context_items_summary ON context_items (conversation_id, summary_id) WHERE summary_id IS NOT NULL;
CREATE INDEX context_items_summaries ON context_items (conversation_id, ordinal) WHERE summary_id IS NOT NULL;
CREATE INDEX context_items_raw ON context_items (conversation_id, ordinal) WHERE message_id IS NOT NULL;

CREATE TABLE context_snapshots (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    snapshot_id bigint GENERATED ALWAYS AS IDENTITY,
    created_at bigint NOT NULL,
    cause text NOT NULL,
    revision bigint NOT NULL,
    items jsonb NOT NULL,
    restored_at bigint,
    PRIMARY KEY (conversation_id, snapshot_id)
);

CREATE TABLE large_files (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    file_id text NOT NULL,
    sha256 text NOT NULL,
    storage_uri text NOT NULL,
    byte_size bigint NOT NULL,
    file_name text NOT NULL DEFAULT '',
    mime_type text NOT NULL DEFAULT '',
    line_count bigint,
    exploration_summary text NOT NULL DEFAULT '',
    truncated boolean NOT NULL DEFAULT false,
    created_at bigint NOT NULL,
    PRIMARY KEY (conversation_id, file_id)
);
CREATE INDEX large_files_id ON large_files (file_id);

CREATE TABLE file_blobs (
    sha256 text PRIMARY KEY,
    data bytea NOT NULL
);

CREATE TABLE compaction_debt (
    conversation_id bigint PRIMARY KEY REFERENCES conversations ON DELETE CASCADE,
    state debt_state NOT NULL,
    reason text NOT NULL DEFAULT '',
    requested_at bigint NOT NULL,
    budget bigint,
    attempts integer NOT NULL DEFAULT 0,
    next_attempt_at bigint NOT NULL DEFAULT 0,
    owner text,
    lease_until bigint NOT NULL DEFAULT 0,
    last_error text NOT NULL DEFAULT '',
    revision bigint NOT NULL DEFAULT -1,
    next_seq bigint NOT NULL DEFAULT -1,
    overhead bigint NOT NULL DEFAULT 0,
    model text NOT NULL DEFAULT '',
    context_window bigint
);
CREATE INDEX compaction_debt_due ON compaction_debt (next_attempt_at) WHERE state <> 'done';

CREATE TABLE guards (
    guard_key text PRIMARY KEY,
    state jsonb NOT NULL
);
"""

_REMOVALS = """
CREATE TABLE removals (
    removal_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('prune', 'redact')),
    created_at bigint NOT NULL,
    requested_by text NOT NULL,
    conversations bigint NOT NULL DEFAULT 0,
    messages bigint NOT NULL DEFAULT 0,
    summaries bigint NOT NULL DEFAULT 0,
    files bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0
);

CREATE TABLE removed_messages (
    conversation_id bigint NOT NULL,
    message_id bigint NOT NULL,
    removal_id bigint NOT NULL,
    whole boolean NOT NULL,
    former_identity bigint,
    PRIMARY KEY (conversation_id, message_id),
    FOREIGN KEY (conversation_id, message_id) REFERENCES messages ON DELETE CASCADE
);
CREATE INDEX removed_messages_former ON removed_messages (conversation_id, former_identity)
    WHERE former_identity IS NOT NULL;
CREATE INDEX removed_messages_removal ON removed_messages (removal_id);
"""

_INTEGRITY_JOBS = """
CREATE TABLE integrity_jobs (
    conversation_id bigint PRIMARY KEY REFERENCES conversations ON DELETE CASCADE,
    reason text NOT NULL DEFAULT '',
    requested_at bigint NOT NULL,
    mode text NOT NULL CHECK (mode IN ('scan', 'scan_and_plan')),
    state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'running', 'done', 'failed')),
    owner text,
    lease_until bigint NOT NULL DEFAULT 0,
    finished_at bigint NOT NULL DEFAULT 0,
    result text NOT NULL DEFAULT ''
);
CREATE INDEX integrity_jobs_due ON integrity_jobs (requested_at) WHERE state IN ('pending', 'running');
"""

# Cleans as `_BASE` does: folding is what costs most there, and plain ASCII has nothing to fold.
# Keys are compared byte by byte, which is what a search for their beginning needs.
_FAST_READS = f"""
CREATE FUNCTION lcm_fold(lowered text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN lowered ~ '[{_MARKED}]' THEN translate(lowered, '{_MARKED}', '{_BARE}') ELSE lowered END $$;
CREATE OR REPLACE FUNCTION lcm_clean(raw text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(raw) = length(raw)
    THEN lower(regexp_replace(raw, E'{_SIGNS}', ' ', 'g'))
    ELSE regexp_replace({{schema}}.lcm_fold(lower(regexp_replace(raw, E'{_SIGNS}', ' ', 'g'))),
        E'([{_CJK}])', E' \\\\1 ', 'g') END $$;

ALTER INDEX message_parts_words SET (gin_pending_list_limit = {PENDING_KIB});
ALTER INDEX IF EXISTS message_parts_trigrams SET (gin_pending_list_limit = {PENDING_KIB});
DROP INDEX conversations_key;
CREATE INDEX conversations_key ON conversations (session_key text_pattern_ops, conversation_id);
CREATE INDEX conversations_active ON conversations (conversation_id) WHERE active;
DROP INDEX summaries_depth;
CREATE INDEX summaries_depth ON summaries (conversation_id, depth, summary_rowid);
CREATE INDEX summaries_newest ON summaries (summary_rowid);
CREATE INDEX integrity_jobs_finished ON integrity_jobs (finished_at DESC, conversation_id)
    WHERE state IN ('done', 'failed');
"""

_WITHDRAWN = """
ALTER TABLE messages ADD COLUMN withdrawn_at bigint;
ALTER TABLE messages ADD COLUMN follows bigint;
CREATE INDEX messages_withdrawn ON messages (conversation_id, identity) WHERE withdrawn_at IS NOT NULL;
"""

# Not every text that is taken for JSON parses: such messages are found and hidden, and have no fields here.
_READABLE = f"""
CREATE FUNCTION lcm_json(raw text) RETURNS json LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
    BEGIN RETURN replace(raw, '\\u0000', '\\ufffd')::json; EXCEPTION WHEN data_exception THEN RETURN NULL; END $$;
{views_script(PostgresDialect())}"""

# Which messages are the host's instructions, by seq. Before, it was the newest system message alone.
_INSTRUCTIONS = """
ALTER TABLE conversations ADD COLUMN instructions text DEFAULT '';
UPDATE conversations c SET instructions = found.newest::text FROM (
    SELECT conversation_id, max(seq) AS newest FROM messages
    WHERE role IN ('system', 'developer') AND withdrawn_at IS NULL GROUP BY conversation_id
) found WHERE found.conversation_id = c.conversation_id;
UPDATE messages m SET hidden = true FROM conversations c
WHERE c.conversation_id = m.conversation_id AND m.role = 'system' AND m.seq::text <> c.instructions;
"""

# The parts of names like ``retryLimit`` are words as well, by the rule of `store.search.name_parts`. A vector has room
# for them in texts of this length.
_SPLIT_CHARS = 100_000
_NAME = "[a-z][a-z][A-Z][a-z][a-z]"
_NAMES = f"""
CREATE INDEX messages_sender ON messages (conversation_id, sender) WHERE sender IS NOT NULL;
CREATE FUNCTION lcm_parts(raw text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN raw ~ '{_NAME}' THEN regexp_replace(raw, '([a-z][a-z])(?=[A-Z][a-z][a-z])', '\\1 ', 'g')
        ELSE '' END $$;
CREATE OR REPLACE FUNCTION lcm_vector(raw text) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT to_tsvector('{{schema}}.lcm_words'::regconfig, {{schema}}.lcm_clean(left(raw, {_MOST_INDEXED_CHARS}))) ||
        to_tsvector('{{schema}}.lcm_words'::regconfig,
            {{schema}}.lcm_clean({{schema}}.lcm_parts(left(raw, {_SPLIT_CHARS})))) $$;
UPDATE message_parts SET text = text WHERE text ~ '{_NAME}';
UPDATE summaries SET content = content WHERE content ~ '{_NAME}';
"""

MIGRATIONS: tuple[str, ...] = (
    _BASE,
    _REMOVALS,
    _INTEGRITY_JOBS,
    _FAST_READS,
    _WITHDRAWN,
    _READABLE,
    _INSTRUCTIONS,
    PINS_SCHEMA,
    _NAMES,
    speaks_schema(PostgresDialect()),
    FALLBACK_CAUSES_SCHEMA,
    MAPS_SCHEMA,
    NAMES_SCHEMA,
    resets_schema(PostgresDialect()),
    ACTIONS_SCHEMA,
    CLEARED_SCHEMA,
    SPANS_SCHEMA,
    SENT_CONTEXTS_SCHEMA,
    TEXTS_SCHEMA,
)


def prepare_schema(connection: Connection, schema: str, *, create: bool = True) -> None:
    """Creates or updates the schema, one process at a time; raises when a newer version made it.

    Raises `StoreUnavailable` when it is not there and ``create`` is false.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_MIGRATION_LOCK, schema))
        version = schema_version(connection, schema)
        if version >= len(MIGRATIONS):
            return
        if version == 0 and not create:
            raise StoreUnavailable(f"there is no schema {schema} of this package in the database")
        # Asked first, since making a schema that is there still needs the right to make one.
        if connection.execute("SELECT to_regnamespace(%s)", (f'"{schema}"',)).fetchone() == (None,):
            connection.execute(f'CREATE SCHEMA "{schema}"')
        connection.execute(
            "CREATE TABLE IF NOT EXISTS lcm_migrations (version integer PRIMARY KEY, applied_at timestamptz)"
        )
        for number, script in enumerate(MIGRATIONS[version:], version + 1):
            connection.execute(script.replace("{schema}", schema).encode())
            connection.execute("INSERT INTO lcm_migrations VALUES (%s, now())", (number,))
        add_trigrams(connection)


def schema_version(connection: Connection, schema: str) -> int:
    """How many migrations the schema has had; 0 when there is none."""
    row = connection.execute("SELECT to_regclass(%s)", (f'"{schema}".lcm_migrations',)).fetchone()
    if row is None or row[0] is None:
        return 0
    found = connection.execute("SELECT coalesce(max(version), 0) FROM lcm_migrations").fetchone()
    version = int(found[0]) if found else 0
    if version > len(MIGRATIONS):
        raise SchemaError(
            f"the schema has version {version}, this lcm_plugin knows up to {len(MIGRATIONS)}: update it"
        )
    return version


def require_schema(connection: Connection, schema: str) -> None:
    """Raises `StoreUnavailable` when a read-only store finds no usable schema."""
    if schema_version(connection, schema) < len(MIGRATIONS):
        raise StoreUnavailable(
            f"the schema {schema} does not exist yet or is older: no host of this version used it"
        )
