"""What turns and searches cost on PostgreSQL at 1k, 100k and 1M messages, beside a floor of plain psycopg.

    python benchmarks/postgres.py [--sizes 1000,100000,1000000] [--url postgresql://…] [--turns 120] [--json]

Without ``--url`` it starts a server of its own, without fsync, as the tests do. Ours and the floor take turns, so that
what else the machine does meets both. Wall times are milliseconds, CPU is that of the client process; the median
unless said otherwise. No model time: summaries come at once. The marks are this project's aims, times the floor; a
regular expression has one of its own, in milliseconds. A run says which hold and never hides one that does not.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))

from postgres_floor import PostgresFloor, open_floor
from postgres_history import ABSENT, COMMON, KEY, RARE, fill_floor, fill_store, texts
from postgres_server import running_server
from turns import Passes, Summaries, six_messages

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.evaluation.corpus import Corpus
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.recall.query import parse_query
from lcm_plugin.recall.regex import RegexSearch
from lcm_plugin.recall.scope import LeftOut
from lcm_plugin.recall.textsearch import TextSearch
from lcm_plugin.store.search import Filter
from lcm_plugin.types import Turn

BUDGET = 128_000
SESSION = Session(KEY, "run")
REPEATS = 7
REGEX_MS = 20.0
# Schemas that --keep finds with another comment lack a row, and are made anew.
_READY = "a history for a benchmark, counted"


@dataclass(frozen=True, slots=True)
class Measure:
    """One piece of work at one size; ``mark`` is times the floor, or with ``in_ms`` milliseconds."""

    work: str
    messages: int
    wall_ms: float
    p95_ms: float
    p99_ms: float
    cpu_ms: float
    floor_wall_ms: float
    floor_cpu_ms: float
    mark: float
    in_ms: bool = False

    @property
    def ratio(self) -> float:
        """Wall time in times the floor's."""
        return self.wall_ms / self.floor_wall_ms

    @property
    def holds(self) -> bool:
        """Whether the mark is held."""
        return (self.wall_ms if self.in_ms else self.ratio) <= self.mark


