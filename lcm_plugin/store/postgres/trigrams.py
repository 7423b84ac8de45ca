"""The indexes of substrings, where the server has ``pg_trgm``."""

from __future__ import annotations

from contextlib import suppress

import psycopg

from lcm_plugin.events import logger
from lcm_plugin.store.postgres.connection import Connection

# Every so often an insert has to sort what gathered into the index; less of it makes that wait shorter, and searches
# read less that is not sorted yet.
PENDING_KIB = 1_024
_TRIGRAMS = {
    "message_parts_trigrams": "CREATE INDEX message_parts_trigrams ON message_parts USING gin (text {schema}.gin_trgm_ops) "
    f"WITH (gin_pending_list_limit = {PENDING_KIB}) "
    "WHERE type NOT IN ('reasoning', 'compaction') AND text NOT LIKE 'data:%;base64,%'",
    "summaries_trigrams": "CREATE INDEX summaries_trigrams ON summaries USING gin (content {schema}.gin_trgm_ops)",
}


def add_trigrams(connection: Connection) -> None:
    """Indexes substrings when ``pg_trgm`` is there or may be installed; without it searches read all rows."""
    with (
        suppress(
            psycopg.errors.InsufficientPrivilege,
            psycopg.errors.FeatureNotSupported,
            psycopg.errors.UndefinedFile,
        ),
        connection.transaction(),
    ):
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA public")
    indexes = trigram_indexes(connection)
    if not indexes:
        logger.warning("pg_trgm is not available: regular expressions and substrings read every row")
    for name, statement in indexes.items():
        if connection.execute("SELECT to_regclass(%s)", (name,)).fetchone() == (None,):
            connection.execute(statement.encode())


def trigram_indexes(connection: Connection) -> dict[str, str]:
    """The indexes of substrings, each with the statement that makes it; none when ``pg_trgm`` cannot be used."""
    found = connection.execute(
        "SELECT quote_ident(nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
        "WHERE extname = 'pg_trgm' AND has_schema_privilege(n.oid, 'USAGE')"
    ).fetchone()
    return {name: sql.replace("{schema}", found[0]) for name, sql in _TRIGRAMS.items()} if found else {}
