"""What a turn costs at 1k, 10k and 100k messages, beside a minimal sqlite3 floor in the same run.

    python benchmarks/turns.py [--sizes 1000,10000,100000] [--json] [--seed 1]

No model time: summaries come from a function that returns some 1,200 tokens at once. Times are CPU
milliseconds of the whole process, background threads included; medians. *Steady* is a conversation that
was compacted as it grew, *backlog* one that was imported and never compacted. The marks are this project's
aims; a run says which hold and never hides one that does not.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from floor import Floor

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.evaluation.corpus import Corpus, Message
from lcm_plugin.events import Event
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import CompletionRequest, Turn

BUDGET = 128_000
CHUNK_TOKENS, TAIL = 20_000, 64
SAMPLES = 60


@dataclass(frozen=True, slots=True)
class Measure:
    """One piece of work at one size: ours, the floor's, and the most it may be (times the floor)."""

    work: str
    messages: int
    ours_ms: float
    floor_ms: float
    mark: float

    @property
    def ratio(self) -> float:
        """How many times the floor."""
        return self.ours_ms / self.floor_ms if self.floor_ms else float("inf")

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        numbers = {"ratio": round(self.ratio, 2), "ok": self.ratio <= self.mark}
        return {
            **asdict(self),
            "ours_ms": round(self.ours_ms, 3),
            "floor_ms": round(self.floor_ms, 3),
        } | numbers


class Summaries:
    """A completer that answers at once, with another text each time."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._sentences = Corpus(seed).sentences()
        self.calls = 0

    def __call__(self, request: CompletionRequest) -> str:
        self.calls += 1
        return self.text()

    def text(self) -> str:
        """Some 1,200 tokens."""
        return " ".join(self._rng.choices(self._sentences, k=70))


class Passes:
    """Counts the compaction passes that the engine tells about."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, event: Event) -> None:
        self.count += event.name == "compaction.pass"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logging.getLogger("lcm_plugin").addHandler(logging.NullHandler())
    measures: list[Measure] = []
    extra: dict[str, Any] = {}
    for size in map(int, options.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="lcm-bench-") as folder:
            measures += steady(Path(folder), size, options.seed)
            found, figures = backlog(Path(folder), size, options.seed)
            measures += found
            extra[str(size)] = figures
    if options.json:
        print(json.dumps({"measures": [measure.as_dict() for measure in measures], "sizes": extra}, indent=2))
    else:
        show(measures, extra)


def steady(folder: Path, size: int, seed: int) -> list[Measure]:
    """After-turn, assemble and leaf pass of a conversation that was compacted as it grew."""
    config = LcmConfig(database=str(folder / "steady.db"), **_FREE_CALLS)
    passes, session = Passes(), Session("agent:bench:main")
    with Engine.open(config, completer=Summaries(seed)) as engine:
        plugin = LcmPlugin(engine=engine)
        turns = Corpus(seed).turns()

        def after_turn(messages: Sequence[Message]) -> None:
            plugin.after_turn(Turn(session, messages, mode="append", window=BUDGET))
            engine.wait_idle(60)

        feed(turns, size, after_turn)
        engine.events.subscribe(passes)
        quiet, busy = [], []
        for messages in islice(six_messages(turns), SAMPLES):
            before = passes.count
            spent = cpu(lambda messages=messages: after_turn(messages))
            (quiet if passes.count == before else busy).append((spent, passes.count - before))
        assembling = []
        for messages in islice(six_messages(turns), 15):
            after_turn(messages)
            assembling.append(cpu(lambda: engine.assemble(session, BUDGET)))
    idle = statistics.median(spent for spent, _ in quiet)
    leaf = statistics.median((spent - idle) / count for spent, count in busy)
    floor = steady_floor(folder, size, seed)
    return [
        Measure("after-turn, 6 messages, nothing due", size, idle, floor["after_turn"], 1.5),
        Measure("assemble 128k, after a new turn", size, statistics.median(assembling), floor["assemble"], 3),
        Measure("leaf pass, steady", size, leaf, floor["leaf"], 3),
    ]


def steady_floor(folder: Path, size: int, seed: int) -> dict[str, float]:
    """The same three with the floor."""
    counter, summaries = TokenCounter(), Summaries(seed)
    floor = Floor(folder / "floor.db", counter.text)
    turns = Corpus(seed).turns()
    since = 0

    def after_turn(messages: Sequence[Message]) -> None:
        nonlocal since
        floor.append(messages)
        since += len(messages)
        if since >= 56:
            floor.leaf_pass(CHUNK_TOKENS, TAIL, lambda _: summaries.text())
            since = 0

    feed(turns, size, after_turn)
    adding = [cpu(lambda m=messages: floor.append(m)) for messages in islice(six_messages(turns), SAMPLES)]
    passes = [cpu(lambda: floor.leaf_pass(CHUNK_TOKENS, TAIL, lambda _: summaries.text())) for _ in range(4)]
    assembling = [cpu(lambda: floor.assemble(BUDGET)) for _ in range(15)]
    floor.close()
    medians = map(statistics.median, (adding, assembling, passes))
    return dict(zip(("after_turn", "assemble", "leaf"), medians, strict=True))