@dataclass(slots=True)
class Times:
    """Wall and CPU milliseconds of one kind of work."""

    wall: list[float]
    cpu: list[float]

    def add(self, work: Callable[[], object], after: Callable[[], object] = lambda: None) -> None:
        """Times some work; the CPU time includes what comes ``after`` it in the background."""
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        self.wall.append((time.perf_counter() - wall) * 1_000)
        after()
        self.cpu.append((time.process_time() - cpu) * 1_000)

    def share(self, percent: int) -> float:
        """A percentile of the wall times."""
        ordered = sorted(self.wall)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def main() -> None:
    """Runs all and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1000,100000,1000000")
    parser.add_argument("--url", help="a server to use; schemas named bench_… are made anew in it")
    parser.add_argument("--turns", type=int, default=120)
    parser.add_argument("--characters", type=int, default=400, help="length of the texts of the history")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", action="store_true", help="use the schemas that are there, and leave them")
    options = parser.parse_args()
    logging.getLogger("lcm_plugin").addHandler(logging.NullHandler())
    measures: list[Measure] = []
    with nullcontext(options.url) if options.url else running_server() as url:
        for size in map(int, options.sizes.split(",")):
            measures += measure(url, size, options)
            if not options.json:
                show([one for one in measures if one.messages == size])
    if options.json:
        rows = [asdict(one) | {"ratio": one.ratio, "holds": one.holds} for one in measures]
        print(json.dumps(rows, indent=1))
    elif "," in options.sizes:
        show(measures)


def measure(url: str, size: int, options: argparse.Namespace) -> list[Measure]:
    """Turns and searches in a history of one size."""
    ours, floors = f"bench_{size}", f"bench_{size}_floor"
    if not (options.keep and _is_ready(url, ours)):
        build(url, size, options)
    config = LcmConfig(
        database=f"{url}{'&' if '?' in url else '?'}schema={ours}",
        summary_max_calls_per_window=10_000_000,
        summary_max_tokens_per_window=1_000_000_000_000,
    )
    counter = TokenCounter()
    with (
        open_floor(url, floors) as connection,
        Engine.open(config, completer=Summaries(options.seed)) as engine,
    ):
        floor = PostgresFloor(connection, counter.text)
        found = searches(engine, floor, size)
        return turns(engine, floor, size, options) + found


def build(url: str, size: int, options: argparse.Namespace) -> None:
    """Makes both histories, side by side."""
    began = time.monotonic()
    ours, floors = f"bench_{size}", f"bench_{size}_floor"
    with open_floor(url, "public") as connection:
        for schema in (ours, floors):
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())

    rows = list(texts(size, options.characters, options.seed))

    def messages() -> Iterator[dict[str, Any]]:
        return iter(rows)

    other = threading.Thread(target=lambda: _fill_floor(url, floors, messages, size, options.seed))
    other.start()
    fill_store(url, ours, messages, size, options.seed)
    other.join()
    with open_floor(url, "public") as connection:
        connection.execute(f"COMMENT ON SCHEMA {ours} IS '{_READY}'".encode())
    print(f"{size:,} messages were loaded in {time.monotonic() - began:.0f} s", file=sys.stderr)


def turns(engine: Engine, floor: PostgresFloor, size: int, options: argparse.Namespace) -> list[Measure]:
    """Before-turn and after-turn of turns with six messages, those of a compaction counted in the percentiles only."""
    plugin, passes = LcmPlugin(engine=engine), Passes()
    engine.subscribe(passes)
    kinds = ("before", "after", "busy", "floor before", "floor after")
    times = {name: Times([], []) for name in kinds}
    for number, turn in enumerate(islice(six_messages(Corpus(options.seed + 1).turns()), options.turns + 10)):
        asked, rest = turn[:1], turn[1:]
        before, count = Times([], []), passes.count
        before.add(
            lambda asked=asked: plugin.before_turn(Turn(SESSION, asked, mode="append", window=BUDGET)),
            lambda: engine.wait_idle(60),
        )
        after = Times([], [])
        after.add(
            lambda rest=rest: plugin.after_turn(Turn(SESSION, rest, mode="append", window=BUDGET)),
            lambda: engine.wait_idle(60),
        )
        floors = Times([], []), Times([], [])
        floors[0].add(lambda asked=asked: (floor.append(asked), floor.assemble(BUDGET)))
        floors[1].add(lambda rest=rest: floor.append(rest))
        if number < 10:
            continue
        done = "busy" if passes.count > count else "after"
        for name, one in (
            ("before", before),
            (done, after),
            ("floor before", floors[0]),
            ("floor after", floors[1]),
        ):
            times[name].wall += one.wall
            times[name].cpu += one.cpu
    return [
        _measure("before_turn: 1 message, context", size, times["before"], times["floor before"], 3.0),
        _measure("after_turn: 5 messages", size, times["after"], times["floor after"], 1.5),
    ]


def searches(engine: Engine, floor: PostgresFloor, size: int) -> list[Measure]:
    """The search itself, as the services call it."""
    here, everywhere = Filter((1,)), Filter(None)

    def words(pattern: str, rows: Filter = here, *, newest: bool = False) -> Callable[[], object]:
        def search() -> object:
            with engine.store.read() as reader:
                found = TextSearch(reader, "message", parse_query(pattern), rows)
                return found.by_recency(50) if newest else found.by_relevance(50)

        return search

    def regex(pattern: str) -> Callable[[], object]:
        def search() -> object:
            with engine.store.read() as reader:
                return RegexSearch(pattern, 60.0).rows(
                    reader, "message", here, 50, LeftOut(recall_answers=False)
                )

        return search

    question = f"Where did the {RARE} and the {ABSENT} meet?"
    cases: list[tuple[str, Callable[[], object], Callable[[], object], float, bool]] = [
        ("rare word", words(RARE), lambda: floor.words(RARE), 2.0, False),
        ("rare word, all conversations", words(RARE, everywhere), lambda: floor.words(RARE), 2.0, False),
        ("no hit", words(ABSENT), lambda: floor.words(ABSENT), 2.0, False),
        ("phrase", words(f'"{RARE} swims"'), lambda: floor.words(f"{RARE} <-> swims"), 2.0, False),
        ("question", words(question), lambda: floor.words(f"{RARE} | {ABSENT} | meet"), 2.0, False),
        (
            "common word, newest",
            words(COMMON, newest=True),
            lambda: floor.words(COMMON, newest=True),
            1.5,
            False,
        ),
        ("common word, by rank", words(COMMON), lambda: floor.words(COMMON), 1.5, False),
        ("regex, rare literal", regex(rf"{RARE}\b"), lambda: floor.regex(rf"{RARE}\y"), REGEX_MS, True),
        ("regex, absent literal", regex(rf"{ABSENT}\d"), lambda: floor.regex(rf"{ABSENT}\d"), REGEX_MS, True),
        ("regex, common literal", regex(rf"{COMMON}$"), lambda: floor.regex(rf"{COMMON}$"), REGEX_MS, True),
    ]
    measures = []
    for name, ours, plain, mark, in_ms in cases:
        times, floors = Times([], []), Times([], [])
        ours()
        plain()
        slow = 0.0
        for _ in range(REPEATS):
            times.add(ours)
            floors.add(plain)
            slow = max(slow, times.wall[-1], floors.wall[-1])
            if slow > 2_000 and len(times.wall) == 3:
                break
        measures.append(_measure(f"search: {name}", size, times, floors, mark, in_ms=in_ms))
    return measures


def _measure(work: str, size: int, ours: Times, floor: Times, mark: float, *, in_ms: bool = False) -> Measure:
    median = statistics.median
    numbers = (median(ours.wall), ours.share(95), ours.share(99), median(ours.cpu))
    return Measure(work, size, *numbers, median(floor.wall), median(floor.cpu), mark, in_ms)


def _fill_floor(url: str, schema: str, messages: Callable[[], Iterator[Any]], size: int, seed: int) -> None:
    with open_floor(url, schema) as connection:
        fill_floor(connection, messages, size, seed)


def _is_ready(url: str, schema: str) -> bool:
    with open_floor(url, "public") as connection:
        told = connection.execute(
            "SELECT obj_description(to_regnamespace(%s), 'pg_namespace')", (schema,)
        ).fetchone()
        return told == (_READY,)


def show(measures: list[Measure]) -> None:
    """The figures as a table."""
    print(
        f"{'work':<38}{'messages':>10}{'wall':>9}{'p95':>9}{'p99':>9}{'cpu':>8}{'floor':>9}{'cpu':>8}"
        f"{'times':>7}{'mark':>8}"
    )
    for one in sorted(measures, key=lambda one: (one.work, one.messages)):
        mark = f"{one.mark:.0f} ms" if one.in_ms else f"{one.mark:.1f}"
        print(
            f"{one.work:<38}{one.messages:>10,}{one.wall_ms:>9.2f}{one.p95_ms:>9.2f}{one.p99_ms:>9.2f}{one.cpu_ms:>8.2f}"
            f"{one.floor_wall_ms:>9.2f}{one.floor_cpu_ms:>8.2f}{one.ratio:>7.2f}{mark:>8}"
            f"{'' if one.holds else '  over the mark'}"
        )


if __name__ == "__main__":
    main()
