"""Several processes on one home, and processes that are killed at any moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
from collections.abc import Callable

import pytest
from fakes.model_server import ModelRequest
from fakes.speech import turn
from world import World, texts

Make = Callable[..., World]

SMALL = {
    "contextThreshold": 0.07,
    "freshTailCount": 6,
    "leafChunkTokens": 2000,
    "summaryMaxCallsPerWindow": 1000,
}
SECONDS = 120


def test_three_processes_at_once_share_the_database(world: Make) -> None:
    home = world(lcm=SMALL)
    said = {f"lane-{lane}": [turn(n, 400, seed=lane) for n in range(1, 16)] for lane in range(3)}
    running = [home.start("loop", turns=turns, session_id=name) for name, turns in said.items()]
    assert [process.wait(SECONDS) for process in running] == [0, 0, 0]
    for name, turns in said.items():
        rows = home.stored(f"agent:main:cli:{name}")
        assert texts(rows) == [line for text in turns for line in (text, f"Noted: {text[:80]}".strip())]
    assert len(home.summaries()) >= 3
    assert home.server.invalid == []
    assert home.problems() == []


class Victim:
    """A conversation whose process is killed again and again, at a request or some moments after it."""

    def __init__(self, home: World, said: list[str], seed: int, in_place: bool = True) -> None:
        self.home = home
        self.said = said
        self._options = {"session_id": "victim", "resume": True, "in_place": in_place}
        self._process: subprocess.Popen[bytes] | None = None
        self._random = random.Random(seed)
        self._left = 0
        home.server.add_rule(self._on_request)

    def _on_request(self, request: ModelRequest) -> None:
        """Kills when it is time to."""
        self._left -= 1
        if self._left == 0 and self._process is not None:
            moment = self._random.choice([0.0, 0.02, 0.1, 0.3])
            kill(self._process, moment)

    def live(self, kill_after: int) -> int:
        """One process: goes on with the talk until it is over (0) or killed."""
        self._left = kill_after
        rest = self.said[self.heard() :]
        self._process = self.home.start("loop", turns=rest, **self._options)
        return self._process.wait(SECONDS)

    def heard(self) -> int:
        """How many of the turns the host has on disk."""
        rows = self.home.host_rows() if (self.home.home / "state.db").exists() else []
        heard = {text for role, text in rows if role == "user"}
        return sum(1 for text in self.said if any(text in row for row in heard))


def kill(process: subprocess.Popen[bytes], after: float) -> None:
    """SIGKILL, at once or a little later."""
    if after == 0:
        process.send_signal(signal.SIGKILL)
    else:
        threading.Timer(after, process.send_signal, (signal.SIGKILL,)).start()


@pytest.mark.parametrize("in_place", [True, False])
def test_a_conversation_survives_being_killed_at_any_moment(world: Make, in_place: bool) -> None:
    home = world(lcm=SMALL)
    said = [
        f'CALL todo {{"todos": [{{"id": "{n}", "content": "water them", "status": "pending"}}]}}'
        if n % 5 == 0
        else turn(n, 400)
        for n in range(1, 46)
    ]
    seed = int(os.environ.get("KILL_SEED", "9"))
    print(f"the moments of the kills: KILL_SEED={seed}")
    victim = Victim(home, said, seed, in_place)
    ends = [victim.live(kill_after) for kill_after in (1, 9, 12, 6, 8)]
    assert ends == [-signal.SIGKILL] * len(ends)
    assert 10 < victim.heard() < len(said)
    assert victim.live(kill_after=-1) == 0
    rows = home.stored()
    assert texts(rows, "user") == said
    noted = [text for text in texts(rows, "assistant") if text.startswith("Noted: ")]
    assert len(set(noted)) == len(noted) >= 0.8 * len(said) - len(ends)
    calls = [call["id"] for row in rows for call in row.get("tool_calls") or ()]
    results = [row["tool_call_id"] for row in rows if row["role"] == "tool"]
    assert len(set(calls)) == len(calls) >= 0.2 * len(said) - len(ends)
    assert len(set(results)) == len(results)
    assert set(results) <= set(calls)
    assert home.server.invalid == []
    assert home.problems() == []
