"""What the first turn of a fresh process costs on a database that holds a million messages.

    python benchmarks/first_turn.py --database PATH [--messages 1000000] [--runs 5] [--json]

A database that is not there is filled first, as `web_load.py` does: 500 sessions, one of them with a tenth of all
messages, compacted and indexed. Each run is a process of its own. CPU milliseconds, median: ``import lcm_plugin``; its
names, which load what a host's adapter loads; the first before-turn and after-turn, with everything that opens for them;
and the next turn. Each run plays its turns in the long session, in one of a few thousand messages, and in a new one.
The resident memory that the first turn adds is that of the process with its names loaded.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

SESSIONS = 500
MARKS = {"import lcm_plugin": 150, "first turn": 250}
# A process of its own, whose CPU time begins with Python's start: what that takes is taken off.
_RUN = """
import json, resource, sys, time
clock = time.process_time
began = clock()
import lcm_plugin
imported = clock()
from lcm_plugin import LcmConfig, LcmPlugin, Session, Turn
named, memory = clock(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
plugin, session = LcmPlugin(LcmConfig(database=sys.argv[1])), Session(sys.argv[2])

def turn(asked, said):
    request, answer = {"role": "user", "content": asked}, {"role": "assistant", "content": said}
    context = plugin.before_turn(turn=Turn(session, [request], mode="append", window=128_000))
    plugin.after_turn(turn=Turn(session, [answer], mode="append", window=128_000))
    assert context is not None and context.messages, "no context"

turn("What did we decide about the connection configuration of the server?", "To raise its limit to 30.")
first, most = clock(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
plugin.engine.wait_idle(60)
rested = clock()
turn("And for the other one?", "The same.")
second = clock()
plugin.close()
times = {"import lcm_plugin": imported - began, "its names": named - imported, "first turn": first - named,
    "second turn": second - rested}
print(json.dumps({name: 1000 * spent for name, spent in times.items()} | {"MiB": (most - memory) / 1024}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.database.exists():
        fill(options.database, options.messages)
    sessions = {"the long session": SESSIONS // 2, "a usual session": 1, "a new session": SESSIONS}
    found = {
        name: measured(options.database, f"agent:main:load-{number:04d}", options.runs)
        for name, number in sessions.items()
    }
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)


def fill(database: Path, messages: int) -> None:
    """Makes the database of `web_load.py`."""
    from web_load import _WHOLE, _Clock, build

    from lcm_plugin import Engine, LcmConfig

    with Engine.open(LcmConfig(database=str(database), **_WHOLE), clock=_Clock()) as engine:
        build(engine, messages, SESSIONS, messages // 10)


def measured(database: Path, session: str, runs: int) -> dict[str, float]:
    """The medians of some processes, after one that fills the system's cache of the file."""
    command = [sys.executable, "-c", _RUN, str(database), session]
    answers = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(runs + 1)
    ]
    return {name: round(statistics.median(one[name] for one in answers[1:]), 1) for name in answers[0]}


def show(found: dict[str, dict[str, float]]) -> None:
    """The figures as a table; what is over its mark says so."""
    names = list(next(iter(found.values())))
    print(f"{'CPU ms':<18}" + "".join(f"{name:>19}" for name in names))
    for session, times in found.items():
        over = [name for name, mark in MARKS.items() if times[name] > mark]
        print(f"{session:<18}" + "".join(f"{times[name]:>19.1f}" for name in names), end="")
        print(f"  over the mark: {', '.join(over)}" if over else "")


if __name__ == "__main__":
    main()