def backlog(folder: Path, size: int, seed: int) -> tuple[list[Measure], dict[str, Any]]:
    """Ingest in batches, then one sweep over everything; with sizes on disk and in memory."""
    rows = list(Corpus(seed).messages(size))
    content = sum(len(json.dumps(row, ensure_ascii=False).encode()) for row in rows)
    place = folder / "backlog.db"
    config = LcmConfig(database=str(place), max_sweep_passes=1_000_000, **_FREE_CALLS)
    session = Session("agent:bench:main")
    with Engine.open(config, completer=Summaries(seed)) as engine:
        ingest = cpu(lambda: [engine.ingest(session, batch, mode="append") for batch in batches(rows, 100)])
        started = time.perf_counter()
        sweep = cpu(lambda: engine.compact(session, force=True, budget=BUDGET))
        sweep_wall = time.perf_counter() - started
        engine.wait_idle(600)
    floor_ingest, floor_sweep = backlog_floor(folder, rows, seed)
    on_disk = sum(file.stat().st_size for file in folder.glob("backlog.db*"))
    figures = {
        "ingest_messages_per_cpu_s": round(size / ingest * 1000),
        "sweep_wall_s": round(sweep_wall, 2),
        "sweep_mark_s": round(5 * size / 100_000, 3),
        "bytes_per_content_byte": round(on_disk / content, 2),
        "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    return [
        Measure("ingest in batches of 100", size, ingest, floor_ingest, 2),
        Measure("sweep of the whole backlog", size, sweep, floor_sweep, 5),
    ], figures


def backlog_floor(folder: Path, rows: Sequence[Message], seed: int) -> tuple[float, float]:
    """The same two with the floor; without an index at ingest, since ours is filled later."""
    counter, summaries = TokenCounter(), Summaries(seed)
    floor = Floor(folder / "floor-backlog.db", counter.text, indexed=False)

    def sweep() -> None:
        while floor.leaf_pass(CHUNK_TOKENS, TAIL, lambda _: summaries.text()):
            pass

    ingest = cpu(lambda: [floor.append(batch) for batch in batches(rows, 100)])
    spent = cpu(sweep)
    floor.close()
    return ingest, spent


def feed(turns: Iterator[list[Message]], size: int, after_turn: Callable[[Sequence[Message]], None]) -> None:
    """Plays turns until ``size`` messages are stored."""
    stored = 0
    while stored < size:
        messages = next(turns)
        after_turn(messages)
        stored += len(messages)


def six_messages(turns: Iterator[list[Message]]) -> Iterator[list[Message]]:
    """Only the turns of six messages: a request, two calls with results, an answer."""
    return (turn for turn in turns if len(turn) == 6)


def batches(rows: Sequence[Message], count: int) -> Iterator[Sequence[Message]]:
    """The rows in slices."""
    return (rows[start : start + count] for start in range(0, len(rows), count))


def cpu(work: Callable[[], object]) -> float:
    """CPU milliseconds of the process while it does some work."""
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1000


def show(measures: Sequence[Measure], extra: dict[str, Any]) -> None:
    """The figures as a table."""
    print(f"{'work':<38}{'messages':>9}{'ours ms':>11}{'floor ms':>11}{'ratio':>7}{'mark':>7}")
    for measure in sorted(measures, key=lambda measure: (measure.work, measure.messages)):
        verdict = "" if measure.ratio <= measure.mark else "  over the mark"
        print(
            f"{measure.work:<38}{measure.messages:>9,}{measure.ours_ms:>11.2f}{measure.floor_ms:>11.2f}"
            f"{measure.ratio:>7.1f}{measure.mark:>7.1f}{verdict}"
        )
    for size, figures in extra.items():
        print(f"{int(size):,} messages: " + ", ".join(f"{name} {value}" for name, value in figures.items()))


# The guards against a runaway bill would stop a benchmark that makes thousands of calls in seconds.
_FREE_CALLS: dict[str, Any] = {
    "summary_max_calls_per_window": 10_000_000,
    "summary_max_tokens_per_window": 1_000_000_000_000,
    "sweep_deadline_ms": 3_600_000,
}

if __name__ == "__main__":
    main()
