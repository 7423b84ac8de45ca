"""Small databases as other tools write them, with the columns that their versions have."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CLAW = """
CREATE TABLE conversations (conversation_id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
    session_key TEXT, active INTEGER NOT NULL DEFAULT 1, archived_at TEXT, archive_cause TEXT, title TEXT,
    bootstrapped_at TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL DEFAULT '');
CREATE TABLE messages (message_id INTEGER PRIMARY KEY AUTOINCREMENT, conversation_id INTEGER NOT NULL,
    seq INTEGER NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL, token_count INTEGER NOT NULL DEFAULT 0,
    identity_hash TEXT, openclaw_sender_metadata TEXT, transcript_entry_id TEXT, large_content TEXT,
    created_at TEXT NOT NULL);
CREATE TABLE message_parts (part_id TEXT PRIMARY KEY, message_id INTEGER NOT NULL, session_id TEXT NOT NULL DEFAULT '',
    part_type TEXT NOT NULL, ordinal INTEGER NOT NULL, text_content TEXT, tool_call_id TEXT, tool_name TEXT,
    tool_input TEXT, tool_output TEXT, metadata TEXT);
CREATE TABLE summaries (summary_id TEXT PRIMARY KEY, conversation_id INTEGER NOT NULL, kind TEXT NOT NULL,
    depth INTEGER NOT NULL DEFAULT 0, content TEXT NOT NULL, token_count INTEGER NOT NULL DEFAULT 0,
    earliest_at TEXT, latest_at TEXT, created_at TEXT NOT NULL, file_ids TEXT NOT NULL DEFAULT '[]',
    model TEXT NOT NULL DEFAULT 'unknown');
CREATE TABLE summary_messages (summary_id TEXT, message_id INTEGER, ordinal INTEGER);
CREATE TABLE summary_parents (summary_id TEXT, parent_summary_id TEXT, ordinal INTEGER);
CREATE TABLE context_items (conversation_id INTEGER, ordinal INTEGER, item_type TEXT, message_id INTEGER,
    summary_id TEXT);
CREATE TABLE large_files (file_id TEXT PRIMARY KEY, conversation_id INTEGER, file_name TEXT, mime_type TEXT,
    byte_size INTEGER, storage_uri TEXT NOT NULL, exploration_summary TEXT, created_at TEXT);
"""
HERMES = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, session_key TEXT, chat_id TEXT,
    model TEXT, model_config TEXT, system_prompt TEXT,
    parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
    title TEXT, profile_name TEXT, cwd TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT,
    tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL, token_count INTEGER,
    finish_reason TEXT, reasoning TEXT, reasoning_content TEXT, reasoning_details TEXT,
    active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0);
"""
HERMES_LCM = """
CREATE TABLE messages (store_id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, source TEXT DEFAULT '',
    role TEXT NOT NULL, content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL,
    token_estimate INTEGER DEFAULT 0, pinned INTEGER DEFAULT 0);
CREATE TABLE summary_nodes (node_id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
    depth INTEGER NOT NULL DEFAULT 0, summary TEXT NOT NULL, token_count INTEGER DEFAULT 0,
    source_token_count INTEGER DEFAULT 0, source_ids TEXT NOT NULL DEFAULT '[]',
    source_type TEXT NOT NULL DEFAULT 'messages', created_at REAL NOT NULL, earliest_at REAL, latest_at REAL,
    expand_hint TEXT DEFAULT '');
"""
LONG = "The harbour office moved to the old customs house in spring, and the crane stays where it is. " * 8


class Peer:
    """A database under construction."""

    def __init__(self, path: Path, schema: str) -> None:
        self.path = path
        self.db = sqlite3.connect(path)
        self.db.executescript(schema)

    def add(self, table: str, **values: Any) -> None:
        """One row."""
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        self.db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))  # noqa: S608

    def done(self) -> Path:
        """Closes it."""
        self.db.commit()
        self.db.close()
        return self.path


def claw_database(path: Path, messages: int = 8) -> Path:
    """Eight messages, two leaves over three each, a condensed one over both, and two raw ones at the end."""
    peer = Peer(path, CLAW)
    peer.add(
        "conversations",
        session_id="run-1",
        session_key="agent:main:telegram:42",
        title="Harbour",
        created_at="2026-01-05 09:00:00",
    )
    for number in range(1, messages + 1):
        add_claw_message(peer, number, "user" if number % 2 else "assistant", f"{number}: {LONG}")
    for leaf, covered in (("sum_aaaaaaaaaaaaaaaa", (1, 2, 3)), ("sum_bbbbbbbbbbbbbbbb", (4, 5, 6))):
        add_claw_summary(peer, leaf, "leaf", f"Harbour notes {covered}")
        for ordinal, message in enumerate(covered):
            peer.add("summary_messages", summary_id=leaf, message_id=message, ordinal=ordinal)
    # The stored depth is wrong, as first versions left it.
    add_claw_summary(peer, "sum_cccccccccccccccc", "condensed", "The harbour office moved")
    for ordinal, leaf in enumerate(("sum_aaaaaaaaaaaaaaaa", "sum_bbbbbbbbbbbbbbbb")):
        peer.add(
            "summary_parents", summary_id="sum_cccccccccccccccc", parent_summary_id=leaf, ordinal=ordinal
        )
    peer.add(
        "context_items", conversation_id=1, ordinal=0, item_type="summary", summary_id="sum_cccccccccccccccc"
    )
    for ordinal, message in enumerate(range(7, messages + 1), 1):
        peer.add("context_items", conversation_id=1, ordinal=ordinal, item_type="message", message_id=message)
    return peer.done()


def add_claw_message(
    peer: Peer, number: int, role: str, text: str, blocks: Sequence[dict[str, Any]] = (), **more: Any
) -> None:
    """A message with its parts."""
    peer.add(
        "messages",
        message_id=number,
        conversation_id=1,
        seq=number,
        role=role,
        content=text,
        transcript_entry_id=f"entry-{number}",
        created_at=f"2026-01-05 09:{number:02d}:00",
        **more,
    )
    for ordinal, block in enumerate(blocks or [{"type": "text", "text": text}]):
        peer.add(
            "message_parts",
            part_id=f"{number}-{ordinal}",
            message_id=number,
            part_type="text",
            ordinal=ordinal,
            text_content=text,
            metadata=json.dumps({"originalRole": role, "raw": block}),
        )


def add_claw_summary(peer: Peer, summary_id: str, kind: str, text: str) -> None:
    """A summary without its links."""
    peer.add(
        "summaries",
        summary_id=summary_id,
        conversation_id=1,
        kind=kind,
        content=text,
        created_at="2026-01-05 10:00:00",
        model="gpt-x",
    )
