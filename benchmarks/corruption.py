"""Each class of damage, put into a real database: is it found, named, and mended or honestly refused?

    python benchmarks/corruption.py [--postgres URL] [--json]

Every damage is done to a fresh copy of one small grown database. The hashes of all tables are taken before the
damage, after it, after a check (which must change nothing) and after the doctor. A mended database must be
what it was before the damage, but for the tables that a damage names in ``touches``; what is refused must be
left exactly as it was found.
"""

# ruff: noqa: S608  (every statement is written here; nothing comes from outside)

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.errors import StoreError
from lcm_plugin.summarize.prompts import PromptParts, prompt

LANE, OTHER = Session("agent:main:main", "run-1"), Session("agent:main:other", "run-2")
NOW = 1_780_000_000_000
SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 300,
    "leaf_target_tokens": 64,
    "condensed_target_tokens": 96,
}
Verdict = Literal["mended", "refused", "left", "remark"]
_COUNTED_ON = ("revision", "updated_at")


class Database(Protocol):
    """One copy of the grown database, to be damaged."""

    folder: Path
    target: str

    def execute(self, statement: str) -> int:
        """Runs a statement past every constraint and returns how many rows it changed."""

    def hashes(self) -> dict[str, str]:
        """A hash of each table's rows, in no order, without counters of changes."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One class of damage. ``verdict`` is what the doctor must come to.

    ``left``: mended only with the word to delete, or only when a model answers. ``remark``: nothing to do.
    """

    code: str
    verdict: Verdict
    harm: str | Callable[[Database], object]
    touches: frozenset[str] = frozenset()
    only: Literal["", "sqlite", "postgres"] = ""
    name: str = ""

    @property
    def title(self) -> str:
        """What it is called in reports."""
        return self.name or self.code


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one damage; ``faults`` says in words what was not as it should be."""

    damage: str
    code: str
    store: str
    verdict: Verdict
    found: tuple[str, ...]
    seconds: float
    faults: tuple[str, ...]


def bed(number: int) -> str:
    """The text of one message."""
    care = " ".join(f"step {step} of bed {number} is done slowly and with care," for step in range(6))
    return f"bed {number}: water the lilies in row {number * 7} at dusk, {care} then rest"


def _stray(name: str, data: bytes = b"stray") -> Callable[[Database], object]:
    def harm(database: Database) -> None:
        digest = hashlib.sha256(data).hexdigest()
        path = database.folder / "lcm-files" / digest[:2] / (name or digest)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o600)
        os.utime(path, (1, 1))

    return harm


def _payload(change: Callable[[Path], object]) -> Callable[[Database], object]:
    def harm(database: Database) -> None:
        files = (database.folder / "lcm-files").rglob("*")
        path = next(path for path in files if path.is_file())
        path.chmod(0o600)
        change(path)

    return harm


def _say(content: str) -> str:
    """Gives one leaf another text, as if a model had written it."""
    quoted = content.replace("'", "''").replace("{", "{{").replace("}", "}}")
    return (
        f"UPDATE summaries SET content = '{quoted}', level = 'normal', model = 'm' WHERE summary_id = {_LEAF}"
    )


def _overwrite_page(database: Database) -> None:
    """Overwrites a page of the messages' texts, as a failing disk does; the database is closed."""
    connection = sqlite3.connect(database.target)
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'message_parts'").fetchone()[0]
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    with open(database.target, "r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\x00" * size)


def _repeat(database: Database) -> None:
    with open_engine(database) as engine:
        engine.ingest(OTHER, engine.messages(OTHER))


