"""One process of the concurrency test: threads that take turns, compact, and assemble.

    python concurrency_child.py DATABASE NUMBER SECONDS THREADS

Prints what was acknowledged, and every error a host would have seen, as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from small_talk import text_of

from lcm_plugin import Engine, LcmConfig, Session

LANES = ("agent:busy:one", "agent:busy:two")
LEAST_TURNS = 12
SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 6,
    "leaf_chunk_tokens": 500,
    "leaf_target_tokens": 120,
    "condensed_target_tokens": 160,
    "busy_timeout_ms": 30_000,
}


def work(engine: Engine, name: str, seconds: float, written: list[dict[str, int]], errors: list[str]) -> None:
    """Turns on two lanes that everybody shares, until the time is over; enough to compact on a busy machine too."""
    mine: dict[str, int] = {}
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end or number < LEAST_TURNS:
        lane = Session(LANES[number % len(LANES)])
        texts = [f"{name} {number} {role}: {text_of(40, number)}" for role in ("asks", "answers")]
        try:
            engine.ingest(
                lane, [{"role": "user", "content": texts[0]}, {"role": "assistant", "content": texts[1]}]
            )
            for text in texts:
                mine[text] = 1
            if number % 3 == 0:
                engine.compact(lane, budget=6_000)
            else:
                engine.schedule_compaction(lane, 6_000)
            engine.assemble(lane, 6_000)
        except Exception as error:  # noqa: BLE001 - whatever a host would see is a finding
            errors.append(f"{type(error).__name__}: {error}")
        number += 1
    written.append(mine)


def main() -> None:
    database, name, seconds, threads = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    written: list[dict[str, int]] = []
    errors: list[str] = []
    with Engine.open(LcmConfig(database=database, **SETTINGS)) as engine:
        workers = [
            threading.Thread(target=work, args=(engine, f"p{name}-{n}", seconds, written, errors))
            for n in range(threads)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        engine.wait_idle(60)
    print(json.dumps({"written": {k: v for row in written for k, v in row.items()}, "errors": errors}))


if __name__ == "__main__":
    main()
