"""How fast histories come in, and in how much memory, at 10k, 50k and 100k messages.

    python benchmarks/importing.py [--sizes 10000,50000,100000] [--formats openai,claude-code,lossless-claw | all] [--json]
    python benchmarks/importing.py --formats all --sizes 100000 --sessions 250

Without ``--sessions`` all messages are one session. Formats without a writer of their own here, and all in several
sessions, are written by the generators of the importers' tests, in short messages with every record of the tool that is no
talk once in two thousand.

Each size is read in a process of its own, so that its peak memory is its own. CPU seconds of the process, without the
search index, which fills afterwards. The second run imports the same files again. *Floor* is the least that Python does
with the same files: each record is decoded and inserted as it is, in batches, into a table without an index. *Linear* says
that the rate at the largest size is at least 0.75 of that at the smallest; *flat* that the peak memory grows by less than
1.5 KB a message.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "interchange" / "importers"))

import any_talk

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.evaluation.corpus import Corpus, Message
from lcm_plugin.interchange.importers.importing import find_sources, load, survey_all
from lcm_plugin.interchange.importers.report import FileReport

LINEAR, FLAT_BYTES = 0.75, 1_500
START = 1_700_000_000


@dataclass(frozen=True, slots=True)
class Measure:
    """One import: rates are messages a CPU second, memory is the process's peak, ``again_rows`` what the second stored."""

    format: str
    messages: int
    sessions: int
    source_mb: float
    look_rate: float
    import_rate: float
    again_rate: float
    again_rows: int
    floor_rate: float
    start_mb: float
    peak_mb: float


def main() -> None:
    """Runs all and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="10000,50000,100000")
    parser.add_argument("--formats", default="openai,claude-code,lossless-claw")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--sessions", type=int, default=1, help="into how many sessions the messages are split"
    )
    parser.add_argument("--read", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        format_name, size, sessions, path = options.read
        print(json.dumps(asdict(measure(format_name, int(size), int(sessions), Path(path)))))
        return
    if options.formats == "all":
        options.formats = ",".join(any_talk.WRITERS if options.sessions > 1 else WRITERS)
    found = []
    for format_name in options.formats.split(","):
        for size in options.sizes.split(","):
            found.append(run(format_name, int(size), options.sessions))
            if not options.json:
                print_row(found[-1], head=len(found) == 1)
    if options.json:
        print(json.dumps([asdict(one) for one in found], indent=2))
        return
    for name in options.formats.split(","):
        sizes = [one for one in found if one.format == name]
        small, large = sizes[0], sizes[-1]
        if small is large:
            continue
        ratio = large.import_rate / small.import_rate
        grown = (large.peak_mb - small.peak_mb) * 1e6 / max(1, large.messages - small.messages)
        print(
            f"{name}: linear {'holds' if ratio >= LINEAR else 'MISSED'} ({ratio:.2f}), "
            f"flat {'holds' if grown < FLAT_BYTES else 'MISSED'} ({grown:,.0f} bytes a message)"
        )


def print_row(one: Measure, *, head: bool) -> None:
    """A line of the table, below its head."""
    if head:
        print(
            "format\tmessages\tsessions\tMB\tlook over/s\timport/s\tagain/s\tagain rows\tfloor/s\t"
            "times the floor\tRSS before MB\tpeak RSS MB"
        )
    print(
        f"{one.format}\t{one.messages:,}\t{one.sessions}\t{one.source_mb:.1f}\t{one.look_rate:,.0f}\t"
        f"{one.import_rate:,.0f}\t{one.again_rate:,.0f}\t{one.again_rows}\t"
        f"{one.floor_rate:,.0f}\t{one.floor_rate / one.import_rate:.1f}\t{one.start_mb:.0f}\t{one.peak_mb:.0f}",
        flush=True,
    )


def run(format_name: str, size: int, sessions: int) -> Measure:
    """Writes a source of that size and measures it in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="lcm-importing-") as folder:
        path = write(format_name, Path(folder), size, sessions)
        arguments = (format_name, str(size), str(sessions), str(path))
        done = subprocess.run(
            [sys.executable, __file__, "--read", *arguments], check=True, stdout=subprocess.PIPE, text=True
        )
    return Measure(**json.loads(done.stdout))


