"""The floor: the least Python and sqlite3 that does the same work, to measure the plugin against.

One table of messages with their token counts, one of context pointers, one full-text index, nothing else:
no parts, no revisions, no checks, no validation, no second process.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Message = dict[str, Any]

_SCHEMA = """
CREATE TABLE messages (id INTEGER PRIMARY KEY, role TEXT, content TEXT, tokens INTEGER);
CREATE TABLE summaries (id INTEGER PRIMARY KEY, content TEXT, tokens INTEGER);
CREATE TABLE sources (summary INTEGER, message INTEGER, PRIMARY KEY (summary, message)) WITHOUT ROWID;
CREATE TABLE items (ordinal INTEGER PRIMARY KEY, message INTEGER, summary INTEGER);
CREATE VIRTUAL TABLE words USING fts5(content, content='messages', content_rowid='id', tokenize='porter');
"""


class Floor:
    """A database with no more in it than the work needs. ``indexed`` keeps the full-text index at once."""

    def __init__(self, path: Path, count: Callable[[str], int], *, indexed: bool = True) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;" + _SCHEMA)
        self._count, self._indexed = count, indexed

    def append(self, messages: Sequence[Message]) -> None:
        """Counts and stores some messages in one transaction."""
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        for message in messages:
            text = json.dumps(message)
            row = (message["role"], text, self._count(message.get("content") or ""))
            key = db.execute("INSERT INTO messages (role, content, tokens) VALUES (?, ?, ?)", row).lastrowid
            db.execute("INSERT INTO items (ordinal, message) VALUES (?, ?)", (key, key))
            if self._indexed:
                db.execute("INSERT INTO words (rowid, content) VALUES (?, ?)", (key, text))
        db.execute("COMMIT")

    def assemble(self, budget: int) -> list[Message]:
        """The newest items that fit the budget, oldest first."""
        rows = self._db.execute(
            "SELECT coalesce(m.content, s.content), coalesce(m.tokens, s.tokens), m.id FROM items i "
            "LEFT JOIN messages m ON m.id = i.message LEFT JOIN summaries s ON s.id = i.summary ORDER BY i.ordinal DESC"
        )
        chosen: list[Message] = []
        for content, tokens, message in rows:
            budget -= tokens
            if budget < 0:
                break
            chosen.append(json.loads(content) if message else {"role": "user", "content": content})
        return chosen[::-1]

    def leaf_pass(self, chunk_tokens: int, tail: int, summarise: Callable[[str], str]) -> bool:
        """Replaces the oldest run of raw items outside the tail by a summary."""
        db = self._db
        newest = db.execute("SELECT max(ordinal) FROM items").fetchone()[0] or 0
        rows = db.execute(
            "SELECT i.ordinal, m.id, m.content, m.tokens FROM items i JOIN messages m ON m.id = i.message "
            "WHERE i.ordinal <= ? ORDER BY i.ordinal",
            (newest - tail,),
        )
        chunk: list[tuple[int, int, str]] = []
        for ordinal, key, content, tokens in rows:
            chunk_tokens -= tokens
            if chunk_tokens < 0:
                break
            chunk.append((ordinal, key, content))
        rows.close()
        if len(chunk) < 2:
            return False
        text = summarise("\n".join(content for *_, content in chunk))
        db.execute("BEGIN IMMEDIATE")
        summary = db.execute(
            "INSERT INTO summaries (content, tokens) VALUES (?, ?)", (text, self._count(text))
        ).lastrowid
        db.executemany("INSERT INTO sources VALUES (?, ?)", [(summary, key) for _, key, _ in chunk])
        db.executemany("DELETE FROM items WHERE ordinal = ?", [(ordinal,) for ordinal, *_ in chunk])
        db.execute("INSERT INTO items VALUES (?, NULL, ?)", (chunk[0][0], summary))
        db.execute("COMMIT")
        return True

    def close(self) -> None:
        """Closes the database."""
        self._db.close()
