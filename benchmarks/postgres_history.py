"""Histories of any length in PostgreSQL: in the plugin's schema as it would stand, and in the floor's.

Written with COPY, since a million turns would take hours. The history is that of `corpus.py`, compacted as it grew:
leaves over 56 messages, four sources to a condensed summary, the newest messages as they were. Texts are cut to a
number of characters so that a million of them are indexed in minutes; the turns that are measured are whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from random import Random
from typing import Any

import psycopg
from postgres_floor import INDEXES, Message

from lcm_plugin.evaluation.corpus import Corpus
from lcm_plugin.messages.encodings import ENCODING
from lcm_plugin.store.postgres.store import PostgresStore

KEY = "agent:bench:main"
RARE, COMMON, ABSENT = "zebrafish", "ordinary", "qwertzuiop"
TAIL, PER_LEAF, FANOUT = 104, 56, 4
_SUMMARY_SENTENCES, _SUMMARY_TOKENS = 70, 1_200
_PART = "conversation_id, message_id, ordinal, type, path, text"
_MESSAGE = "conversation_id, message_id, seq, role, kind, tokens, identity, created_at, group_seq, calls, answers, skeleton"
_SUMMARY = (
    "conversation_id, summary_id, kind, depth, content, tokens, earliest_at, latest_at, first_seq, last_seq, "
    "descendant_count, message_count, source_tokens, message_tokens, level, created_at"
)
_START, _STEP = 1_700_000_000_000, 20_000


def texts(count: int, characters: int, seed: int) -> Iterator[Message]:
    """The messages of the history: the rare word in every 2,000th, the common one in 46 %."""
    for number, message in enumerate(islice((m for turn in Corpus(seed).turns() for m in turn), count), 1):
        words = [COMMON] if number * 46 % 100 < 46 else []
        words += [RARE, "swims"] if number % 2_000 == 7 else []
        yield message | {"content": " ".join([(message.get("content") or "")[:characters], *words]) or "-"}


def fill_store(
    url: str, schema: str, messages: Callable[[], Iterator[Message]], count: int, seed: int
) -> None:
    """The plugin's schema with the history."""
    PostgresStore(f"{url}{'&' if '?' in url else '?'}schema={schema}").close()
    with psycopg.connect(url, autocommit=True, options=f"-c search_path={schema},public") as db:
        later = _drop_indexes(db, schema, "gin")
        db.execute("SET session_replication_role = replica")
        db.execute(
            "INSERT INTO conversations (session_key, session_id, created_at, updated_at) VALUES (%s, 'run', %s, %s)",
            (KEY, _START, _START),
        )
        _copy(db, f"messages ({_MESSAGE})", (_message(n, m) for n, m in enumerate(messages(), 1)))
        _copy(
            db,
            f"message_parts ({_PART})",
            (part for n, m in enumerate(messages(), 1) for part in _parts(n, m)),
        )
        _fill_summaries(db, count, seed)
        db.execute("SELECT setval('message_ids', %s)", (count,))
        # A database without this row has all its tokens counted anew in the background, during the turns that are timed.
        db.execute(
            "INSERT INTO guards (guard_key, state) VALUES ('encoding', %s)", (json.dumps({"name": ENCODING}),)
        )
        for index in later:
            db.execute(index.encode())
        db.execute("VACUUM ANALYZE")


def fill_floor(
    db: psycopg.Connection[Any], messages: Callable[[], Iterator[Message]], count: int, seed: int
) -> None:
    """The floor's tables with the same history and the same context."""
    _copy(
        db, "messages (id, role, tokens)", ((n, m["role"], _tokens(m)) for n, m in enumerate(messages(), 1))
    )
    parts = ((n, part[2], part[5]) for n, m in enumerate(messages(), 1) for part in _parts(n, m))
    _copy(db, "parts (message, ordinal, content)", parts)
    top = _levels(count)[-1] if _covered(count) else []
    sentence = _Sentences(seed)
    _copy(db, "summaries (id, content, tokens)", ((first, sentence(), _SUMMARY_TOKENS) for first, _ in top))
    _copy(db, "items (ordinal, summary)", ((first, first) for first, _ in top))
    _copy(db, "items (ordinal, message)", ((n, n) for n in range(_covered(count) + 1, count + 1)))
    for table in ("messages", "summaries"):
        db.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), %s)".encode(), (count + 1,))
    db.execute("SET maintenance_work_mem = '512MB'")
    for index in INDEXES:
        db.execute(index.encode())
    db.execute("VACUUM ANALYZE")