def write(format_name: str, folder: Path, size: int, sessions: int) -> Path:
    """A file with one session, or a folder with several."""
    if sessions == 1:
        return WRITERS[format_name](folder, size)
    for number in range(sessions):
        place = folder / f"{number:04d}"
        place.mkdir()
        generated(format_name, f"session-{number:04d}")(place, size // sessions)
    return folder


def measure(format_name: str, size: int, sessions: int, path: Path) -> Measure:
    """Looks the source over, imports it and imports it again."""
    sources, unknown = find_sources([str(path)])
    assert not unknown, unknown
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    with (
        tempfile.TemporaryDirectory(prefix="lcm-importing-") as folder,
        Engine.open(LcmConfig(database=str(Path(folder) / "lcm.db"))) as engine,
    ):
        engine.count_tokens("load the encoding")
        start = _peak_mb()
        look, surveyed = _timed(lambda: [report for _, report in survey_all(sources)])
        first, done = _timed(lambda: [load(engine, source) for source in sources])
        again, repeated = _timed(lambda: [load(engine, source) for source in sources])
        peak = _peak_mb()
    assert _new(done) >= size, _new(done)
    assert _new(surveyed) == _new(done)
    return Measure(
        format_name,
        size,
        sessions,
        sum(file.stat().st_size for file in files) / 1e6,
        size / look,
        size / first,
        size / again,
        _new(repeated),
        size / _floor(files),
        start,
        peak,
    )


def _floor(files: list[Path]) -> float:
    """CPU seconds of decoding all records of some files and inserting them as they are."""
    with tempfile.TemporaryDirectory(prefix="lcm-importing-") as folder:
        db = sqlite3.connect(Path(folder) / "plain.db")
        db.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, record TEXT)")
        began = time.process_time()
        for file in files:
            for batch in _batches(_plain_records(file)):
                with db:
                    db.executemany("INSERT INTO records (record) VALUES (?)", batch)
        spent = time.process_time() - began
        db.close()
    return spent


def _plain_records(path: Path) -> Iterator[object]:
    if path.suffix in (".db", ".sqlite", ".vscdb"):
        db = sqlite3.connect(path)
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            yield from db.execute(f'SELECT * FROM "{table}"')  # noqa: S608 - a name from the file written here
        db.close()
    elif path.suffix == ".jsonl":
        with path.open() as file:
            yield from map(json.loads, file)
    else:
        whole = json.loads(path.read_text())
        yield from whole if isinstance(whole, list) else [whole]


def _batches(records: Iterator[object], most: int = 500) -> Iterator[list[tuple[str]]]:
    while batch := [(json.dumps(record, default=str),) for record in islice(records, most)]:
        yield batch


def _new(reports: list[FileReport]) -> int:
    return sum(report.total("new") for report in reports)


def write_openai(folder: Path, size: int) -> Path:
    """A message a line."""
    path = folder / "talk.jsonl"
    with path.open("w") as file:
        for number, message in enumerate(Corpus().messages(size)):
            file.write(json.dumps({**message, "timestamp": START + number}) + "\n")
    return path


def write_claude_code(folder: Path, size: int) -> Path:
    """One long session with a turned-away branch every hundred messages and a compaction every thousand."""
    path = folder / "session.jsonl"
    parent: str | None = None
    with path.open("w") as file:
        for number, message in enumerate(Corpus().messages(size)):
            uuid = f"u{number:07d}"
            turned_away = number % 100 == 50
            summary = number % 1_000 == 999
            record = {
                "uuid": uuid,
                "parentUuid": parent,
                "sessionId": "session",
                "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(START + number)),
                "cwd": "/work",
                "gitBranch": "main",
                **_claude_record(message),
            }
            if summary:
                record |= {
                    "type": "user",
                    "isCompactSummary": True,
                    "message": {"role": "user", "content": f"Summary {number}: the work went on."},
                }
            if turned_away:
                record |= {"type": "user", "message": {"role": "user", "content": f"aside {number}"}}
            file.write(json.dumps(record) + "\n")
            parent = parent if turned_away else uuid
    return path


def _claude_record(message: Message) -> Message:
    if message["role"] == "tool":
        block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
        return {"type": "user", "message": {"role": "user", "content": [block]}}
    blocks = [{"type": "text", "text": message["content"]}]
    for call in message.get("tool_calls", ()):
        function = call["function"]
        block = {"type": "tool_use", "id": call["id"], "name": function["name"]}
        blocks.append({**block, "input": json.loads(function["arguments"])})
    return {"type": message["role"], "message": {"role": message["role"], "content": blocks}}


def write_codex(folder: Path, size: int) -> Path:
    """One rollout with an event for each item, and a turn that is rolled back every hundred messages."""
    path = folder / "rollout-2026-11-02T00-00-00-bench.jsonl"
    with path.open("w") as file:

        def write(number: int, kind: str, **payload: object) -> None:
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(START + number))
            file.write(json.dumps({"timestamp": at, "type": kind, "payload": payload}) + "\n")

        write(0, "session_meta", id="bench", cwd="/work")
        for number, message in enumerate(Corpus().messages(size)):
            if message["role"] == "tool":
                call = message["tool_call_id"]
                write(
                    number,
                    "response_item",
                    type="function_call_output",
                    call_id=call,
                    output=message["content"],
                )
                continue
            kind = "output_text" if message["role"] == "assistant" else "input_text"
            content = [{"type": kind, "text": message["content"]}]
            write(number, "response_item", type="message", role=message["role"], content=content)
            for call in message.get("tool_calls", ()):
                write(number, "response_item", type="function_call", call_id=call["id"], **call["function"])
            if message["role"] == "user":
                write(number, "event_msg", type="user_message", message=message["content"])
                if number % 100 < 10:
                    write(number, "event_msg", type="thread_rolled_back", num_turns=1)
    return path


