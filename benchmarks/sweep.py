"""A backlog of imported messages: how long a sweep takes, and what turns feel while it runs.

    python benchmarks/sweep.py [--sizes 12500,25000,50000,100000] [--summariser extractive|stub] [--json]

The sweep runs in the background from the first turn on, as in a host; meanwhile turns of other sessions and of
the same one go on. A sweep is linear when the time per message does not grow with the backlog.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.evaluation.corpus import Corpus
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import CompletionRequest, Turn

BUDGET = 128_000
BATCH = 500
_FREE: dict[str, Any] = {
    "summary_max_calls_per_window": 10_000_000,
    "summary_max_tokens_per_window": 1_000_000_000_000,
    "sweep_deadline_ms": 3_600_000,
    "max_sweep_passes": 10_000_000,
}


@dataclass(frozen=True, slots=True)
class Result:
    """One backlog. Times are seconds, turns milliseconds of wall time; ``cpu_s`` includes the turns."""

    messages: int
    sweep_s: float
    cpu_s: float
    passes: int
    tokens_before: int
    tokens_after: int
    turns: int
    turn_median_ms: float
    turn_worst_ms: float
    quiet_turn_median_ms: float

    @property
    def ms_per_message(self) -> float:
        """CPU time of the sweep for one message."""
        return 1000 * self.cpu_s / self.messages


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="12500,25000,50000,100000")
    parser.add_argument("--summariser", choices=("extractive", "stub"), default="extractive")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logging.getLogger("lcm_plugin").setLevel(logging.ERROR)
    results = []
    for size in map(int, options.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="lcm-sweep-") as folder:
            results.append(run(Path(folder), size, stub=options.summariser == "stub"))
            if not options.json:
                show(results[-1])
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))


def run(folder: Path, size: int, *, stub: bool) -> Result:
    """Imports a backlog and lets it be swept while turns go on."""
    session, passes = Session("agent:sweep:main"), []
    config = LcmConfig(database=str(folder / "sweep.db"), **_FREE)
    with Engine.open(config, completer=_Stub() if stub else None) as engine:
        corpus = Corpus(1)
        rows = list(corpus.messages(size))
        for start in range(0, size, BATCH):
            engine.ingest(session, rows[start : start + BATCH], mode="append")
        engine.subscribe(lambda event: passes.append(1) if event.name == "compaction.pass" else None)
        plugin, turns = LcmPlugin(engine=engine), corpus.turns()
        before = engine.evaluate(session, BUDGET).tokens
        started, cpu = time.perf_counter(), time.process_time()
        spent = [_turn(plugin, session, next(turns))]
        number = 0
        while not engine.wait_idle(0.2):
            number += 1
            lane = session if number % 2 else Session(f"agent:sweep:lane-{number % 8}")
            spent.append(_turn(plugin, lane, next(turns)))
        sweep, cpu = time.perf_counter() - started, time.process_time() - cpu
        quiet = [_turn(plugin, Session("agent:sweep:quiet"), next(turns)) for _ in range(30)]
        engine.wait_idle(60)
        after = engine.evaluate(session, BUDGET).tokens
    return Result(
        size,
        round(sweep, 2),
        round(cpu, 2),
        len(passes),
        before,
        after,
        len(spent),
        round(statistics.median(spent), 1),
        round(max(spent), 1),
        round(statistics.median(quiet), 1),
    )


def _turn(plugin: LcmPlugin, session: Session, messages: list[dict[str, Any]]) -> float:
    """Milliseconds that the two hooks of one turn take."""
    started = time.perf_counter()
    plugin.before_turn(Turn(session, messages[:1], mode="append", window=BUDGET))
    plugin.after_turn(Turn(session, messages[1:], mode="append", window=BUDGET))
    return 1000 * (time.perf_counter() - started)


class _Stub:
    """A model that answers at once."""

    def __init__(self) -> None:
        self._rng = Random(1)
        self._sentences = Corpus(1).sentences()

    def __call__(self, request: CompletionRequest) -> str:
        return " ".join(self._rng.choices(self._sentences, k=max(8, request.max_tokens // 36)))


def show(result: Result) -> None:
    """One line."""
    print(
        f"{result.messages:>8,} messages: {result.sweep_s:6.1f} s "
        f"({result.cpu_s:.1f} s CPU, {result.ms_per_message:.2f} ms a message), "
        f"{result.passes:,} passes, context {result.tokens_before:,} -> {result.tokens_after:,} tokens; "
        f"{result.turns} turns meanwhile: median {result.turn_median_ms} ms, worst {result.turn_worst_ms} ms "
        f"(quiet: {result.quiet_turn_median_ms} ms)",
        flush=True,
    )


if __name__ == "__main__":
    main()