_LEAF = "(SELECT summary_id FROM summaries WHERE depth = 0 ORDER BY first_seq LIMIT 1)"
_CONDENSED = "(SELECT summary_id FROM summaries WHERE depth = 1 ORDER BY first_seq LIMIT 1)"
_RAW = "message_id = (SELECT max(message_id) FROM context_items WHERE conversation_id = 1 AND message_id IS NOT NULL)"
_TEXTS = frozenset({"summaries", "context_items", "summary_texts"})
_PROMPT = str(prompt(PromptParts(0, False, 64, "", ""))[0]["content"])[:500]
DAMAGES: tuple[Damage, ...] = (
    Damage("context_dangling", "mended", f"UPDATE context_items SET message_id = 999999 WHERE {_RAW}"),
    Damage(
        "context_foreign",
        "mended",
        f"UPDATE context_items SET conversation_id = 2, ordinal = ordinal + 1000 WHERE {_RAW}",
    ),
    Damage("context_order", "mended", f"UPDATE context_items SET ordinal = ordinal + 100000 WHERE {_RAW}"),
    Damage("context_tokens", "mended", f"UPDATE context_items SET tokens = tokens + 1 WHERE {_RAW}"),
    Damage("counters", "mended", "UPDATE conversations SET raw_tokens = raw_tokens + 1"),
    Damage("message_count", "mended", "UPDATE conversations SET message_count = message_count - 1"),
    Damage("message_uncovered", "mended", f"DELETE FROM context_items WHERE {_RAW}"),
    Damage(
        "message_covered_twice",
        "mended",
        "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, tokens) SELECT conversation_id, "
        "seq, 'message', message_id, tokens FROM messages WHERE message_id = (SELECT max(message_id) FROM "
        "summary_messages)",
        name="message in the context and under a summary",
    ),
    Damage(
        "message_covered_twice",
        "left",
        "INSERT INTO summary_messages ({conversation}summary_id, ordinal, message_id) SELECT {conversation}(SELECT "
        "max(summary_id) FROM summary_messages), 900, message_id FROM summary_messages "
        f"WHERE summary_id = {_LEAF} AND ordinal = 0",
        touches=frozenset({"summaries"}),
        name="message under two summaries",
    ),
    Damage(
        "message_unreadable",
        "mended",
        "UPDATE messages SET skeleton = '{{broken' WHERE message_id = (SELECT max(message_id) FROM context_items)",
        touches=frozenset({"messages", "context_items", "conversations"}),
    ),
    Damage(
        "message_withdrawn",
        "mended",
        "UPDATE messages SET withdrawn_at = 1 WHERE message_id = (SELECT max(message_id) FROM context_items)",
        touches=frozenset({"messages", "context_items", "conversations"}),
    ),
    Damage("message_incomplete", "refused", "DELETE FROM message_parts WHERE message_id = 2 AND ordinal = 0"),
    Damage("message_order", "refused", "UPDATE messages SET group_seq = seq + 1 WHERE message_id = 3"),
    Damage("messages_repeated", "refused", _repeat),
    Damage(
        "pin_without_message",
        "remark",
        "INSERT INTO pins (conversation_id, pin_id, text, tokens, created_at, pinned_by, message_id) "
        "VALUES (1, 'pin_0123456789abcdef', 'words that stay', 4, 1, 'user', 999999)",
    ),
    Damage("part_without_file", "refused", "DELETE FROM large_files"),
    Damage("file_missing", "refused", _payload(lambda path: path.unlink()), only="sqlite"),
    Damage("file_changed", "refused", _payload(lambda path: path.write_bytes(b"other bytes")), only="sqlite"),
    Damage("file_missing", "refused", "DELETE FROM file_blobs", only="postgres"),
    Damage("file_changed", "refused", "UPDATE file_blobs SET data = 'other'", only="postgres"),
    Damage("file_rights", "mended", _payload(lambda path: path.chmod(0o644)), only="sqlite"),
    Damage(
        "file_rights",
        "mended",
        lambda database: Path(database.target).chmod(0o640),
        only="sqlite",
        name="database file readable by others",
    ),
    Damage("file_orphan", "left", _stray(""), only="sqlite"),
    Damage("file_leftover", "mended", _stray(".tmp-0123456789abcdef"), only="sqlite"),
    Damage("blob_orphan", "left", "INSERT INTO file_blobs (sha256, data) VALUES ('ab', 'stray')"),
    Damage(
        "summary_without_source", "refused", f"DELETE FROM summary_parents WHERE summary_id = {_CONDENSED}"
    ),
    Damage(
        "summary_missing_source",
        "refused",
        f"UPDATE summary_parents SET parent_summary_id = 'sum_gone' WHERE summary_id = {_CONDENSED} AND ordinal = 0",
        touches=frozenset({"summaries", "context_items", "conversations"}),
    ),
    Damage(
        "summary_link_lost",
        "mended",
        f"DELETE FROM summary_messages WHERE summary_id = {_LEAF} AND ordinal > 0",
    ),
    Damage(
        "summary_foreign",
        "refused",
        "UPDATE summary_parents SET parent_summary_id = 'sum_other' WHERE "
        f"summary_id = {_CONDENSED} AND ordinal = 0; UPDATE summaries SET summary_id = 'sum_other', conversation_id = 2 "
        "WHERE summary_id = (SELECT min(parent_summary_id) FROM summary_parents WHERE parent_summary_id NOT LIKE "
        "'sum_o%')",
        only="sqlite",
        touches=frozenset({"summaries", "context_items", "conversations", "summary_messages"}),
    ),
    Damage(
        "summary_depth", "mended", f"UPDATE summaries SET depth = depth + 1 WHERE summary_id = {_CONDENSED}"
    ),
    Damage(
        "summary_cycle",
        "refused",
        f"UPDATE summary_parents SET parent_summary_id = summary_id WHERE summary_id = {_CONDENSED} AND ordinal = 0",
        touches=frozenset({"summaries"}),
    ),
    Damage("summary_orphan", "mended", "DELETE FROM context_items WHERE summary_id IS NOT NULL"),
    Damage(
        "summary_sums",
        "mended",
        f"UPDATE summaries SET message_count = message_count + 1, message_tokens = 1 WHERE summary_id = {_LEAF}",
    ),
    Damage("summary_span", "mended", f"UPDATE summaries SET latest_at = 1 WHERE summary_id = {_LEAF}"),
    Damage(
        "summary_fallback", "left", f"UPDATE summaries SET fallback = {{true}} WHERE summary_id = {_LEAF}"
    ),
    Damage("summary_capped", "remark", f"UPDATE summaries SET capped = {{true}} WHERE summary_id = {_LEAF}"),
    Damage(
        "summary_marker",
        "mended",
        "UPDATE summaries SET prompt_version = '', content = 'The lilies were watered.\n[Truncated from 900 tokens]' "
        f"WHERE summary_id = {_LEAF}",
        touches=_TEXTS,
    ),
    Damage(
        "summary_oversize",
        "mended",
        f"UPDATE summaries SET tokens = source_tokens + 1 WHERE summary_id = {_LEAF}",
        touches=_TEXTS,
    ),
    Damage(
        "summary_over_cap",
        "mended",
        f"UPDATE summaries SET tokens = 250, source_tokens = 300 WHERE summary_id = {_LEAF}",
        touches=_TEXTS,
    ),
    Damage("summary_empty", "mended", _say(" … "), touches=_TEXTS),
    Damage("summary_echo", "mended", _say("\n".join(bed(number) for number in range(2))), touches=_TEXTS),
    Damage("summary_prompt_leak", "mended", _say(_PROMPT), touches=_TEXTS),
    Damage("summary_answer", "mended", _say("I am sorry, but I cannot help with that."), touches=_TEXTS),
    Damage(
        "summary_cut", "mended", _say("They watered the garden beds and then went on to the"), touches=_TEXTS
    ),
    Damage(
        "summary_unsupported",
        "mended",
        _say(
            "They watered the garden beds. The bill HP-90417 over 8812 euros was filed at /srv/bills/may.csv."
        ),
        touches=_TEXTS,
    ),
    Damage(
        "debt_stale",
        "mended",
        "INSERT INTO compaction_debt (conversation_id, state, requested_at, owner, lease_until) VALUES "
        "(2, 'running', 1, 'gone', 1)",
        touches=frozenset({"compaction_debt"}),
    ),
    Damage(
        "debt_stale",
        "mended",
        "INSERT INTO compaction_debt (conversation_id, state, requested_at, owner, lease_until) VALUES "
        f"(2, 'running', 1, 'gone', {NOW + 10**12})",
        touches=frozenset({"compaction_debt"}),
        name="lease that a clock jump left in the far future",
    ),
    Damage(
        "debt_stuck",
        "mended",
        "INSERT INTO compaction_debt (conversation_id, state, requested_at, attempts, last_error) VALUES "
        "(2, 'failed', 1, 9, 'no model')",
        touches=frozenset({"compaction_debt"}),
    ),
    Damage("lane_stale", "left", "UPDATE conversations SET updated_at = 1 WHERE conversation_id = 2"),
    Damage("schema_differs", "mended", "DROP INDEX messages_identity"),
    Damage(
        "index_differs",
        "mended",
        "DELETE FROM messages_fts_docsize WHERE id = 3",
        only="sqlite",
        name="message missing from the full-text index",
    ),
    Damage(
        "index_differs",
        "mended",
        "UPDATE messages_fts_data SET block = zeroblob(length(block))",
        only="sqlite",
        name="full-text index overwritten",
    ),
    Damage(
        "index_differs",
        "mended",
        "ALTER TABLE message_parts ALTER COLUMN words DROP EXPRESSION; UPDATE message_parts SET words = 'wrong'",
        only="postgres",
        name="word vectors that no longer follow their text",
    ),
    Damage("structure", "refused", _overwrite_page, only="sqlite", name="page overwritten"),
    Damage(
        "structure",
        "refused",
        "ALTER TABLE message_parts DISABLE TRIGGER ALL",
        only="postgres",
        name="references no longer enforced",
    ),
)


