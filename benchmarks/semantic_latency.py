"""What semantic search adds to a search, at 6,000 and at 100,000 stored vectors.

    python benchmarks/semantic_latency.py [--sizes 6000,100000]

The vectors are drawn at random, since their values do not matter for the time; the question's is computed. CPU
milliseconds, medians of 20: ``lift`` is what a question costs beside the word search (the question's
vector, and comparing it with the candidates'), ``nearest`` compares it with every vector, ``floor`` is numpy doing
the least for that on a matrix that is in memory already.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import islice

import numpy as np
from corpus import Corpus

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.recall.semantic import Embedder, find_model

WIDTH, CANDIDATES, TRIES = 384, 400, 20
MARKS = {6_000: 50.0, 100_000: 150.0}


def fill(engine: Engine, session: Session, size: int, name: str) -> None:
    """Messages of the corpus, and a random vector for each."""
    rng = np.random.default_rng(1)
    messages = Corpus(1).messages(size)
    while batch := list(islice(messages, 500)):
        engine.ingest(session, batch, mode="append")
    with engine.store.write() as writer:
        while ids := writer.messages_without_vectors(name, 2_000):
            rows = rng.integers(-127, 128, (len(ids), WIDTH), dtype=np.int8)
            writer.store_vectors(name, {row_id: row.tobytes() for row_id, row in zip(ids, rows, strict=True)})


def median_ms(work: Callable[[], object]) -> float:
    """Of `TRIES` runs, after one that warms up."""
    work()
    times = []
    for _ in range(TRIES):
        began = time.process_time()
        work()
        times.append(1000 * (time.process_time() - began))
    return statistics.median(times)


def measure(size: int) -> None:
    question = "which check of the certificate failed after the deploy?"
    session = Session("agent:main:main")
    embedder = Embedder(find_model())
    with tempfile.TemporaryDirectory() as folder:
        config = LcmConfig(database=f"{folder}/lcm.db", semantic_search=True)
        with Engine.open(config) as engine:
            fill(engine, session, size, embedder.name)
            semantics = engine.recall.semantics
            ids = list(range(1, size, max(1, size // CANDIDATES)))
            with engine.store.read() as reader:
                lift = median_ms(lambda: semantics.closeness(reader, question, ids))
                near = median_ms(lambda: semantics.nearest(reader, question, None, 10))
            matrix = np.random.default_rng(2).integers(-127, 128, (size, WIDTH), dtype=np.int8)
            asked = np.ones(WIDTH, dtype=np.float32)
            floor = median_ms(lambda: np.argpartition(matrix.astype(np.float32) @ asked, -10)[-10:])
    verdict = "held" if max(lift, near) <= MARKS.get(size, float("inf")) else "MISSED"
    mark = f"{MARKS[size]:.0f} ms {verdict}" if size in MARKS else ""
    print(f"{size:>8} vectors: lift {lift:6.1f}  nearest {near:6.1f}  floor {floor:6.1f} ms  {mark}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="6000,100000")
    for size in parser.parse_args().sizes.split(","):
        measure(int(size))


if __name__ == "__main__":
    main()
