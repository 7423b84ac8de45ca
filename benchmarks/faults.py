"""A host that is killed, runs out of disk, meets I/O errors and clock jumps, again and again: is anything lost?

    python benchmarks/faults.py [--rounds 1000] [--seed 1] [--json]

Each round a process works as a host does: it hands its whole list to ``ingest`` (and sometimes compacts, prunes
with /new or searches) and notes each acknowledgement in a pipe. Then one fault strikes: SIGKILL at a random
moment, a disk that is full after so many bytes, the nth write or fsync failing with EIO or ENOSPC, or a clock
that jumps by years. The next round begins on what is left and repeats what was not acknowledged, as a host
would. After every round: each acknowledged message is there once, in order, byte for byte; no other is there
but those of the call that was cut off; the integrity checker finds no error.

EIO and ENOSPC come from a small library that is loaded before libc (a C compiler is needed; without one these
rounds limit the size of files instead). The processes are forks of one that has loaded everything, so that a
round takes a fraction of a second.
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
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from lcm_plugin import Engine, LcmConfig, LcmError, Session

LANE = Session("agent:faults:main", "run-1")
SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 400,
    "leaf_target_tokens": 96,
    "condensed_target_tokens": 128,
    "large_file_token_threshold": 1_000,
    "busy_timeout_ms": 2_000,
}
FAULTS = ("kill", "full", "eio", "enospc", "fsync", "clock")
YEAR_MS = 365 * 86_400_000
_LONGEST_S = 0.15
_MOST_MESSAGES = 400
_FORBIDDEN = frozenset({"summary_fallback", "summary_capped", "lane_stale", "file_orphan", "file_leftover"})

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

    rounds: int = 0
    seconds: float = 0.0
    struck: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    faults: list[str] = field(default_factory=list)
    library: bool = False


def message(number: int) -> dict[str, Any]:
    """The nth message of the talk; the same for every process."""
    rng = Random(number)
    text = f"message {number}: " + " ".join(rng.choice(("lily", "bed", "water", "dusk")) for _ in range(30))
    if number % 29 == 28:
        text += " leaf" * 1_500  # moved out into a file
    return {"role": "assistant" if number % 2 else "user", "content": text}


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
    history = [message(number) for number in range(done)]
    with contextlib.suppress(LcmError, OSError):
        # A full disk comes back as durable as the host asked for, fsync included.
        config = LcmConfig(database=database, durability="full", **SETTINGS)
        with Engine.open(config, clock=clock) as engine:
            end = time.monotonic() + _LONGEST_S
            while time.monotonic() < end and len(history) < _MOST_MESSAGES:
                count = rng.randrange(1, 6)
                history += [message(len(history) + n) for n in range(count)]
                os.write(pipe, f"try {len(history)}\n".encode())
                try:
                    engine.ingest(LANE, history, "sync")
                except LcmError as error:
                    os.write(pipe, f"refused {type(error).__name__}\n".encode())
                    history = history[:-count]
                    break
                os.write(pipe, f"ok {len(history)}\n".encode())
                with contextlib.suppress(LcmError):
                    _other_work(engine, rng)
    os._exit(0)


def _other_work(engine: Engine, rng: Random) -> None:
    match rng.randrange(12):
        case 0 | 1 | 2:
            engine.compact(LANE, force=True)
        case 3:
            engine.call_tool(LANE, "lcm_grep", {"pattern": "dusk"})
        case 4:
            engine.assemble(LANE, 4_000)
        case 5 if engine.library.status().messages > 2:
            # A list of one message after a /new may as well be the same opening said again, and is stored as that.
            engine.new_session(LANE, 1)


def _library() -> ctypes.CDLL | None:
    path = os.environ.get("LD_PRELOAD", "")
    return ctypes.CDLL(path) if path.endswith("lcm-faults.so") else None


def run(rounds: int, seed: int, folder: Path) -> Report:
    """All rounds on a growing talk; a new one begins when it has become long."""
    _warm_up(folder)
    rng, report = Random(seed), Report(library=_library() is not None)
    began, done, base = time.monotonic(), 0, 0
    home = folder
    for number in range(rounds):
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
    return report


def _warm_up(folder: Path) -> None:
    """Loads what every round needs, once."""
    with Engine.open(LcmConfig(database=str(folder / "warm.db"), **SETTINGS)) as engine:
        engine.ingest(LANE, [message(number) for number in range(40)])
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
    if fault == "kill":
        time.sleep(Random(seed).random() * _LONGEST_S)
        os.kill(child, signal.SIGKILL)
    with open(reading) as pipe:
        lines = pipe.read().split("\n")
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        report.faults.append(f"{title}: the process failed in an unforeseen way")
    acknowledged = max((int(line[3:]) for line in lines if line.startswith("ok ")), default=done)
    tried = max((int(line[4:]) for line in lines if line.startswith("try ")), default=done)
    report.refused += sum(line.startswith("refused") for line in lines)
    report.acknowledged += acknowledged - done
    return _proven(database, acknowledged, tried, report, title)


def _proven(database: str, acknowledged: int, tried: int, report: Report, title: str) -> int:
    """How many messages stand, after all promises were looked at."""
    if not Path(database).exists():
        if acknowledged:
            report.faults.append(f"{title}: the database is gone")
        return 0
    try:
        with Engine.open(LcmConfig(database=database, **SETTINGS)) as engine:
            stored = engine.messages(LANE)
            findings = [one for one in engine.check().findings if one.code not in _FORBIDDEN]
    except LcmError as error:
        report.faults.append(f"{title}: {error}")
        return acknowledged
    expected = [message(number) for number in range(tried)]
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
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if "FAULTS_INSIDE" not in os.environ:
        with failing_library() as library:
            inside = dict(os.environ, FAULTS_INSIDE="1", **({"LD_PRELOAD": library} if library else {}))
            sys.exit(
                subprocess.run([sys.executable, __file__, *sys.argv[1:]], env=inside, check=False).returncode
            )
    logging.getLogger("lcm_plugin").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="lcm-rounds-") as folder:
        report = run(options.rounds, options.seed, Path(folder))
    if options.json:
        print(json.dumps(asdict(report)))
    else:
        struck = ", ".join(f"{count} {name}" for name, count in sorted(report.struck.items()))
        print(f"{report.rounds} rounds in {report.seconds:.0f} s ({struck})")
        print(
            f"{report.acknowledged} messages acknowledged, {report.refused} calls refused with a clear error"
        )
        print(f"{report.lost} lost, {report.doubled} doubled")
        for fault in report.faults[:20]:
            print(fault)
    sys.exit(bool(report.faults))


if __name__ == "__main__":
    main()
