"""What recall by itself adds to a model call: CPU of `before_turn` with and without it, in one large conversation.

    python benchmarks/recall_turn.py [--messages 100000] [--questions 60] [--window 32000] [--seed 1]

The seeded corpus is stored and indexed, and a part of it compacted. Then the same new user messages come in copies of the
database, once with ``activeRecall`` off and once on: questions of words that are rare, common, misspelt and unknown.
CPU milliseconds of the whole process, background threads included. *added* is the difference message by message.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Literal

sys.path.insert(0, str(Path(__file__).parent))

from lcm_plugin import Engine, LcmConfig, LcmPlugin, Session, Turn
from lcm_plugin.evaluation.corpus import Corpus
from lcm_plugin.recall.catchup import index_all

SESSION = Session("agent:recall:main")
MARK = 15.0
BATCH = 500


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.getLogger("lcm_plugin").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="lcm-recall-turn-") as folder:
        stored = Path(folder) / "stored.db"
        asked = build(stored, options.messages, options.questions, options.seed)
        spent = {recall: play(stored, recall, asked, options.window) for recall in ("off", "on")}
    show(options.messages, spent["off"], spent["on"])


def build(database: Path, size: int, questions: int, seed: int) -> list[str]:
    """Stores and indexes the corpus; returns questions about passages of it."""
    rng, texts = Random(seed), list[str]()
    rows = Corpus(seed).messages(size)
    with Engine.open(LcmConfig(database=str(database))) as engine:
        while batch := [row for _, row in zip(range(BATCH), rows, strict=False)]:
            engine.ingest(SESSION, batch)
            texts.append(json.dumps(rng.choice(batch)["content"], ensure_ascii=False))
        engine.compact(SESSION, force=True, budget=32_000)
        index_all(engine.store, engine.events)
    return [question(rng, rng.choice(texts), number) for number in range(questions)]


def question(rng: Random, text: str, number: int) -> str:
    """A question of some words of a text; every fifth one of a misspelt word, every seventh of an unknown one."""
    words = re.findall(r"[^\W\d_]{4,}", text) or ["server"]
    chosen = rng.sample(words, min(4, len(words)))
    if number % 5 == 0:
        chosen[0] = chosen[0][:2] + chosen[0][3:]
    if number % 7 == 0:
        chosen.append("qwertzuiopplk")
    return f"What did we say about {' '.join(chosen)}?"


def play(
    stored: Path, recall: Literal["on", "off"], asked: Sequence[str], window: int
) -> list[tuple[float, bool]]:
    """CPU milliseconds of each call, and whether something was quoted."""
    copy = stored.with_name(f"{recall}.db")
    shutil.copy(stored, copy)
    spent = []
    with Engine.open(LcmConfig(database=str(copy), active_recall=recall)) as engine:
        plugin = LcmPlugin(engine=engine)
        for text in ("A first message.", *asked):
            turn = Turn(SESSION, [{"role": "user", "content": text}], mode="append", window=window)
            started = time.process_time()
            context = plugin.before_turn(turn)
            spent.append((1000 * (time.process_time() - started), bool(context and context.recalled)))
            reply = {"role": "assistant", "content": "Noted."}
            plugin.after_turn(Turn(SESSION, [reply], mode="append", window=window))
            engine.wait_idle(60)
    return spent[1:]


def show(messages: int, off: Sequence[tuple[float, bool]], on: Sequence[tuple[float, bool]]) -> None:
    """Both, and the difference."""
    added = [mine - plain for (plain, _), (mine, _) in zip(off, on, strict=True)]
    print(f"{messages:,} messages, {len(on)} questions, {sum(quoted for _, quoted in on)} with quotes")
    for name, values in (("off", [ms for ms, _ in off]), ("on", [ms for ms, _ in on]), ("added", added)):
        ordered = sorted(values)
        print(
            f"{name:<6} median {statistics.median(ordered):6.1f} ms   p95 {ordered[int(0.95 * len(ordered))]:6.1f} ms"
        )
    verdict = "holds" if statistics.median(added) <= MARK else "DOES NOT HOLD"
    print(f"added, median: at most {MARK:.0f} ms: {verdict}")


if __name__ == "__main__":
    main()
