"""Compaction rules to compare with, as lists of token counts. `cost.py` replays talk through them.

Names, numbers and orders of steps are those of the public projects that they are called after; how large a
summary gets is the same for all: 35 % of a leaf's source and half of a condensation's, up to the target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from lcm_plugin.evaluation.bill import PROMPT_TOKENS, Entry

TAIL = 64
_WRAPPER_TOKENS = 60
_PREFIX_SHARE = 0.375
_HARD = 2
_ANY = 8


class Rule(Protocol):
    """A policy: what it holds of the talk so far."""

    def add(self, message: dict[str, Any], tokens: int) -> None: ...

    def after_turn(self) -> None: ...

    def context(self) -> list[Entry]: ...


Charge = Callable[[int, int], None]


@dataclass(slots=True)
class Everything:
    """No compaction: every request holds all of the talk."""

    entries: list[Entry] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)

    def add(self, message: dict[str, Any], tokens: int) -> None:
        self.entries.append(Entry(len(self.entries), tokens, message["role"] != "system"))
        self.roles.append(message["role"])

    def after_turn(self) -> None:
        """Nothing to do."""

    def context(self) -> list[Entry]:
        return list(self.entries)

    def pinned(self) -> int:
        """How many entries the system prompt takes."""
        return int(bool(self.roles) and self.roles[0] == "system")


@dataclass(slots=True)
class Window(Everything):
    """Only the newest messages, moving on with each one."""

    def context(self) -> list[Entry]:
        first = self.pinned()
        return self.entries[:first] + self.entries[first:][-TAIL:]


@dataclass(slots=True)
class Truncation(Everything):
    """Forgets the oldest half once three quarters of the window are full."""

    window: int = 0
    start: int = 0

    def after_turn(self) -> None:
        if sum(entry.tokens for entry in self.context()) > 0.75 * self.window:
            while sum(entry.tokens for entry in self.context()) > 0.5 * self.window:
                self.start += 1

    def context(self) -> list[Entry]:
        first = self.pinned()
        return self.entries[:first] + self.entries[max(first, self.start) :]


@dataclass(slots=True)
class _Item:
    key: object
    tokens: int
    role: str
    depth: int = -1


@dataclass(slots=True)
class Tree:
    """Leaves over raw messages and condensations over leaves, by a project's settings."""

    window: int
    charge: Charge
    trigger: int | None = 20_000
    threshold: float = 0.75
    chunk: int = 20_000
    leaf_fanout: int = 8
    fanout: int = 4
    depth: int = 1
    leaf_target: int = 2_400
    condensed_target: int = 2_000
    passes: int = 12
    items: list[_Item] = field(default_factory=list)
    added: int = 0

    def add(self, message: dict[str, Any], tokens: int) -> None:
        self.items.append(
            _Item(self.added, tokens, message["role"], -2 if message["role"] == "system" else -1)
        )
        self.added += 1

    def context(self) -> list[Entry]:
        return [Entry(item.key, item.tokens, item.depth == -1) for item in self.items]

    def after_turn(self) -> None:
        if self.trigger is not None and self._outside() >= self.trigger and self._leaf():
            self._condense(self.depth, self.leaf_fanout, self.fanout)
        if sum(item.tokens for item in self.items) > self.threshold * self.window:
            self._sweep()

    def _sweep(self) -> None:
        """Leaves, then condensations up to the depth set, and past it with the lowest fan-out if need be."""
        left = self.passes
        while left and self._leaf():
            left -= 1
        target = max(self.condensed_target, min(self.chunk, int(_PREFIX_SHARE * self.window)))
        for depth, fanouts in ((self.depth, (self.leaf_fanout, self.fanout)), (_ANY, (_HARD, _HARD))):
            while left and self._summary_tokens() > target and self._condense(depth, *fanouts):
                left -= 1

    def _tail(self) -> int:
        start = max(0, len(self.items) - TAIL)
        users = [n for n, item in enumerate(self.items) if item.role == "user"]
        return min(start, users[-1]) if users else start

    def _outside(self) -> int:
        return sum(item.tokens for item in self.items[: self._tail()] if item.depth == -1)

    def _summary_tokens(self) -> int:
        return sum(item.tokens for item in self.items if item.depth >= 0)

    def _leaf(self) -> bool:
        end = self._tail()
        start = next((n for n in range(end) if self.items[n].depth == -1), end)
        stop, size = start, 0
        while stop < end and self.items[stop].depth == -1:
            if size + self.items[stop].tokens > self.chunk and stop > start:
                break
            size += self.items[stop].tokens
            stop += 1
        if stop == start:
            return False
        self._replace(start, stop, 0, min(self.leaf_target, int(0.35 * size)))
        return True

    def _condense(self, deepest: int, leaf_fanout: int, fanout: int) -> bool:
        """One condensation of the shallowest run that is long enough."""
        for depth in range(deepest):
            run = [n for n, item in enumerate(self.items) if item.depth == depth]
            if len(run) >= (fanout if depth else leaf_fanout):
                size = sum(self.items[n].tokens for n in run)
                self._replace(run[0], run[-1] + 1, depth + 1, min(self.condensed_target, size // 2))
                return True
        return False

    def _replace(self, start: int, stop: int, depth: int, text: int) -> None:
        taken = self.items[start:stop]
        self.charge(sum(item.tokens for item in taken) + PROMPT_TOKENS, text)
        key = (depth, taken[0].key, taken[-1].key)
        self.items[start:stop] = [_Item(key, text + _WRAPPER_TOKENS, "user", depth)]


@dataclass(slots=True)
class HermesLcm(Tree):
    """hermes-lcm 0.7: past the threshold one leaf over a chunk, its size a fifth of the source.

    Condensed at any depth, which is kinder than its default of one.
    """

    def after_turn(self) -> None:
        if sum(item.tokens for item in self.items) <= self.threshold * self.window:
            return
        end = self._tail()
        size = min(self.chunk, self._outside())
        self.leaf_target = min(12_000, max(2_000, size // 5))
        if end and self._leaf():
            self._condense(self.depth, self.leaf_fanout, self.fanout)


RULES: dict[str, Callable[[int, Charge], Rule]] = {
    "no compaction": lambda window, charge: Everything(),
    "floor": lambda window, charge: Window(),
    "sliding window of 64 messages": lambda window, charge: Window(),
    "truncate at 75 % to 50 % (forgets)": lambda window, charge: Truncation(window=window),
    "lossless-claw 0.6 rules": lambda window, charge: Tree(window, charge),
    "lossless-claw 0.15 rules": lambda window, charge: Tree(window, charge, trigger=None),
    "hermes-lcm 0.7 defaults": lambda window, charge: HermesLcm(window, charge, leaf_fanout=4, depth=_ANY),
}
