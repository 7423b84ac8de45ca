"""What assembling a 128k context costs at 1k, 100k and 1M stored messages, beside a sqlite3 floor.

    python benchmarks/assemble.py [--sizes 1000,100000,1000000] [--json] [--seed 1]

*Steady*: all but the newest 160 messages are summarised. *Backlog*: nothing is. *Next turn* assembles after
six new messages, *again* once more with nothing new, *first* in an engine that was just opened. The floor
reads the same rows with plain sqlite3 and Python. CPU milliseconds, medians.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from floor import Floor

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.evaluation.corpus import Corpus, Message
from lcm_plugin.messages.blocks import calls_answered, calls_made, user_speaks
from lcm_plugin.messages.groups import GroupLinker
from lcm_plugin.messages.identity import identity_of
from lcm_plugin.messages.parts import lift, make_parts, skeleton_of
from lcm_plugin.messages.validate import validate
from lcm_plugin.store.records import Item, NewMessage, Publication, Summary

BUDGET, RAW = 128_000, 160
MARK = 3.0
SESSION = Session("agent:bench:main")
_POOL, _BATCH, _ROUNDS = 6_000, 10_000, 15
_LEAF, _FANOUT, _SUMMARIES = 500, 4, 12


@dataclass(frozen=True, slots=True)
class Measure:
    """One way of assembling at one size, in CPU ms, and the floor's."""

    work: str
    messages: int
    ours_ms: float
    floor_ms: float
    marked: bool = True

    @property
    def ratio(self) -> float:
        """How many times the floor."""
        return self.ours_ms / self.floor_ms


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="1000,100000,1000000")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    measures: list[Measure] = []
    for size in map(int, options.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="lcm-bench-") as folder:
            measures += measure(Path(folder), size, options.seed)
        if not options.json:
            show(measures[-4:])
    if options.json:
        rows = [
            {"work": one.work, "messages": one.messages, "ours_ms": round(one.ours_ms, 3),
             "floor_ms": round(one.floor_ms, 3), "ratio": round(one.ratio, 2), "ok": one.ratio <= MARK}
            for one in measures
        ]  # fmt: skip
        print(json.dumps(rows, indent=2))


def measure(folder: Path, size: int, seed: int) -> list[Measure]:
    """All measures at one size."""
    pool = list(Corpus(seed).messages(_POOL))
    config = LcmConfig(database=str(folder / "lcm.db"))
    with Engine.open(config) as engine:
        fill(engine, pool, size)
        backlog = after_turns(engine, seed)
        summarise(engine, 1_200)
        steady = after_turns(engine, seed + 1)
        again = statistics.median(cpu(lambda: assemble(engine)) for _ in range(_ROUNDS))
    firsts = []
    for _ in range(5):
        with Engine.open(config) as engine:
            engine.messages(Session("agent:bench:none"))
            firsts.append(cpu(lambda engine=engine: assemble(engine)))
    plain, floor_all = floor(folder, pool, size)
    return [
        Measure("steady, next turn", size, steady, plain),
        Measure("steady, again", size, again, plain),
        Measure("steady, first", size, statistics.median(firsts), plain, marked=False),
        Measure("backlog, next turn", size, backlog, floor_all),
    ]


def assemble(engine: Engine) -> list[Message]:
    """One context, checked."""
    return engine.assemble(SESSION, BUDGET).messages


def after_turns(engine: Engine, seed: int) -> float:
    """Median CPU ms of assembling after each of some new turns."""
    turns = Corpus(seed + 1).turns()
    spent = []
    assemble(engine)
    # The benchmark's own corpus must not weigh on the garbage collector.
    gc.collect()
    gc.freeze()
    for turn in islice(turns, _ROUNDS):
        engine.ingest(SESSION, turn[:6])
        spent.append(cpu(lambda: assemble(engine)))
    context = engine.assemble(SESSION, BUDGET)
    assert not validate(context.messages)
    assert context.tokens <= BUDGET
    return statistics.median(spent)


def fill(engine: Engine, pool: Sequence[Message], size: int) -> None:
    """Stores ``size`` messages made from a pool, without counting each again."""
    rows = [as_row(engine, message) for message in pool]
    endless = cycle(rows)
    linker, seq = GroupLinker([]), 1
    for start in range(0, size, _BATCH):
        batch = []
        for row in islice(endless, min(_BATCH, size - start)):
            group = linker.link(seq, row.calls, row.answers)
            batch.append(with_group(row, group))
            seq += 1
        with engine.store.write() as writer:
            writer.append(writer.open_conversation(SESSION, 0), batch, 0)


