"""A clock that a test moves."""

from __future__ import annotations

START = 1_780_000_000_000


class Clock:
    """A time in ms that moves when a test moves it, and by ``step`` whenever it is asked for."""

    def __init__(self, now: int = START, step: int = 0) -> None:
        self.now = now
        self._step = step

    def __call__(self) -> int:
        self.now += self._step
        return self.now

    def forward(self, ms: float) -> None:
        self.now += int(ms)
