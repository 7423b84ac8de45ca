"""What the plugin adds to a first message in the real program: memory, processor time, and the way out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from world import BIN, World

Make = Callable[..., World]
RUNS = 3
MEGABYTES, CPU_SECONDS, EXIT_SECONDS = 40, 1.0, 1.0


@dataclass(frozen=True)
class Cost:
    """Of one process: processor time, memory at its largest, and from its answer to its end."""

    cpu: float
    megabytes: float
    leaving: float


def one_message(home: World) -> Cost:
    """Asks once in a process of its own."""
    out, inlet = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(inlet, 1)
        os.dup2(os.open(home.home / "errors.txt", os.O_CREAT | os.O_WRONLY), 2)
        os.chdir(home.home)
        os.execve(str(BIN / "hermes"), ["hermes", "chat", "-Q", "-q", "hello there"], dict(home.environment))
    os.close(inlet)
    answered, shown = 0.0, ""
    with os.fdopen(out, errors="replace") as lines:
        for line in lines:
            shown += line
            if "Noted: hello there" in line:
                answered = time.monotonic()
    _, status, use = os.wait4(child, 0)
    assert status == 0, shown
    assert answered, shown
    return Cost(use.ru_utime + use.ru_stime, use.ru_maxrss / 1024, time.monotonic() - answered)


def test_a_first_message_costs_little_more_than_in_plain_hermes_and_so_does_the_exit(
    world: Make, figure: Callable[[str], None]
) -> None:
    homes = [world(name="plain", enabled=(), selected="compressor"), world(name="ours")]
    for home in homes:
        one_message(home)  # which makes its databases
    runs = [[one_message(home) for home in homes] for _ in range(RUNS)]
    plain, ours = zip(*runs, strict=True)
    cpu = min(one.cpu for one in ours) - min(one.cpu for one in plain)
    more = min(one.megabytes for one in ours) - min(one.megabytes for one in plain)
    figure(f"a first message in Hermes: {cpu:+.2f} s of CPU time, {more:+.0f} MB")
    assert more < MEGABYTES
    assert cpu < CPU_SECONDS
    # Other programs hold up single runs; one pair without them is enough.
    assert min(mine.leaving - theirs.leaving for theirs, mine in runs) < EXIT_SECONDS