class SqliteDatabase:
    """A copy of the grown file and its payload folder."""

    def __init__(self, grown: Path, folder: Path) -> None:
        shutil.copytree(grown, folder)
        self.folder = folder
        self.target = str(folder / "lcm.db")

    def execute(self, statement: str) -> int:
        connection = sqlite3.connect(self.target, isolation_level=None)
        try:
            changed = 0
            for one in statement.format(conversation="", true="1").split("; "):
                changed += max(connection.execute(one).rowcount, 0)
            return changed
        finally:
            connection.close()

    def hashes(self) -> dict[str, str]:
        connection = sqlite3.connect(f"file:{self.target}?mode=ro", uri=True)
        try:
            names = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '*_fts*' AND name NOT GLOB "
                "'*_trigram*' AND name NOT IN ('index_state', 'sqlite_sequence') AND sql NOT LIKE '%VIRTUAL%'"
            ).fetchall()
            return {name: _hash(_sqlite_rows(connection, name)) for (name,) in names}
        finally:
            connection.close()


class PostgresDatabase:
    """A database made from the grown one as its template."""

    def __init__(self, server: str, template: str, folder: Path) -> None:
        import psycopg

        self.folder = folder
        name = f"lcm_damage_{time.time_ns()}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        self.target = in_database(server, name)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        import psycopg

        with psycopg.connect(self.target, autocommit=True) as connection:
            connection.execute("SET search_path = lcm, public")
            connection.execute("SET session_replication_role = replica")
            yield connection

    def execute(self, statement: str) -> int:
        with self._connected() as connection:
            changed = 0
            for one in statement.format(conversation="conversation_id, ", true="true").split("; "):
                changed += max(connection.execute(one.encode()).rowcount, 0)
            return changed

    def hashes(self) -> dict[str, str]:
        with self._connected() as connection:
            names = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'lcm' ORDER BY 1"
            ).fetchall()
            return {name: _hash(_postgres_rows(connection, name)) for (name,) in names}


