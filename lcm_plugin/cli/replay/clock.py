"""The replay's clock: time follows the transcript, so that two runs make the same database."""

from __future__ import annotations

from datetime import UTC, datetime

START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
STEP = 30_000


class TranscriptClock:
    """Milliseconds since the epoch at a position of the transcript: ``START`` plus 30 s a message."""

    def __init__(self) -> None:
        self._now = START

    def __call__(self) -> int:
        return self._now

    def set_position(self, position: int) -> None:
        """Moves to the time of the message at this position."""
        self._now = START + position * STEP
