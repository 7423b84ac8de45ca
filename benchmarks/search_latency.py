"""How long searches take in a large history.

    python benchmarks/search_latency.py [--messages 100000] [--database PATH] [--tool] [--json]

A seeded corpus (`corpus.py`) is stored as one session and indexed; some rows get a rare word, nearly half
a common one. Times are CPU milliseconds, median and worst of seven. *floor* is the least that SQLite needs
for the same hits: the same FTS5 table asked directly, for a regex a scan with Python's ``re``. Without
``--tool`` it is the search itself that is timed, as the services call it; with it the whole answer of
``lcm_grep`` with snippets and the turns round each hit. A database that is named is kept and used again.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.evaluation.corpus import Corpus
from lcm_plugin.recall.catchup import index_all
from lcm_plugin.recall.query import parse_query
from lcm_plugin.recall.regex import RegexSearch
from lcm_plugin.recall.textsearch import TextSearch
from lcm_plugin.store.search import Filter

SESSION = Session("agent:bench:main")
RARE, COMMON, ABSENT = "zebrafish", "ordinary", "qwertzuiop"
REPEATS = 7
ROWS = Filter((1,))


def build(engine: Engine, count: int) -> None:
    """Stores the corpus, the rare word in every 2,000th message and the common one in 46 %."""
    batch: list[dict[str, Any]] = []
    for number, message in enumerate(Corpus().messages(count), 1):
        words = [COMMON] if number * 46 % 100 < 46 else []
        words += [RARE] if number % 2_000 == 7 else []
        if isinstance(message.get("content"), str) and words:
            message = message | {"content": f"{message['content']} {' '.join(words)}"}
        batch.append(message)
        if len(batch) == 1_000:
            engine.ingest(SESSION, batch)
            batch = []
    if batch:
        engine.ingest(SESSION, batch)


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """CPU milliseconds: the median and the worst of seven runs, after one to warm up."""
    work()
    times = []
    for _ in range(REPEATS):
        started = time.process_time()
        work()
        times.append((time.process_time() - started) * 1_000)
    return round(statistics.median(times), 2), round(max(times), 2)


def fts(database: sqlite3.Connection, word: str, order: str) -> Callable[[], object]:
    """The same index asked directly."""
    sql = (
        "SELECT rowid, rank FROM messages_fts WHERE messages_fts MATCH ? ORDER BY rank LIMIT 50"
        if order == "rank"
        else "SELECT rowid FROM messages_fts WHERE messages_fts MATCH ? ORDER BY rowid DESC LIMIT 50"
    )
    return lambda: database.execute(sql, (f"text : {word}",)).fetchall()


def scan(database: sqlite3.Connection, pattern: str) -> Callable[[], object]:
    """Every text through Python's ``re``."""
    search = re.compile(pattern).search
    return lambda: [
        row[0] for row in database.execute("SELECT message_id, text FROM message_parts") if search(row[1])
    ]


def cases(
    engine: Engine, database: sqlite3.Connection, whole: bool
) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Name of each search: the search, and its floor."""

    def tool(**arguments: Any) -> Callable[[], object]:
        return lambda: engine.call_tool(SESSION, "lcm_grep", arguments)

    def words(pattern: str, sort: str = "relevance") -> Callable[[], object]:
        if whole:
            return tool(pattern=pattern, sort=sort)

        def search() -> object:
            with engine.store.read() as reader:
                found = TextSearch(reader, "message", parse_query(pattern), ROWS)
                return found.by_recency(50) if sort == "recency" else found.by_relevance(50)

        return search

    def regex(pattern: str) -> Callable[[], object]:
        if whole:
            return tool(pattern=pattern, mode="regex")

        def search() -> object:
            with engine.store.read() as reader:
                return RegexSearch(pattern, 60.0).rows(reader, "message", ROWS, 50)

        return search

    def floor_of(word: str, order: str) -> Callable[[], object]:
        return fts(database, word, order)

    return {
        "rare word": (words(RARE), floor_of(RARE, "rank")),
        "no hit": (words(ABSENT), floor_of(ABSENT, "rank")),
        "common word, newest": (words(COMMON, "recency"), floor_of(COMMON, "newest")),
        "common word, by rank": (words(COMMON), floor_of(COMMON, "rank")),
        "question": (
            words(f"Where did the {RARE} and the {ABSENT} meet?"),
            floor_of(f"({RARE} OR {ABSENT} OR meet)", "rank"),
        ),
        "regex with a rare literal": (regex(rf"{RARE}\b"), scan(database, rf"{RARE}\b")),
        "regex with an absent literal": (regex(rf"{ABSENT}\d"), scan(database, rf"{ABSENT}\d")),
        "regex with a common literal": (regex(rf"{COMMON}$"), lambda: None),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--database", type=Path)
    parser.add_argument("--tool", action="store_true", help="time the whole answer of lcm_grep")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.database or Path(folder) / "lcm.db"
        fresh = not path.exists()
        with Engine.open(LcmConfig(database=str(path), large_file_token_threshold=1_000_000)) as engine:
            if fresh:
                build(engine, arguments.messages)
            started = time.process_time()
            rows = index_all(engine.store, engine.events)
            index_seconds = time.process_time() - started
            database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
            content = database.execute(
                "SELECT sum(length(CAST(text AS BLOB))) FROM message_parts"
            ).fetchone()[0]
            table = {
                name: {"ms": timed(ours), "floor": timed(floor)[0]}
                for name, (ours, floor) in cases(engine, database, arguments.tool).items()
            }
            report = {
                "messages": database.execute("SELECT max(message_id) FROM messages").fetchone()[0],
                "searches": table,
                "indexed_per_cpu_second": round(rows / index_seconds) if rows else None,
                "database_bytes_per_content_byte": round(path.stat().st_size / content, 2),
                "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
            database.close()
    if arguments.json:
        print(json.dumps(report, indent=1))
        return
    print(f"{report['messages']} messages; CPU ms: median, worst, floor")
    for name, row in table.items():
        print(f"{name:32} {row['ms'][0]:10.2f} {row['ms'][1]:10.2f} {row['floor']:10.2f}")
    for name in ("indexed_per_cpu_second", "database_bytes_per_content_byte", "peak_memory_mb"):
        print(f"{name.replace('_', ' '):36} {report[name]}")


if __name__ == "__main__":
    main()