def in_database(server: str, name: str) -> str:
    """The server's URL for another of its databases."""
    head, _, query = server.partition("?")
    return f"{head.rpartition('/')[0]}/{name}" + (f"?{query}" if query else "")


def _sqlite_rows(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    columns = [
        row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] not in _COUNTED_ON
    ]
    try:
        for row in connection.execute(f"SELECT {', '.join(columns)} FROM {table}"):
            yield repr(row)
    except sqlite3.DatabaseError as error:
        yield f"unreadable: {error}"


def _postgres_rows(connection: Any, table: str) -> Iterator[str]:
    columns = connection.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'lcm' AND table_name = %s "
        "AND column_name <> ALL(%s) ORDER BY column_name",
        (table, ["words", *_COUNTED_ON]),
    ).fetchall()
    listed = ", ".join(f"{name}::text" for (name,) in columns)
    for row in connection.execute(f"SELECT {listed} FROM {table}".encode()):
        yield repr(row)


def _hash(rows: Iterator[str]) -> str:
    return hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest()


@contextmanager
def open_engine(database: Database) -> Iterator[Engine]:
    """An engine on a database, at the bench's own time."""
    with Engine.open(LcmConfig(database=database.target, **SETTINGS), clock=lambda: NOW) as engine:
        yield engine


def grow(target: str) -> None:
    """A small database with two depths of summaries, a payload, and two lanes."""
    with Engine.open(LcmConfig(database=target, **SETTINGS), clock=lambda: NOW) as engine:
        for number in range(40):
            engine.ingest(LANE, [{"role": "user", "content": bed(number)}])
        engine.ingest(LANE, [{"role": "user", "content": "a long list of plants " * 8_000}])
        while engine.compact(LANE, force=True).compacted:
            pass
        for number in range(14):
            engine.ingest(OTHER, [{"role": "user", "content": f"note {number} on the shed"}])
        engine.call_tool(LANE, "lcm_grep", {"pattern": "lilies"})


