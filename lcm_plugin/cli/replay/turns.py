"""Splits a transcript into turns, and turns into model calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from lcm_plugin.cli.transcripts import Entry

_LEADING = ("system", "developer")
_ASKING = ("user", "tool", "function")


@dataclass(frozen=True, slots=True)
class TurnSlice:
    """One turn: its messages, the position of its first one, and the role of the message before it."""

    start: int
    entries: tuple[Entry, ...]
    role_before: str = ""

    def calls(self) -> Iterator[tuple[list[Entry], bool]]:
        """The messages that came before each model call (flag true), and those left at the end (false).

        A model is asked where an assistant message follows a user's or a tool's; a greeting at the
        start, or a second assistant message in a row, is something the host said by itself. Joined
        together the pieces are the turn, so that each message is handed over once.
        """
        pending: list[Entry] = []
        before = self.role_before
        for entry in self.entries:
            role = entry.message["role"]
            if role == "assistant" and before in _ASKING:
                yield pending, True
                pending = []
            pending.append(entry)
            before = role if role not in _LEADING else before
        yield pending, False


def split_turns(entries: Sequence[Entry], known: int = 0) -> Iterator[TurnSlice]:
    """Turns from position ``known`` on: each starts at a user message or the system message before it."""
    start = known
    for position in range(known + 1, len(entries)):
        if _starts_turn(entries, position):
            yield _slice(entries, start, position)
            start = position
    if start < len(entries):
        yield _slice(entries, start, len(entries))


def _slice(entries: Sequence[Entry], start: int, end: int) -> TurnSlice:
    roles = (entry.message["role"] for entry in reversed(entries[:start]))
    before = next((role for role in roles if role not in _LEADING), "")
    return TurnSlice(start, tuple(entries[start:end]), before)


def _starts_turn(entries: Sequence[Entry], position: int) -> bool:
    if entries[position - 1].message["role"] in _LEADING:
        return False
    following = (entry.message["role"] for entry in islice(entries, position, None))
    return next((role for role in following if role not in _LEADING), None) == "user"
