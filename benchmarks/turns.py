"""What a turn costs at 1k, 10k and 100k messages, beside a minimal sqlite3 floor in the same run.

    python benchmarks/turns.py [--sizes 1000,10000,100000] [--json] [--seed 1]

No model time: summaries come from a function that returns some 1,200 tokens at once. Times are CPU
milliseconds of the whole process, background threads included; medians, and means where all that a talk costs is
shared out among its messages. *Steady* is a conversation that was compacted as it grew, *backlog* one that was
imported and never compacted. An ingest is timed twice: in the thread that waits for it, beside a floor without an
index, and with its index to the end, beside a floor that has one. The marks are this project's aims, times the floor or
in milliseconds; a run says which hold and never hides one that does not.
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
from lcm_plugin.recall.catchup import index_all
from lcm_plugin.types import CompletionRequest, Turn

BUDGET = 128_000
CHUNK_TOKENS, TAIL = 20_000, 64
SAMPLES = 60


@dataclass(frozen=True, slots=True)
class Measure:
    """One piece of work at one size: ours, the most it may be, and the floor's; without one, the mark is milliseconds."""

    work: str
    messages: int
    ours_ms: float
    mark: float
    floor_ms: float | None = None

    @property
    def ratio(self) -> float | None:
        """How many times the floor."""
        return self.ours_ms / self.floor_ms if self.floor_ms else None

    @property
    def holds(self) -> bool:
        """Whether it is within the mark."""
        return (self.ours_ms if self.ratio is None else self.ratio) <= self.mark

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        rounded = {name: value and round(value, 3) for name, value in self._times().items()}
        return {**asdict(self), **rounded, "ok": self.holds}

    def _times(self) -> dict[str, float | None]:
        return {"ours_ms": self.ours_ms, "floor_ms": self.floor_ms, "ratio": self.ratio}


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
    """Both hooks, assemble and leaf pass of a conversation that was compacted as it grew."""
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
        talks = [talk(plugin, islice(six_messages(turns), SAMPLES), recall) for recall in (False, True)]
    idle = statistics.median(spent for spent, _ in quiet)
    leaf = statistics.median((spent - idle) / count for spent, count in busy)
    floor = steady_floor(folder, size, seed)
    (hooks, each), (quoting_hooks, quoting) = talks
    return [
        Measure("after-turn, 6 messages, nothing due", size, idle, 1.5, floor["after_turn"]),
        Measure("assemble 128k, after a new turn", size, statistics.median(assembling), 3, floor["assemble"]),
        Measure("leaf pass, steady", size, leaf, 3, floor["leaf"]),
        Measure("both hooks of a turn, without quotes", size, hooks, 3),
        Measure("both hooks of a turn, with quotes", size, quoting_hooks, 3),
        Measure("a message, everything in it, no quotes", size, each, 1.2),
        Measure("a message, everything in it, quotes", size, quoting, 1.2),
    ]


def talk(plugin: LcmPlugin, turns: Iterator[list[Message]], recall: bool) -> tuple[float, float]:
    """What both hooks of a turn cost, the median, and a message with all that goes on behind them, the mean."""
    session = Session("agent:bench:main")
    hooks, behind, messages = [], [], 0

    def play(turn: list[Message]) -> None:
        asked, said = (
            Turn(session, part, mode="append", window=BUDGET, recall=recall) for part in (turn[:1], turn[1:])
        )
        plugin.before_turn(asked)
        plugin.after_turn(said)

    for turn in turns:
        hooks.append(cpu(lambda turn=turn: play(turn)))
        behind.append(cpu(lambda: plugin.engine.wait_idle(60)))
        messages += len(turn)
    return statistics.median(hooks), (sum(hooks) + sum(behind)) / messages


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
        waited = time.thread_time()
        indexed = time.process_time()
        for batch in batches(rows, 100):
            engine.ingest(session, batch, mode="append")
        waited = (time.thread_time() - waited) * 1000
        engine.wait_idle(600)
        index_all(engine.store, engine.events)
        indexed = (time.process_time() - indexed) * 1000
        started = time.perf_counter()
        sweep = cpu(lambda: engine.compact(session, force=True, budget=BUDGET))
        sweep_wall = time.perf_counter() - started
        engine.wait_idle(600)
    floor = backlog_floor(folder, rows, seed)
    on_disk = sum(file.stat().st_size for file in folder.glob("backlog.db*"))
    figures = {
        "ingest_messages_per_cpu_s": round(size / waited * 1000),
        "ingest_messages_per_cpu_s_indexed": round(size / indexed * 1000),
        "sweep_wall_s": round(sweep_wall, 2),
        "sweep_mark_s": round(5 * size / 100_000, 3),
        "bytes_per_content_byte": round(on_disk / content, 2),
        "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    return [
        Measure("ingest in batches of 100, index apart", size, waited, 2, floor["waited"]),
        Measure("ingest in batches of 100, indexed", size, indexed, 2, floor["indexed"]),
        Measure("sweep of the whole backlog", size, sweep, 5, floor["sweep"]),
    ], figures


def backlog_floor(folder: Path, rows: Sequence[Message], seed: int) -> dict[str, float]:
    """The same three with the floor."""
    counter, summaries = TokenCounter(), Summaries(seed)
    with_index = Floor(folder / "floor-indexed.db", counter.text)
    without = Floor(folder / "floor-backlog.db", counter.text, indexed=False)

    def sweep() -> None:
        while without.leaf_pass(CHUNK_TOKENS, TAIL, lambda _: summaries.text()):
            pass

    def fill(floor: Floor) -> None:
        for batch in batches(rows, 100):
            floor.append(batch)

    spent = {
        "indexed": cpu(lambda: fill(with_index)),
        "waited": cpu(lambda: fill(without)),
        "sweep": cpu(sweep),
    }
    with_index.close()
    without.close()
    return spent


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
    print(f"{'work':<39}{'messages':>9}{'ours ms':>11}{'floor ms':>11}{'ratio':>7}{'mark':>9}")
    for measure in sorted(measures, key=lambda measure: (measure.work, measure.messages)):
        floor = "" if measure.floor_ms is None else f"{measure.floor_ms:.2f}"
        ratio, unit = (" ", " ms") if measure.ratio is None else (f"{measure.ratio:.1f}", "")
        print(
            f"{measure.work:<39}{measure.messages:>9,}{measure.ours_ms:>11.2f}{floor:>11}{ratio:>7}"
            f"{f'{measure.mark:.1f}{unit}':>9}{'' if measure.holds else '  over the mark'}"
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
