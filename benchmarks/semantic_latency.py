"""What semantic search adds to a search, at 6,000 and at 100,000 stored vectors.

    python benchmarks/semantic_latency.py [--sizes 6000,100000] [--model minilm]

The vectors are drawn at random, since their values do not matter for the time; the question's is computed. CPU
milliseconds, medians of 20: ``question`` is the question's vector, ``meaning`` that and comparing it with every stored
vector, ``first`` reading them all at the first question, ``floor`` numpy doing the least for the comparison on a matrix that
is in memory already.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from typing import get_args

import numpy as np

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.evaluation.corpus import Corpus
from lcm_plugin.recall.semantic.meaning import Meaning
from lcm_plugin.recall.semantic.models import ModelName, embedder_of

WIDTH, CANDIDATES, TRIES = 384, 400, 20
MARK = 50.0


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


def measure(size: int, model: ModelName) -> None:
    question = "which check of the certificate failed after the deploy?"
    session = Session("agent:main:main")
    embedder = embedder_of(model)
    with tempfile.TemporaryDirectory() as folder:
        config = LcmConfig(database=f"{folder}/lcm.db", semantic_search=True, semantic_model=model)
        with Engine.open(config) as engine:
            fill(engine, session, size, embedder.name)
            semantics = engine.recall.semantics
            ids = list(range(1, size, max(1, size // CANDIDATES)))
            with engine.store.read() as reader:
                began = time.process_time()
                semantics.meaning(reader, question, None, ids)
                first = 1000 * (time.process_time() - began)
                asking = median_ms(lambda: embedder.question(question))
                near = median_ms(lambda: look(semantics.meaning(reader, question, None, ids), ids))
            matrix = np.random.default_rng(2).integers(-127, 128, (size, WIDTH), dtype=np.int8)
            asked = np.ones(WIDTH, dtype=np.float32)
            floor = median_ms(lambda: np.argpartition(matrix.astype(np.float32) @ asked, -10)[-10:])
    verdict = "held" if near <= MARK else "MISSED"
    print(
        f"{size:>8} vectors of {model}: question {asking:5.1f}  meaning {near:5.1f}  first {first:6.1f}  "
        f"floor {floor:5.1f} ms  {MARK:.0f} ms {verdict}"
    )


def look(meaning: Meaning | None, ids: list[int]) -> None:
    """What a search takes from it."""
    assert meaning is not None
    meaning.nearest(50)
    meaning.of(ids)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="6000,100000")
    parser.add_argument("--model", default="minilm", choices=get_args(ModelName))
    arguments = parser.parse_args()
    for size in arguments.sizes.split(","):
        measure(int(size), arguments.model)


if __name__ == "__main__":
    main()