def _drop_indexes(db: psycopg.Connection[Any], schema: str, kind: str) -> list[str]:
    """Drops the indexes of a kind and returns the statements that make them."""
    db.execute("SET maintenance_work_mem = '512MB'")
    found = db.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = %s AND indexdef LIKE %s",
        (schema, f"%USING {kind}%"),
    ).fetchall()
    for name, _ in found:
        db.execute(f"DROP INDEX {name}".encode())
    return [definition for _, definition in found]


def _copy(db: psycopg.Connection[Any], into: str, rows: Iterable[tuple[Any, ...]]) -> None:
    with db.cursor().copy(f"COPY {into} FROM STDIN".encode()) as copy:
        for row in rows:
            copy.write_row(row)


def _fill_summaries(db: psycopg.Connection[Any], count: int, seed: int) -> None:
    covered, levels, sentence = _covered(count), _levels(count), _Sentences(seed)
    rows, links, leaves = [], [], []
    for depth, spans in enumerate(levels):
        for first, last in spans:
            name, size = _name(depth, first), last - first + 1
            below = [span for span in levels[depth - 1] if first <= span[0] <= last] if depth else []
            # A full tree below each; how many nodes exactly does not matter for what is measured.
            kind = "condensed" if depth else "leaf"
            row = (
                1,
                name,
                kind,
                depth,
                sentence(),
                _SUMMARY_TOKENS,
                _START,
                _START + last * _STEP,
                first,
                last,
            )
            rows.append(
                (*row, size, size, len(below) * _SUMMARY_TOKENS or size * 330, size * 330, "normal", _START)
            )
            links += [(1, name, n, _name(depth - 1, span[0])) for n, span in enumerate(below)]
            if not depth:
                leaves += [(1, name, n, message) for n, message in enumerate(range(first, last + 1))]
    _copy(db, f"summaries ({_SUMMARY})", rows)
    _copy(db, "summary_messages (conversation_id, summary_id, ordinal, message_id)", leaves)
    _copy(db, "summary_parents (conversation_id, summary_id, ordinal, parent_summary_id)", links)
    top = [(1, first, "summary", _name(len(levels) - 1, first), _SUMMARY_TOKENS) for first, _ in levels[-1]]
    _copy(
        db, "context_items (conversation_id, ordinal, item_type, summary_id, tokens)", top if covered else []
    )
    db.execute(
        "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, tokens) "
        "SELECT 1, seq, 'message', message_id, tokens FROM messages WHERE seq > %s",
        (covered,),
    )
    db.execute(
        "UPDATE conversations SET message_count = %s, next_seq = %s + 1, raw_items = t.raw, raw_tokens = t.raw_tokens, "
        "summary_items = t.summaries, summary_tokens = t.summary_tokens FROM (SELECT count(message_id) raw, "
        "coalesce(sum(tokens) FILTER (WHERE message_id IS NOT NULL), 0) raw_tokens, count(summary_id) summaries, "
        "coalesce(sum(tokens) FILTER (WHERE summary_id IS NOT NULL), 0) summary_tokens FROM context_items) t",
        (count, count),
    )


def _covered(count: int) -> int:
    return max(0, count - TAIL) // PER_LEAF * PER_LEAF


def _levels(count: int) -> list[list[tuple[int, int]]]:
    """First and last message of every summary, by depth, up to where at most 16 are left."""
    levels = [[(first, first + PER_LEAF - 1) for first in range(1, _covered(count) + 1, PER_LEAF)]]
    while len(levels[-1]) > 16:
        below = levels[-1]
        joined = [below[start : start + FANOUT] for start in range(0, len(below), FANOUT)]
        levels.append([(group[0][0], group[-1][1]) for group in joined])
    return levels


def _name(depth: int, first: int) -> str:
    return f"sum_{depth:x}{first:015x}"


def _message(number: int, message: Message) -> tuple[Any, ...]:
    identity = int.from_bytes(hashlib.blake2b(str(number).encode(), digest_size=7).digest())
    calls = "\n".join(call["id"] for call in message.get("tool_calls") or ()) or None
    role, at = message["role"], _START + number * _STEP
    answers = message.get("tool_call_id")
    return (1, number, number, role, role, _tokens(message), identity, at, number, calls, answers, None)


def _parts(number: int, message: Message) -> list[tuple[Any, ...]]:
    return [(1, number, 0, "text", "content", message["content"])]


def _tokens(message: Message) -> int:
    return 8 + len(message["content"]) // 4


class _Sentences:
    """Texts of about 1,200 tokens."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._sentences = Corpus(seed).sentences()

    def __call__(self) -> str:
        return " ".join(self._rng.choices(self._sentences, k=_SUMMARY_SENTENCES))
