"""A host that is killed, runs out of disk, meets I/O errors and clock jumps, again and again: is anything lost?

    python benchmarks/faults.py [--rounds 2000] [--seed 1] [--json]

Each round a process works as a host does. It hands its whole list to ``ingest``, or only what is new to the plugin's
hooks (and sometimes compacts with a model that raises anything, prunes with /new, or calls tools with arguments
that mean nothing), and notes each acknowledgement in a pipe. Some messages hold what JSON lacks, cannot be read at
all, or are none. Then one fault strikes: SIGKILL at a random moment, a disk that is full after so many bytes, the nth
write or fsync failing with EIO or ENOSPC, a clock that jumps by years, another writer that holds the database, or a
fork whose child stores, too. The next round begins on what is left. After every round: each acknowledged message is
there once, in order, as it was or as what could be kept of it; no other is there but those of the call that was cut
off; the integrity checker finds no error. No hook and no tool raised, and every context could be encoded.

EIO and ENOSPC come from a small library that is loaded before libc (a C compiler is needed; without one these
rounds limit the size of files instead). The processes are forks of one that has loaded everything, so that a
round takes a fraction of a second. Progress goes to stderr; after an interrupt the rounds so far are reported.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import json
import logging
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, TextIO

from lcm_plugin import Engine, LcmConfig, LcmError, LcmPlugin, Session, Turn
from lcm_plugin.messages.convert import broken_record, to_message

LANE = Session("agent:faults:main", "run-1")
CHILD_LANE = Session("agent:faults:child", "run-1")
SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 400,
    "leaf_target_tokens": 96,
    "condensed_target_tokens": 128,
    "large_file_token_threshold": 1_000,
    "busy_timeout_ms": 2_000,
}
FAULTS = ("kill", "full", "eio", "enospc", "fsync", "clock", "locked", "fork")
YEAR_MS = 365 * 86_400_000
_MOST_CALLS = 8
_MOST_MESSAGES = 400
_EXPECTED_FINDINGS = frozenset(
    {"summary_fallback", "summary_capped", "lane_stale", "file_orphan", "file_leftover", "hook_failing"}
)

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
static volatile long left = -1, failing = 0;
static volatile int code = 0, on_sync = 0;
void lcm_fail_after(long count, int error, int sync) { left = count; code = error; on_sync = sync; failing = 0; }
static int strikes(int sync) {
    if (left < 0 || sync != on_sync) return 0;
    if (failing) return 1;
    if (left-- > 0) return 0;
    left = 0;
    failing = 1;
    return 1;
}
static int ours(int fd) {
    char link[32], name[512];
    ssize_t n;
    char digits[12]; int i = 0, f = fd;
    do { digits[i++] = '0' + f % 10; f /= 10; } while (f);
    strcpy(link, "/proc/self/fd/");
    char *p = link + 14; while (i) *p++ = digits[--i]; *p = 0;
    n = readlink(link, name, sizeof name - 1);
    if (n < 0) return 0;
    name[n] = 0;
    return strstr(name, "lcm-faults-") != 0;
}
#define FAIL(sync) if (strikes(sync) && ours(fd)) { errno = code; return -1; }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t o) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
    FAIL(0) return real(fd, b, n, o);
}
ssize_t pwrite(int fd, const void *b, size_t n, off_t o) {
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwrite");
    FAIL(0) return real(fd, b, n, o);
}
ssize_t write(int fd, const void *b, size_t n) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    if (left >= 0 && ours(fd)) { FAIL(0) }
    return real(fd, b, n);
}
int fsync(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fsync");
    FAIL(1) return real(fd);
}
int fdatasync(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
    FAIL(1) return real(fd);
}
"""


@dataclass(slots=True)
class Report:
    """What happened in all rounds. ``faults`` says in words what was not as it should be."""

    asked: int
    rounds: int = 0
    seconds: float = 0.0
    struck: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    faults: list[str] = field(default_factory=list)
    library: bool = False
    children: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """The figures in a line."""
        return (
            f"{self.rounds} of {self.asked} rounds in {self.seconds:.0f} s, {self.acknowledged} messages acknowledged, "
            f"{self.refused} calls refused, {self.lost} lost, {self.doubled} doubled, {len(self.faults)} faults"
        )