def as_row(engine: Engine, message: Message) -> NewMessage:
    """A message as ingest would store it."""
    lifted = lift(message)
    return NewMessage(
        message["role"], skeleton_of(message, lifted), engine.counter.message(message), identity_of(message),
        0, make_parts(lifted), calls=calls_made(message), answers=calls_answered(message),
        speaks=user_speaks(message),
    )  # fmt: skip


def with_group(row: NewMessage, group: int) -> NewMessage:
    """The row in its group."""
    values = {name: getattr(row, name) for name in NewMessage.__slots__}
    return NewMessage(**{**values, "group_seq": group})


def summarise(engine: Engine, tokens: int) -> None:
    """Replaces all but the newest raw messages by a balanced tree of summaries."""
    words = "word " * tokens
    with engine.store.read() as reader:
        conversation = reader.find_conversation(SESSION)
        assert conversation is not None
        newest = conversation.next_seq
    with engine.store.write() as writer:
        for number, chunk in enumerate(chunks(writer, conversation.conversation_id, newest - RAW)):
            current = writer.find_conversation(SESSION)
            assert current is not None
            publish(writer, current, chunk, f"{words}{number}")


def chunks(reader: Any, conversation_id: int, before: int) -> Iterator[list[Item]]:
    """Runs to summarise: raw messages by the hundred, then summaries by four."""
    while True:
        page = reader.oldest_raw_items(conversation_id, limit=_LEAF + 1)
        page = [item for item in page if item.ordinal < before]
        starts = [n for n in range(1, len(page)) if page[n].message.group_seq == page[n].ordinal]
        if not starts:
            break
        yield page[: starts[-1]]
    while True:
        items = reader.summary_items(conversation_id, limit=100_000)
        if len(items) <= _SUMMARIES:
            return
        depth = min(item.depth for item in items)
        run = [item for item in items if item.depth == depth][:_FANOUT]
        yield run if len(run) > 1 else items[-2:]


def publish(writer: Any, conversation: Any, chunk: Sequence[Item], text: str) -> None:
    """Publishes one summary."""
    depth = max(item.depth for item in chunk) + 1
    number = f"{conversation.revision:016x}"
    summary = Summary(
        f"sum_{number}", conversation.conversation_id, depth, text, 1_200, 0, 60_000, chunk[0].ordinal,
        chunk[-1].ordinal, len(chunk), len(chunk), 20_000, 20_000, "normal",
    )  # fmt: skip
    writer.publish(Publication(summary, tuple(chunk), conversation.revision, 1_250), 0)


def floor(folder: Path, pool: Sequence[Message], size: int) -> tuple[float, float]:
    """CPU ms of the floor: steady, and with all messages raw."""
    plain = Floor(folder / "floor.db", lambda text: len(text) // 4, indexed=False)
    endless = cycle(pool)
    for start in range(0, size, _BATCH):
        plain.append(list(islice(endless, min(_BATCH, size - start))))
    everything = statistics.median(cpu(lambda: plain.assemble(BUDGET)) for _ in range(_ROUNDS))
    total = size * 335 // _SUMMARIES
    for _ in range(_SUMMARIES):
        if not plain.leaf_pass(total, RAW + 6 * _ROUNDS, lambda _: "word " * 1_200):
            break
    steady = statistics.median(cpu(lambda: plain.assemble(BUDGET)) for _ in range(_ROUNDS))
    plain.close()
    return steady, everything


def cpu(work: Callable[[], object]) -> float:
    """CPU ms of a call, of this thread alone."""
    started = time.thread_time()
    work()
    return (time.thread_time() - started) * 1000


def show(measures: Sequence[Measure]) -> None:
    """A table."""
    for one in measures:
        verdict = "" if not one.marked else "ok" if one.ratio <= MARK else f"over {MARK} x"
        print(
            f"{one.work:22} {one.messages:>9,}  ours {one.ours_ms:7.2f} ms  floor {one.floor_ms:6.2f} ms  "
            f"{one.ratio:5.2f} x  {verdict}"
        )


if __name__ == "__main__":
    main()
