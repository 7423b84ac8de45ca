"""Runs a haul: starts the host, kills it now and then, and looks at what the database holds in the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from lcm_plugin.config import LcmConfig
from lcm_plugin.engine import Engine
from lcm_plugin.errors import StoreError
from lcm_plugin.evaluation.haul.host import Options
from lcm_plugin.evaluation.haul.progress import Progress
from lcm_plugin.evaluation.haul.talk import Step, key_of, steps
from lcm_plugin.evaluation.resume import ResumeFile
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.types import Message, Session
from lcm_plugin.version import VERSION

SEARCHES, MARK_MS = 60, 250.0
LINEAR, FLAT = 1.25, 1.5
"""How much bytes a token may grow from the first half to the whole, and memory from the first host to the last."""
_SAMPLE = 60


@dataclass(slots=True)
class Result:
    """What a haul showed. ``bytes_per_token`` has the first half's, then the whole's; memory is in MiB
    and of each host in turn; searches are in CPU milliseconds. ``seconds`` are those since the haul was begun or went
    on; ``cpu_minutes`` of all hosts, and of the checks, on one core."""

    tokens: int = 0
    messages: int = 0
    sessions: int = 0
    kills: int = 0
    lost: int = 0
    doubled: int = 0
    misplaced: int = 0
    largest_context: int = 0
    window: int = 0
    faults: int = 0
    findings: int = 0
    found: int = 0
    searched: int = 0
    search_p95_ms: float = 0.0
    bytes_per_token: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    seconds: float = 0.0
    cpu_minutes: float = 0.0

    @property
    def missed(self) -> list[str]:
        """What did not hold, in words; empty when all did."""
        half, whole = self.bytes_per_token
        checks = {
            f"{self.lost} messages lost": self.lost,
            f"{self.doubled} messages doubled": self.doubled,
            f"{self.misplaced} sessions in another order": self.misplaced,
            f"a context of {self.largest_context:,} tokens": self.largest_context > self.window,
            f"{self.faults} faults in contexts": self.faults,
            f"{self.findings} integrity errors": self.findings,
            f"{self.found} of {self.searched} messages found": self.found < self.searched,
            f"searches take {self.search_p95_ms:.0f} ms of CPU time": self.search_p95_ms > MARK_MS,
            f"bytes a token grow from {half:.2f} to {whole:.2f}": whole > LINEAR * half,
            f"memory grows from {self.memory[0]:.0f} to {self.memory[-1]:.0f} MiB": self.memory[-1]
            > FLAT * self.memory[0],
        }
        return [text for text, wrong in checks.items() if wrong]

    def as_dict(self) -> dict[str, Any]:
        """All figures and what did not hold."""
        return {**asdict(self), "missed": self.missed}


def haul(
    tokens: int,
    sessions: int,
    kills: int,
    seed: int = 1,
    window: int = 32_000,
    told: Callable[[str], None] = lambda remark: None,
    kept: Path | None = None,
) -> Result:
    """Plays about so many tokens in so many sessions, with so many kills of the host, and checks everything.

    ``kept``: a folder for the database and for how far it is; a haul that was broken off goes on from it. Raises
    `InputError` for the folder of another haul.
    """
    started, own_cpu = time.perf_counter(), time.process_time()
    counts = steps_for(seed, tokens, sessions)
    result = Result(sessions=sessions, kills=kills, window=window)
    plan = {"tokens": tokens, "sessions": sessions, "kills": kills, "seed": seed, "window": window}
    with ExitStack() as stack:
        folder = kept or Path(stack.enter_context(TemporaryDirectory(prefix="lcm-haul-")))
        folder.mkdir(parents=True, exist_ok=True)
        database = folder / "haul.db"
        file = ResumeFile(folder / "progress.jsonl", {**plan, "version": VERSION})
        progress = Progress(file, [0] * sessions)
        _play(progress, Options(str(database), seed, window, counts, list(progress.done)), kills, told)
        told("checking")
        result.largest_context, result.faults = progress.largest, progress.faults
        result.memory = progress.memory
        whole_bytes = _size(str(database))
        with Engine.open(LcmConfig(database=str(database))) as engine:
            _compare(result, engine, seed, counts)
            result.findings = sum(1 for one in engine.check().findings if one.severity == "error")
            _search(result, engine, seed, counts)
    tokens_said = max(1, result.tokens)
    result.bytes_per_token = [
        round(2 * progress.half_bytes / tokens_said, 2),
        round(whole_bytes / tokens_said, 2),
    ]
    result.seconds = round(time.perf_counter() - started, 1)
    own = time.process_time() - own_cpu
    result.cpu_minutes = round((progress.cpu_seconds + own) / 60, 2)
    return result


def steps_for(seed: int, tokens: int, sessions: int) -> list[int]:
    """How many steps of each session make so many tokens together, by a sample of its first ones."""
    counter = TokenCounter()
    sample = [step for number in range(3) for step in islice(steps(seed, number), _SAMPLE // 3)]
    each = sum(counter.message(message) for step in sample for message in step.messages) / len(sample)
    return [max(1, round(tokens / sessions / each))] * sessions


def _play(progress: Progress, options: Options, kills: int, told: Callable[[str], None]) -> None:
    """Starts a host as often as it is killed, and once more."""
    total, random = sum(options.counts), Random(options.seed)
    # Not before the first session has something to lose, and not when all is said.
    ends = sorted(random.sample(range(total // 20 + 1, total - 1), kills))
    for end in [*ends, total]:
        if progress.at >= end:
            continue
        told(f"{progress.at:,} of {total:,} turns")
        command = [sys.executable, "-m", "lcm_plugin.evaluation.haul.host", json.dumps(asdict(options))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
            assert host.stdout is not None
            for line in host.stdout:
                progress.note(json.loads(line))
                if not progress.half_bytes and progress.at >= total // 2:
                    progress.note({"half_bytes": _size(options.database)})
                if progress.at >= end:
                    break
            if progress.at < total:
                host.kill()
        options = replace(options, done=list(progress.done))
    if progress.at < total:
        raise StoreError(f"the host of the haul ended after {progress.at} of {total} turns")


def _size(database: str) -> int:
    return sum(os.path.getsize(name) for ending in ("", "-wal") if os.path.exists(name := database + ending))


def _said(seed: int, session: int, count: int) -> Iterator[Message]:
    """Everything that a session said, also what it took back later."""
    return (message for step in islice(steps(seed, session), count) for message in step.messages)


def _compare(result: Result, engine: Engine, seed: int, counts: Sequence[int]) -> None:
    """Every message is stored once and in its order, in the conversations of its session."""
    counter = TokenCounter()
    rows: dict[str, list[int]] = {}
    for conversation in engine.library.conversations():
        rows.setdefault(conversation.session_key, []).append(conversation.conversation_id)
    for number, count in enumerate(counts):
        expected: list[str] = []
        for message in _said(seed, number, count):
            expected.append(message["id"])
            result.tokens += counter.message(message)
        stored = [
            str(engine.library.whole(row).get("id"))
            for conversation_id in sorted(rows.get(key_of(number), ()))
            for row in engine.library.messages(conversation_id)
        ]
        result.messages += len(expected)
        result.lost += len(set(expected) - set(stored))
        result.doubled += len(stored) - len(set(stored))
        result.misplaced += list(dict.fromkeys(stored)) != expected


def _search(result: Result, engine: Engine, seed: int, counts: Sequence[int]) -> None:
    """Searches the number that one message of a session begins with, in all of its conversations."""
    random, times = Random(seed), []
    for _ in range(SEARCHES):
        number = random.randrange(len(counts))
        wanted = _opening(random, list(islice(steps(seed, number), counts[number])))
        began = time.process_time()
        answer = engine.call_tool(
            Session(key_of(number)), "lcm_grep", {"pattern": wanted, "limit": 10, "all_conversations": True}
        )
        times.append(1000 * (time.process_time() - began))
        result.searched += 1
        result.found += any(wanted in hit["snippet"].replace("**", "") for hit in answer.get("hits", ()))
    result.search_p95_ms = round(sorted(times)[int(0.95 * len(times))], 1)


def _opening(random: Random, said: Sequence[Step]) -> str:
    """The number at the beginning of a user's message; every one has its own."""
    return str(random.choice(said).messages[0]["content"]).partition(":")[0]