def message(number: int) -> dict[str, Any]:
    """The nth message of the talk; the same for every process."""
    rng = Random(number)
    text = f"message {number}: " + " ".join(rng.choice(("lily", "bed", "water", "dusk")) for _ in range(30))
    if number % 29 == 28:
        text += " leaf" * 1_500  # moved out into a file
    made: dict[str, Any] = {"role": "assistant" if number % 2 else "user", "content": text}
    match number % 23:
        case 5:
            made["at"] = datetime(2026, 5, 1) + timedelta(seconds=number)
        case 11:
            made["raw"] = {b"\xff", number}
        case 17:
            made = Unreadable(made)
        case 21:
            made["tool_calls"] = 5
    return made


class Unreadable(dict[str, Any]):
    """A message that cannot be read."""

    def items(self) -> Any:
        raise RuntimeError("this mapping is odd")


@cache
def as_stored(number: int) -> dict[str, Any]:
    """What the store keeps of a message."""
    made = message(number)
    try:
        return to_message(made)[0]
    except RuntimeError as error:
        return broken_record(made, error)


def work(database: str, done: int, seed: int, pipe: int, fault: str) -> None:
    """A host's process: never returns."""
    rng = Random(seed)
    offset = rng.choice((-20, -1, 1, 20)) * YEAR_MS if fault == "clock" else 0
    jump_at = rng.randrange(1, 6)
    calls = 0

    def clock() -> int:
        nonlocal calls
        calls += 1
        return time.time_ns() // 1_000_000 + (offset if calls > jump_at else 0)

    library = _library()
    if fault in ("eio", "enospc", "fsync"):
        code = errno.ENOSPC if fault == "enospc" else errno.EIO
        if library is not None:
            library.lcm_fail_after(rng.randrange(0, 120), code, int(fault == "fsync"))
        else:
            fault = "full"
    if fault == "full":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = max((path.stat().st_size for path in Path(database).parent.glob("lcm.db*")), default=0)
        limit = size + rng.randrange(0, 200_000)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    # A full disk comes back as durable as the host asked for, fsync included.
    patient = {**SETTINGS, "busy_timeout_ms": 50} if fault == "locked" else SETTINGS
    config = LcmConfig(database=database, durability="full", **patient)
    turns = rng.randrange(1, _MOST_CALLS)
    with contextlib.suppress(LcmError, OSError), _held_now_and_then(database, rng, fault):
        if rng.random() < 0.5:
            _hand_over_lists(config, clock, done, rng, pipe, turns)
        else:
            _call_hooks(config, clock, done, rng, pipe, turns, fault)
    os._exit(0)


def _hand_over_lists(
    config: LcmConfig, clock: Callable[[], int], done: int, rng: Random, pipe: int, turns: int
) -> None:
    history = [message(number) for number in range(done)]
    with Engine.open(config, clock=clock) as engine:
        for _ in range(turns):
            history += [message(len(history) + n) for n in range(rng.randrange(1, 6))]
            os.write(pipe, f"try {len(history)}\n".encode())
            try:
                engine.ingest(LANE, history, "sync")
            except LcmError as error:
                os.write(pipe, f"refused {type(error).__name__}\n".encode())
                break
            os.write(pipe, f"ok {len(history)}\n".encode())
            with contextlib.suppress(LcmError):
                _other_work(engine, rng)


def _call_hooks(
    config: LcmConfig, clock: Callable[[], int], done: int, rng: Random, pipe: int, turns: int, fault: str
) -> None:
    """A host of deltas. What a hook took is acknowledged once it waits nowhere but on a disk."""
    plugin = LcmPlugin(config, completer=rng.choice((None, _raising)), clock=clock)
    for _ in range(turns):
        fresh = [message(done + n) for n in range(rng.randrange(1, 6))]
        done += len(fresh)
        os.write(pipe, f"try {done}\n".encode())
        turn = Turn(LANE, fresh, mode="append", window=4_000)
        try:
            context = plugin.before_turn(turn)
            json.dumps(context.messages if context else [], ensure_ascii=False).encode()
            if rng.random() < 0.3:
                plugin.after_turn(turn)
            if rng.random() < 0.2:
                answer = plugin.lcm_call_tool(
                    LANE, "lcm_grep", {"pattern": rng.choice(_PATTERNS), "mode": "regex"}
                )
                json.dumps(answer, ensure_ascii=False).encode()
        except Exception as error:  # noqa: BLE001 - that one left the hook is the finding
            os.write(pipe, f"raised {type(error).__name__}: {error}\n".encode())
        if plugin.waiting_in_memory:
            os.write(pipe, b"refused\n")
        else:
            os.write(pipe, f"ok {done}\n".encode())
        if fault == "fork" and rng.random() < 0.3:
            _fork_and_store(plugin, rng, pipe)
    plugin.close()


