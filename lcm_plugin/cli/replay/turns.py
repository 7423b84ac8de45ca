"""Cutting a transcript into turns, and turns into model calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from lcm_plugin.cli.transcripts import Entry

_LEADING = ("system", "developer")


@dataclass(frozen=True, slots=True)
class TurnSlice:
    """One turn: its messages, and the position of its first one in the transcript."""

    start: int
    entries: tuple[Entry, ...]

    def calls(self) -> Iterator[tuple[list[Entry], bool]]:
        """What became known before each model answer (flag true), and what was left at the end (false).

        Joined together the pieces are the turn, so that each message is handed over once.
        """
        pending: list[Entry] = []
        for entry in self.entries:
            if entry.message["role"] == "assistant":
                yield pending, True
                pending = []
            pending.append(entry)
        yield pending, False


def split_turns(entries: Sequence[Entry], known: int = 0) -> Iterator[TurnSlice]:
    """Turns from position ``known`` on: each starts at a user message or the system message before it."""
    start = known
    for position in range(known + 1, len(entries)):
        if _starts_turn(entries, position):
            yield TurnSlice(start, tuple(entries[start:position]))
            start = position
    if start < len(entries):
        yield TurnSlice(start, tuple(entries[start:]))


def _starts_turn(entries: Sequence[Entry], position: int) -> bool:
    if entries[position - 1].message["role"] in _LEADING:
        return False
    following = (entry.message["role"] for entry in islice(entries, position, None))
    return next((role for role in following if role not in _LEADING), None) == "user"
