"""The invariants of the store, checked on a live database with queries of their own.

They are written against the tables, not against the package, so that a fault of the package's own queries
cannot hide another.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path


def broken_invariants(path: Path | str) -> list[str]:
    """Every breach in a database (a file's path or a PostgreSQL URL), in words; empty when all holds."""
    with closing(_opened(str(path))) as db:
        db.execute("BEGIN")
        faults: list[str] = []
        for (conversation,) in db.execute("SELECT conversation_id FROM conversations").fetchall():
            faults += [f"conversation {conversation}: {fault}" for fault in _conversation(db, conversation)]
        faults += [f"foreign key: {row}" for row in db.execute("PRAGMA foreign_key_check").fetchall()]
        return faults


def _opened(database: str) -> sqlite3.Connection:
    if "://" not in database:
        return sqlite3.connect(f"{Path(database).absolute().as_uri()}?mode=ro", uri=True)
    return _copied(database)


def _copied(url: str) -> sqlite3.Connection:
    """What the queries below ask of a PostgreSQL database, in memory, as it was at one moment."""
    import psycopg

    from lcm_plugin.store.postgres.url import split_schema

    plain, schema = split_schema(url)
    copy = sqlite3.connect(":memory:", isolation_level=None)
    with psycopg.connect(plain, options=f"-c search_path={schema}") as source:
        source.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        for table, columns in _COLUMNS.items():
            rows = source.execute(f"SELECT {columns} FROM {table}".encode()).fetchall()  # noqa: S608
            copy.execute(f"CREATE TABLE {table} ({columns})")
            places = ", ".join("?" * len(columns.split(",")))
            copy.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608
    for table, columns in _LOOKED_UP:
        copy.execute(f"CREATE INDEX {table}_{columns.split(',')[0]} ON {table} ({columns})")
    return copy


_COLUMNS = {
    "conversations": "conversation_id, raw_items, raw_tokens, summary_items, summary_tokens, message_count, next_seq",
    "messages": "conversation_id, message_id, seq",
    "summaries": "conversation_id, summary_id, depth, tokens, source_tokens, first_seq, last_seq",
    "summary_messages": "summary_id, message_id",
    "summary_parents": "summary_id, parent_summary_id",
    "context_items": "conversation_id, ordinal, message_id, summary_id, tokens",
    "context_snapshots": "conversation_id",
}
_LOOKED_UP = (
    ("messages", "conversation_id, seq"),
    ("messages", "message_id"),
    ("summaries", "summary_id"),
    ("summary_messages", "summary_id"),
    ("summary_parents", "summary_id"),
    ("context_items", "conversation_id, ordinal"),
)


def assert_sound(path: Path | str) -> None:
    """Fails naming every breach."""
    faults = broken_invariants(path)
    assert not faults, "\n".join(faults[:20])


def _conversation(db: sqlite3.Connection, conversation: int) -> list[str]:
    return [
        *_lineage(db, conversation),
        *_coverage(db, conversation),
        *_context(db, conversation),
        *_totals(db, conversation),
    ]


def _lineage(db: sqlite3.Connection, conversation: int) -> list[str]:
    """Every summary has sources; those of a condensed one have one depth, one less than its own."""
    faults = []
    nodes = dict(
        db.execute("SELECT summary_id, depth FROM summaries WHERE conversation_id = ?", (conversation,))
    )
    messages, parents = defaultdict(list), defaultdict(list)
    for node, source in db.execute("SELECT summary_id, message_id FROM summary_messages"):
        messages[node].append(source)
    for node, source in db.execute("SELECT summary_id, parent_summary_id FROM summary_parents"):
        parents[node].append(source)
    for node, depth in nodes.items():
        if depth == 0 and (not messages[node] or parents[node]):
            faults.append(f"leaf {node} has {len(messages[node])} messages, {len(parents[node])} summaries")
        if depth > 0:
            found = {nodes.get(source) for source in parents[node]}
            if found != {depth - 1} or messages[node]:
                faults.append(f"{node} of depth {depth} was made of depths {found}")
    for node, tokens, source_tokens in db.execute(
        "SELECT summary_id, tokens, source_tokens FROM summaries WHERE conversation_id = ?", (conversation,)
    ):
        if tokens >= source_tokens:
            faults.append(f"{node} has {tokens} tokens, its sources {source_tokens}")
    return faults


def _coverage(db: sqlite3.Connection, conversation: int) -> list[str]:
    """Walking down from the context reaches every message that /new did not take out, exactly once."""
    reached: dict[int, int] = defaultdict(int)
    for (message,) in db.execute(
        "WITH RECURSIVE nodes (summary_id) AS (SELECT summary_id FROM context_items "
        "WHERE conversation_id = ? AND summary_id IS NOT NULL UNION ALL SELECT p.parent_summary_id "
        "FROM summary_parents p JOIN nodes USING (summary_id)) "
        "SELECT message_id FROM summary_messages JOIN nodes USING (summary_id) UNION ALL "
        "SELECT message_id FROM context_items WHERE conversation_id = ? AND message_id IS NOT NULL",
        (conversation, conversation),
    ):
        reached[message] += 1
    faults = [
        f"message {message} is reached {count} times" for message, count in reached.items() if count > 1
    ]
    pruned = db.execute(
        "SELECT count(*) FROM context_snapshots WHERE conversation_id = ?", (conversation,)
    ).fetchone()[0]
    stored = {
        row[0]
        for row in db.execute("SELECT message_id FROM messages WHERE conversation_id = ?", (conversation,))
    }
    if not pruned and (missing := stored - set(reached)):
        faults.append(f"messages not reached: {sorted(missing)[:10]}")
    if strange := set(reached) - stored:
        faults.append(f"messages of elsewhere reached: {sorted(strange)[:10]}")
    doubled = db.execute(
        "SELECT message_id, count(*) FROM summary_messages JOIN messages USING (message_id) "
        "WHERE conversation_id = ? GROUP BY message_id HAVING count(*) > 1 LIMIT 5",
        (conversation,),
    ).fetchall()
    return [*faults, *(f"message {message} has {count} leaves" for message, count in doubled)]


def _context(db: sqlite3.Connection, conversation: int) -> list[str]:
    """Ordinals follow time, and an item stands where what it points to begins."""
    faults = []
    last = 0
    for ordinal, seq, first, final in db.execute(
        "SELECT c.ordinal, m.seq, s.first_seq, s.last_seq FROM context_items c "
        "LEFT JOIN messages m USING (message_id) LEFT JOIN summaries s ON s.summary_id = c.summary_id "
        "WHERE c.conversation_id = ? ORDER BY c.ordinal",
        (conversation,),
    ):
        begins, ends = (seq, seq) if seq is not None else (first, final)
        if begins != ordinal:
            faults.append(f"item {ordinal} points to what begins at {begins}")
        if begins <= last:
            faults.append(f"item {ordinal} begins at {begins}, the one before ends at {last}")
        last = ends
    seqs = [
        row[0]
        for row in db.execute(
            "SELECT seq FROM messages WHERE conversation_id = ? ORDER BY seq", (conversation,)
        )
    ]
    if len(set(seqs)) != len(seqs):
        faults.append("two messages have one seq")
    return faults


def _totals(db: sqlite3.Connection, conversation: int) -> list[str]:
    """The running totals are those of the items."""
    kept = db.execute(
        "SELECT raw_items, raw_tokens, summary_items, summary_tokens, message_count, next_seq "
        "FROM conversations WHERE conversation_id = ?",
        (conversation,),
    ).fetchone()
    counted = db.execute(
        "SELECT count(message_id), coalesce(sum(tokens) FILTER (WHERE message_id IS NOT NULL), 0), "
        "count(summary_id), coalesce(sum(tokens) FILTER (WHERE summary_id IS NOT NULL), 0), "
        "(SELECT count(*) FROM messages WHERE conversation_id = :here), "
        "(SELECT coalesce(max(seq), 0) + 1 FROM messages WHERE conversation_id = :here) "
        "FROM context_items WHERE conversation_id = :here",
        {"here": conversation},
    ).fetchone()
    return [] if kept == counted else [f"totals {kept} are kept, {counted} counted"]