_PATTERNS = ("dusk", "\ud83d", "(", "a{1000}", "\x00", "")


def _raising(request: Any) -> str:
    raise Random(len(request.messages)).choice((SystemExit(3), CancelledError(), ValueError("x")))


def _fork_and_store(plugin: LcmPlugin, rng: Random, pipe: int) -> None:
    """A child that stores a message of its own, whose number is the time."""
    number = time.monotonic_ns()
    child = os.fork()
    if child == 0:
        plugin.before_turn(Turn(CHILD_LANE, [{"role": "user", "content": f"child {number}"}], mode="append"))
        if not plugin.waiting_in_memory:
            os.write(pipe, f"child {number}\n".encode())
        os._exit(0)
    os.waitpid(child, 0)


@contextlib.contextmanager
def _held_now_and_then(database: str, rng: Random, fault: str) -> Iterator[None]:
    """Another writer that holds the database for most of the time."""
    over = threading.Event()

    def hold() -> None:
        while fault == "locked" and not over.wait(0.01):
            with (
                contextlib.suppress(sqlite3.Error),
                contextlib.closing(
                    sqlite3.connect(f"file:{database}?mode=rw", uri=True, isolation_level=None, timeout=0)
                ) as other,
            ):
                other.execute("BEGIN IMMEDIATE")
                over.wait(0.08)
                other.execute("ROLLBACK")

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _other_work(engine: Engine, rng: Random) -> None:
    match rng.randrange(12):
        case 0 | 1 | 2:
            engine.compact(LANE, force=True)
        case 3:
            engine.call_tool(LANE, "lcm_grep", {"pattern": "dusk", "tool_name": rng.choice(_PATTERNS)})
        case 4:
            json.dumps(engine.assemble(LANE, 4_000).messages, ensure_ascii=False).encode()
        case 5 if engine.library.status().messages > 2:
            # A list of one message after a /new may as well be the same opening said again, and is stored as that.
            engine.new_session(LANE, 1)


def _library() -> ctypes.CDLL | None:
    path = os.environ.get("LD_PRELOAD", "")
    return ctypes.CDLL(path) if path.endswith("lcm-faults.so") else None


def run(rounds: int, seed: int, folder: Path) -> Report:
    """All rounds on a growing talk; a new one begins when it has become long."""
    _warm_up(folder)
    rng, report = Random(seed), Report(rounds, library=_library() is not None)
    began, done, base = time.monotonic(), 0, 0
    home = folder
    interrupted = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: interrupted.set())
    for number in range(rounds):
        if interrupted.is_set():
            break
        if done >= _MOST_MESSAGES or number == base:
            base, done = number, 0
            home = folder / f"lcm-faults-{number}"
            home.mkdir()
        fault = FAULTS[rng.randrange(len(FAULTS))]
        report.struck[fault] = report.struck.get(fault, 0) + 1
        done = _round(
            str(home / "lcm.db"), done, rng.randrange(1 << 30), fault, report, f"round {number} ({fault})"
        )
        report.rounds += 1
        report.seconds = time.monotonic() - began
        if report.rounds % 50 == 0:
            print(report.summary, file=sys.stderr, flush=True)
    return report


def _warm_up(folder: Path) -> None:
    """Loads what every round needs, once."""
    with Engine.open(LcmConfig(database=str(folder / "warm.db"), **SETTINGS)) as engine:
        engine.ingest(LANE, [message(number) for number in range(40)])
        LcmPlugin(engine=engine).before_turn(Turn(LANE, [message(41)], mode="append", window=4_000))
        engine.compact(LANE, force=True)
        engine.check()