def examine(database: Database, damage: Damage, store: str) -> Outcome:
    """Does one damage and follows what the checker and the doctor make of it."""
    began = time.monotonic()
    faults: list[str] = []
    healthy = database.hashes()
    if isinstance(damage.harm, str):
        if not database.execute(damage.harm) and not damage.harm.startswith(("DROP", "ALTER")):
            faults.append("the damage changed nothing")
    else:
        damage.harm(database)
    harmed = database.hashes()
    with open_engine(database) as engine:
        report = engine.check()
        found = tuple(sorted({finding.code for finding in report.findings}))
        if damage.code not in found:
            faults.append(f"not found; found {', '.join(found) or 'nothing'}")
        if database.hashes() != harmed:
            faults.append("the check changed something")
        faults += _repair(engine, damage)
        left = {finding.code for finding in engine.check().findings}
    after = database.hashes()
    if damage.verdict == "mended":
        if damage.code in left:
            faults.append("still there after the repair")
        faults += _differences(healthy, after, damage.touches, "what it was before the damage")
    else:
        if damage.code not in left:
            faults.append("it is gone although nothing could mend it")
        faults += _differences(harmed, after, damage.touches, "what was found")
    return Outcome(
        damage.title, damage.code, store, damage.verdict, found, time.monotonic() - began, tuple(faults)
    )


def _repair(engine: Engine, damage: Damage) -> list[str]:
    plan = engine.plan_repairs(engine.check())
    steps, refused = {step.code for step in plan.steps}, {finding.code for finding in plan.refused}
    copy = None if "://" in engine.store.location else engine.backup
    try:
        outcome, _ = engine.doctor.mend(engine.check, copy)
    except StoreError as error:
        return [] if damage.verdict == "refused" else [f"the repair ended in {error}"]
    results = [result for result in outcome.results if result.step.code == damage.code]
    failed = [result for result in results if result.failed or result.error]
    match damage.verdict:
        case "mended" if not results or failed:
            return [f"not mended: {[result.error or result.failed for result in failed] or 'no step'}"]
        case "left" if not failed and damage.code not in {step.code for step in outcome.left}:
            return ["neither left for a word of its own nor told as failed"]
        case "refused" if damage.code not in refused:
            return ["not refused in words"]
        case "remark" if damage.code in steps | refused:
            return ["a remark became work"]
    return []


def _differences(
    expected: dict[str, str], here: dict[str, str], touches: frozenset[str], what: str
) -> list[str]:
    tables = sorted(
        name
        for name in expected.keys() | here.keys()
        if name not in touches and expected.get(name) != here.get(name)
    )
    return [f"not {what}: {', '.join(tables)}"] if tables else []


def run(store: str, folder: Path, server: str = "", only: Sequence[str] = ()) -> Iterator[Outcome]:
    """All damages of one store."""
    grown = folder / "grown"
    grown.mkdir()
    make: Callable[[int], Database]
    if store == "sqlite":
        grow(str(grown / "lcm.db"))
        make = lambda number: SqliteDatabase(grown, folder / str(number))  # noqa: E731
    else:
        template = make_template(server)
        make = lambda number: PostgresDatabase(server, template, grown)  # noqa: E731
    for number, damage in enumerate(DAMAGES):
        if damage.only in ("", store) and (not only or damage.code in only):
            yield examine(make(number), damage, store)


def make_template(server: str) -> str:
    """Grows a database on a server, to be the template of all the others; returns its name."""
    import psycopg

    name = f"lcm_grown_{time.time_ns()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    grow(in_database(server, name))
    return name


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--postgres", default="", metavar="URL", help="A server where databases may be made.")
    parser.add_argument("--only", default="", help="Classes, separated by commas.")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logging.getLogger("lcm_plugin").setLevel(logging.CRITICAL)
    only = tuple(filter(None, options.only.split(",")))
    outcomes: list[Outcome] = []
    for store in ("sqlite", "postgres") if options.postgres else ("sqlite",):
        with tempfile.TemporaryDirectory(prefix="lcm-corruption-") as folder:
            for outcome in run(store, Path(folder), options.postgres, only):
                outcomes.append(outcome)
                if not options.json:
                    verdict = "; ".join(outcome.faults) or "as it should be"
                    print(
                        f"{store:9}{outcome.verdict:9}{outcome.damage:52}{outcome.seconds:6.2f} s  {verdict}"
                    )
    if options.json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], indent=2))
    sound = sum(not outcome.faults for outcome in outcomes)
    print(f"{sound} of {len(outcomes)} damages found and dealt with as they should be", file=sys.stderr)
    sys.exit(sound < len(outcomes))


if __name__ == "__main__":
    main()
