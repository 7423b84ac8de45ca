"""The host process of a haul: plays steps of many sessions in turn and prints a line after each. It may be killed.

``python -m lcm_plugin.evaluation.haul.host OPTIONS`` with the options as JSON; see `Options`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from lcm_plugin.config import LcmConfig
from lcm_plugin.engine import Engine
from lcm_plugin.evaluation.haul.talk import MODES, HostList, Step, key_of, pieces, shape_of, steps
from lcm_plugin.messages.validate import validate
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import Reset, Session, Turn

ACTIVE = 8
"""So many sessions talk at a time."""
_IDLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """``counts`` has the steps of each session, ``done`` how many of them were played before."""

    database: str
    seed: int
    window: int
    counts: list[int]
    done: list[int]


@dataclass(frozen=True, slots=True)
class Played:
    """One step that was played: its context's largest size, and what a provider would refuse in it."""

    session: int
    step: int
    largest: int
    faults: int


class Player:
    """One session in this process."""

    def __init__(self, plugin: LcmPlugin, options: Options, session: int) -> None:
        self._plugin = plugin
        self._window = options.window
        self._session = Session(key_of(session))
        self._mode = MODES[shape_of(session)]
        self._list = HostList()
        self.left = islice(steps(options.seed, session), options.counts[session])
        for step in islice(self.left, options.done[session]):
            self._list.begin(step)
            self._list.messages += step.messages

    def play(self, step: Step) -> tuple[int, int]:
        """One step through the hooks: the largest context and the faults in all of them."""
        largest = faults = 0
        if step.kind in ("new", "reset"):
            self._plugin.before_reset(Reset(self._session, step.kind))
        self._list.begin(step)
        for piece, answer_follows in pieces(step.messages):
            self._list.messages += piece
            sent = piece if self._mode == "append" else list(self._list.messages)
            turn = Turn(self._session, sent, mode=self._mode, window=self._window)
            if not answer_follows:
                self._plugin.after_turn(turn)
            elif (context := self._plugin.before_turn(turn)) is not None:
                largest = max(largest, context.tokens)
                faults += len(validate(context.messages))
        self._plugin.engine.wait_idle(_IDLE_SECONDS)
        return largest, faults


def play(options: Options) -> Iterator[Played]:
    """Plays what is left, some sessions at a time in turn."""
    config = LcmConfig(
        database=options.database,
        # Weeks of talk pass in minutes: the guards against a runaway bill must not see that.
        summary_max_calls_per_window=10_000_000,
        summary_max_tokens_per_window=1_000_000_000,
    )
    with Engine.open(config) as engine:
        plugin = LcmPlugin(engine=engine)
        waiting = iter(
            [number for number, count in enumerate(options.counts) if options.done[number] < count]
        )
        active = {number: Player(plugin, options, number) for number in islice(waiting, ACTIVE)}
        played = list(options.done)
        while active:
            for number, player in list(active.items()):
                step = next(player.left, None)
                if step is None:
                    del active[number]
                    active |= {other: Player(plugin, options, other) for other in islice(waiting, 1)}
                    continue
                largest, faults = player.play(step)
                played[number] += 1
                yield Played(number, played[number], largest, faults)


def _memory() -> float:
    """MiB of this process; 0 where the system does not say it."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    resident = next((line for line in status.splitlines() if line.startswith("VmRSS")), "VmRSS: 0")
    return round(int(resident.split()[1]) / 1024, 1)


def main() -> None:
    logging.getLogger("lcm_plugin").setLevel(logging.ERROR)
    for one in play(Options(**json.loads(sys.argv[1]))):
        taken = {"host": os.getpid(), "cpu": round(time.process_time(), 2), "memory": _memory()}
        print(json.dumps({**asdict(one), **taken}), flush=True)


if __name__ == "__main__":
    main()