def _round(database: str, done: int, seed: int, fault: str, report: Report, title: str) -> int:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            work(database, done, seed, writing, fault)
        finally:
            os._exit(1)
    os.close(writing)
    with open(reading) as pipe:
        lines = _killed(child, pipe, Random(seed)) if fault == "kill" else []
        lines += pipe.read().split("\n")
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        report.faults.append(f"{title}: the process failed in an unforeseen way")
    acknowledged = max((int(line[3:]) for line in lines if line.startswith("ok ")), default=done)
    tried = max((int(line[4:]) for line in lines if line.startswith("try ")), default=done)
    report.refused += sum(line.startswith("refused") for line in lines)
    report.faults += [f"{title}: {line}" for line in lines if line.startswith("raised")]
    report.children += [line.removeprefix("child ") for line in lines if line.startswith("child ")]
    report.acknowledged += acknowledged - done
    return _proven(database, acknowledged, tried, report, title)


def _killed(child: int, pipe: TextIO, rng: Random) -> list[str]:
    """Kills a process shortly after a line of its report, and returns the lines so far."""
    lines = [pipe.readline().rstrip("\n") for _ in range(rng.randrange(2 * _MOST_CALLS))]
    time.sleep(rng.random() * 0.01)
    os.kill(child, signal.SIGKILL)
    return lines


def _proven(database: str, acknowledged: int, tried: int, report: Report, title: str) -> int:
    """How many messages stand, after all promises were looked at."""
    if not Path(database).exists():
        if acknowledged:
            report.faults.append(f"{title}: the database is gone")
        return 0
    try:
        # Recall has no part in what is proven, and is most of the time of a context.
        with Engine.open(LcmConfig(database=database, active_recall="off", **SETTINGS)) as engine:
            # What waited is stored by whichever call of a hook comes first.
            plugin = LcmPlugin(engine=engine)
            for lane in (LANE, CHILD_LANE):
                plugin.before_turn(Turn(lane, [], mode="append"))
            stored = engine.messages(LANE)
            said = [str(one["content"]) for one in engine.messages(CHILD_LANE)]
            findings = [one for one in engine.check().findings if one.code not in _EXPECTED_FINDINGS]
    except LcmError as error:
        report.faults.append(f"{title}: {error}")
        return acknowledged
    of_children = Counter(said)
    missing = [number for number in report.children if of_children[f"child {number}"] != 1]
    if missing or len(of_children) != len(said):
        report.faults.append(f"{title}: of the messages of children {len(missing)} are not there once")
    report.children.clear()
    expected = [as_stored(number) for number in range(tried)]
    if len(stored) < acknowledged or stored[:acknowledged] != expected[:acknowledged]:
        report.lost += sum(one not in stored for one in expected[:acknowledged])
        report.faults.append(f"{title}: {len(stored)} messages of {acknowledged} acknowledged")
    texts = [str(one["content"]) for one in stored]
    doubled = len(texts) - len(set(texts))
    if doubled or stored != expected[: len(stored)]:
        report.doubled += doubled
        report.faults.append(f"{title}: {doubled} messages doubled, or others than were sent")
    if findings:
        report.faults.append(f"{title}: {', '.join(one.message for one in findings)[:500]}")
    return len(stored)


@contextlib.contextmanager
def failing_library() -> Iterator[str]:
    """The path of the built library; empty when there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        yield ""
        return
    with tempfile.TemporaryDirectory(prefix="lcm-shim-") as folder:
        source, built = Path(folder) / "faults.c", Path(folder) / "lcm-faults.so"
        source.write_text(SHIM)
        made = subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", built, source, "-ldl"],
            capture_output=True,
            check=False,
        )
        yield str(built) if made.returncode == 0 else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if "FAULTS_INSIDE" not in os.environ:
        with failing_library() as library:
            inside = dict(os.environ, FAULTS_INSIDE="1", **({"LD_PRELOAD": library} if library else {}))
            with subprocess.Popen([sys.executable, __file__, *sys.argv[1:]], env=inside) as process:
                for one in (signal.SIGINT, signal.SIGTERM):
                    signal.signal(one, lambda number, _: process.send_signal(number))
                sys.exit(process.wait())
    logging.getLogger("lcm_plugin").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="lcm-rounds-") as folder:
        report = run(options.rounds, options.seed, Path(folder))
    if options.json:
        print(json.dumps(asdict(report)))
    else:
        print(report.summary)
        print(", ".join(f"{count} {name}" for name, count in sorted(report.struck.items())))
        for fault in report.faults[:20]:
            print(fault)
    sys.exit(bool(report.faults))


if __name__ == "__main__":
    main()