def write_gemini_cli(folder: Path, size: int) -> Path:
    """One chat; each message comes a second time, as one that is written before its calls are known."""
    path = folder / "session-bench.jsonl"
    with path.open("w") as file:
        file.write(json.dumps({"sessionId": "bench", "projectHash": "h"}) + "\n")
        for number, message in enumerate(Corpus().messages(size)):
            own = {"id": f"m{number}", "timestamp": START + number, "content": message["content"]}
            kind = "gemini" if message["role"] == "assistant" else "user"
            for _ in range(2):
                file.write(json.dumps({**own, "type": kind}) + "\n")
    return path


def write_lossless_claw(folder: Path, size: int) -> Path:
    """A database with a leaf over every twenty messages and a condensed summary over every four leaves."""
    path = folder / "claw.db"
    db = sqlite3.connect(path)
    db.executescript(
        """
        CREATE TABLE conversations (conversation_id INTEGER PRIMARY KEY, session_id TEXT, session_key TEXT,
            active INTEGER, title TEXT, created_at TEXT);
        CREATE TABLE messages (message_id INTEGER PRIMARY KEY, conversation_id INTEGER, seq INTEGER, role TEXT,
            content TEXT, token_count INTEGER, transcript_entry_id TEXT, created_at TEXT);
        CREATE INDEX messages_seq ON messages (conversation_id, seq);
        CREATE TABLE message_parts (part_id INTEGER PRIMARY KEY, message_id INTEGER, ordinal INTEGER,
            part_type TEXT, text_content TEXT, metadata TEXT);
        CREATE INDEX parts_message ON message_parts (message_id);
        CREATE TABLE summaries (summary_id TEXT PRIMARY KEY, conversation_id INTEGER, kind TEXT, depth INTEGER,
            content TEXT, created_at TEXT);
        CREATE TABLE summary_messages (summary_id TEXT, message_id INTEGER, ordinal INTEGER,
            PRIMARY KEY (summary_id, message_id));
        CREATE TABLE summary_parents (summary_id TEXT, parent_summary_id TEXT, ordinal INTEGER,
            PRIMARY KEY (summary_id, parent_summary_id));
        INSERT INTO conversations VALUES (1, 'run', 'agent:main:bench', 1, NULL, '2026-01-01 00:00:00');
        """
    )
    at = "2026-01-01 00:00:00"
    for number, message in enumerate(Corpus().messages(size), 1):
        text = message["content"]
        row = (number, 1, number, message["role"], text, 1, f"e{number}", at)
        db.execute("INSERT INTO messages VALUES (?,?,?,?,?,?,?,?)", row)
        raw = {"raw": {"type": "text", "text": text}, "originalRole": message["role"]}
        db.execute(
            "INSERT INTO message_parts VALUES (?,?,0,'text',?,?)", (number, number, text, json.dumps(raw))
        )
        leaf = f"sum_{(number - 1) // 20:016x}"
        if number <= size - 100:
            db.execute("INSERT INTO summary_messages VALUES (?,?,?)", (leaf, number, number))
            if number % 20 == 0:
                _add_summary(db, leaf, "leaf", f"leaf up to {number}", at)
                group = f"sum_c{(number // 20 - 1) // 4:015x}"
                db.execute("INSERT INTO summary_parents VALUES (?,?,?)", (group, leaf, number))
                if number % 80 == 0:
                    _add_summary(db, group, "condensed", f"four leaves up to {number}", at)
    db.execute("DELETE FROM summary_messages WHERE summary_id NOT IN (SELECT summary_id FROM summaries)")
    db.execute("DELETE FROM summary_parents WHERE summary_id NOT IN (SELECT summary_id FROM summaries)")
    db.commit()
    db.close()
    return path


def _add_summary(db: sqlite3.Connection, summary_id: str, kind: str, text: str, at: str) -> None:
    db.execute("INSERT INTO summaries VALUES (?,1,?,0,?,?)", (summary_id, kind, text, at))


def generated(name: str, session: str = "session-bench") -> Callable[[Path, int], Path]:
    """A writer of short messages: questions, answers, calls with their results, and now and then all other records."""
    write_talk, keeps = any_talk.WRITERS[name]
    calls = keeps.get("calls", True)

    def written(folder: Path, size: int) -> Path:
        turn: list[any_talk.Kind] = ["user", "call", "answer"] if calls else ["user", "answer"]
        talk = turn * (size // (4 if calls else 2) + 1)
        for place in range(min(1_000, len(talk) // 2), len(talk), 2_000):
            talk[place:place] = ["record"]
        return write_talk(folder, session, talk)

    return written


WRITERS: dict[str, Callable[[Path, int], Path]] = {name: generated(name) for name in any_talk.WRITERS} | {
    "openai": write_openai,
    "claude-code": write_claude_code,
    "codex": write_codex,
    "gemini-cli": write_gemini_cli,
    "lossless-claw": write_lossless_claw,
}


def _timed(work: Callable[[], list[FileReport]]) -> tuple[float, list[FileReport]]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
