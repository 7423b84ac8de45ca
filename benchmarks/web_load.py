"""How long every page and every address of ``lcm web`` takes over a large database.

    python benchmarks/web_load.py --database load.db [--messages 1000000] [--sessions 500] [--long 100000] [--json]

A database that is not there is filled first, from a seed: one talk of ``--long`` messages and the others of equal
length, their texts cut to `CHARACTERS` characters, some compacted, all indexed for search. A PostgreSQL URL whose
schema is empty is filled the same way. Then each address is asked, through the whole application and without a
network: wall milliseconds of the first time, the median and the worst of five more, and the median of their CPU time,
which other work on the machine does not lengthen. Exits with 1 when a median of the wall is above ``--limit``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from typing import Any

from starlette.testclient import TestClient

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.evaluation.corpus import Corpus
from lcm_plugin.recall.catchup import index_all
from lcm_plugin.store.protocol import iterate_conversations
from lcm_plugin.web.app import create_app
from lcm_plugin.web.server import hosts_of
from lcm_plugin.web.site import Site

RARE, COMMON, ABSENT = "zebrafish", "ordinary", "qwertzuiop"
CHARACTERS = 240
BUDGET = 128_000
REPEATS = 5
_PORT = 8765
_TOKEN = "load"
_BATCH = 1_000
_TURNS = 2_000
_COMPACTED_EVERY = 5
_AT_ONCE = 10_000
_START, _STEP = 1_750_000_000_000, 1_500
_WHOLE = {"recall_scope": "all", "ignore_session_patterns": []}


@dataclass(frozen=True, slots=True)
class Timing:
    """What one address took, in milliseconds of the clock and of CPU, and how many bytes it answered with."""

    path: str
    first: float
    median: float
    worst: float
    cpu: float
    size: int


class _Clock:
    """A time that goes on with each look at it, so that talk is spread over months."""

    def __init__(self) -> None:
        self._now = _START

    def __call__(self) -> int:
        self._now += _STEP
        return self._now


def build(engine: Engine, messages: int, sessions: int, long: int) -> None:
    """Stores the talk of all sessions, compacts every fifth and the long one, and indexes everything."""
    corpus = _texts()
    each = (messages - long) // max(1, sessions - 1)
    for number in range(sessions):
        session = Session(f"agent:main:load-{number:04d}", "run-1")
        count = long if number == sessions // 2 else each
        compacted = count == long or number % _COMPACTED_EVERY == 0
        for start in range(0, count, _AT_ONCE):
            for at in range(start, min(start + _AT_ONCE, count), _BATCH):
                engine.ingest(session, list(islice(corpus, min(_BATCH, count - at))), "all")
            if compacted:
                engine.compact(session, budget=BUDGET)
        print(f"{number + 1}/{sessions}", end="\r", file=sys.stderr, flush=True)
    index_all(engine.store, engine.events)


def measure(engine: Engine, only: str = "") -> list[Timing]:
    """Asks every address that holds ``only``."""
    site = Site(engine, _TOKEN, write=False)
    app = create_app(site, hosts_of(_PORT))
    # As the server does once it is started.
    app.state.pages.warm()
    client = TestClient(app, base_url=f"http://127.0.0.1:{_PORT}")
    client.get(f"/?token={_TOKEN}")
    return [_timed(client, *one) for one in _addresses(engine) if only in one[0]]


def _texts() -> Iterator[dict[str, Any]]:
    """Messages, calls with their results; the rare word in every 2,000th, the common one in 46 %."""
    pool = [
        [message | {"content": (message.get("content") or "")[:CHARACTERS]} for message in turn]
        for turn in islice(Corpus().turns(), _TURNS)
    ]
    number = 0
    for turn in cycle(pool):
        for message in turn:
            number += 1
            words = [COMMON] if number * 46 % 100 < 46 else []
            words += [RARE] if number % 2_000 == 7 else []
            yield message | {"content": " ".join([f"{number}:", message["content"], *words])}


def _addresses(engine: Engine) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Each page and address of the API, over the long talk and the whole database; with the body of a POST."""
    with engine.store.read() as reader:
        rows = list(iterate_conversations(reader))
        row = max(rows, key=lambda one: one.message_count)
        number, last = row.conversation_id, row.next_seq - 1
        middle = reader.heads(number, before_seq=last // 2, limit=1)[0].ref
        found = reader.list_summaries(number, limit=1, depth=max(reader.summary_counts(number), default=0))
        top = found[0].summary_id if found else ""
    talk, api = f"/talk/{number}", f"/api/sessions/{number}"
    pages = [
        "/",
        "/?page=5",
        "/?text=load-04",
        "/?text=connection",
        "/?sort=title",
        "/?sort=messages",
        "/?state=archived",
    ]
    pages += [
        talk,
        f"{talk}?at={middle}",
        f"{talk}/rows?after={last // 2}",
        f"{talk}/rows?after={last // 2}&hidden=true",
    ]
    pages += [f"/at/{middle}", f"/message/{middle}", f"/context/{number}", f"/context/{number}?why={middle}"]
    pages += [f"/tree/{number}", "/health", f"/health/check?session={number}"]
    queries = (RARE, COMMON, ABSENT, f'"{COMMON} {RARE}"', "the server connection", middle)
    pages += [f"/search?q={query}" for query in queries]
    pages += [
        f"/search?q={RARE}&sort=recency",
        f"/search?q={COMMON}&sort=recency",
        f"/search?q={COMMON}&month=2025-06",
    ]
    pages += [
        f"/search?q={COMMON}&session={number}",
        f"/search?q={COMMON}&role=user",
        f"/search?q={RARE}.*&regex=true",
    ]
    if top:
        pages += [f"/summary/{top}", f"/tree/below/{top}", f"/api/summaries/{top}"]
    pages += ["/api/sessions", api, f"{api}/messages?after={last // 2}", f"{api}/summaries", f"{api}/context"]
    pages += [f"{api}/next-call", f"{api}/tree", f"{api}/actions", f"/api/messages/{middle}"]
    pages += [f"/api/search?q={COMMON}", "/api/health"]
    yield from ((page, None) for page in pages)
    for name, arguments in (
        ("grep", {"pattern": RARE}),
        ("grep", {"pattern": COMMON, "session": str(number)}),
        ("describe", {"id": middle, "session": str(number)}),
        *(
            [("describe", {"id": top}), ("expand", {"summary_ids": [top], "session": str(number)})]
            if top
            else []
        ),
        ("integrity/run", {"session": str(number), "wait": False}),
    ):
        yield f"/api/{name}", arguments


def _timed(client: TestClient, path: str, body: dict[str, Any] | None) -> Timing:
    times, work, size = [], [], 0
    for _ in range(1 + REPEATS):
        started, begun = time.perf_counter(), time.process_time()
        headers = {"Authorization": f"Bearer {_TOKEN}"}
        answer = client.get(path) if body is None else client.post(path, json=body, headers=headers)
        times.append(1_000 * (time.perf_counter() - started))
        work.append(1_000 * (time.process_time() - begun))
        size = len(answer.content)
        if answer.status_code not in (200, 202):
            raise SystemExit(f"{path} {body}: {answer.status_code} {answer.text[:300]}")
    first, *more = times
    label = path if body is None else f"POST {path} {json.dumps(body)}"
    return Timing(label, first, statistics.median(more), max(more), statistics.median(work[1:]), size)


def _report(found: Sequence[Timing]) -> None:
    print(f"{'first':>8} {'median':>8} {'worst':>8} {'cpu':>8} {'bytes':>9}  address")
    for one in found:
        print(f"{one.first:8.0f} {one.median:8.0f} {one.worst:8.0f} {one.cpu:8.0f} {one.size:9,}  {one.path}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", required=True)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--long", type=int, default=100_000)
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--only", default="", help="only addresses that hold this")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    config = LcmConfig(database=options.database, **_WHOLE)
    with Engine.open(config, clock=_Clock()) as engine:
        with engine.store.read() as reader:
            empty = next(iterate_conversations(reader), None) is None
        if empty:
            started = time.process_time()
            build(engine, options.messages, options.sessions, options.long)
            print(f"filled in {time.process_time() - started:.0f} s of CPU", file=sys.stderr)
    with Engine.open(config, read_only=True) as engine:
        found = measure(engine, options.only)
    if options.json:
        print(json.dumps([asdict(one) for one in found]))
    else:
        _report(found)
    if any(one.median > options.limit for one in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
