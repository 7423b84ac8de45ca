"""Keeping the answers of the tools within their caps, counted as a host sends them: the whole JSON text."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

Count = Callable[[str], int]
View = dict[str, Any]

# What separates an object from the next one in a list.
SEPARATOR_TOKENS = 3
# The head of an object (its id, kind, time ...), about; and the least room in which a large object is begun.
HEAD_TOKENS, LEAST_PIECE = 120, 250
# Of the room, what the head of an object may take.
HEAD_SHARE = 0.5
# How much less text is tried when an object did not fit.
SHRINK = 0.9
_CHARS_PER_TOKEN = 4


def as_sent(answer: object) -> str:
    """An answer as the hosts send it to a model."""
    return json.dumps(answer, ensure_ascii=False)


def cost_of(value: object, count: Count) -> int:
    """The tokens of a value as sent."""
    return count(as_sent(value))


@dataclass(frozen=True, slots=True)
class Receiver:
    """What the receiver of an answer takes of it: so many characters of the whole text as sent; None for any number.

    A cap in tokens bounds the characters too where a text counts as a quarter of its characters at least.
    """

    most_chars: int | None = None

    @property
    def most_tokens(self) -> int | None:
        """The tokens within which an answer is short enough."""
        return None if self.most_chars is None else self.most_chars // _CHARS_PER_TOKEN

    def count(self, count: Count) -> Count:
        """The tokens of a text, or a quarter of its characters where that is more."""
        if self.most_chars is None:
            return count
        return lambda text: max(count(text), -(-len(text) // _CHARS_PER_TOKEN))


@dataclass(frozen=True, slots=True)
class Slice:
    """A piece of a text: where it begins and ends in it, in characters, and its tokens."""

    text: str
    start: int
    end: int
    tokens: int


def take(text: str, start: int, cap: int, count: Count) -> Slice:
    """The longest piece from ``start`` of about ``cap`` tokens at most; at least one character."""
    width = max(1, cap) * _CHARS_PER_TOKEN
    while True:
        piece = text[start : start + width]
        tokens = count(piece)
        if tokens <= cap or len(piece) <= 1:
            return Slice(piece, start, start + len(piece), tokens)
        width = max(1, min(len(piece) - 1, int(len(piece) * cap / tokens * 0.95)))


def widest(make: Callable[[int], View], room: int, count: Count) -> View:
    """What ``make`` returns for the most tokens of text with which it fits the room; else for one token."""
    tokens = max(1, room)
    while True:
        made = make(tokens)
        over = cost_of(made, count) - room
        if over <= 0 or tokens == 1:
            return made
        tokens = max(1, min(tokens - over, int(tokens * SHRINK)))


def fitting_head(head: View, keep: Collection[str], room: int, count: Count) -> View:
    """A head without its largest entries outside ``keep``, until it leaves room for text; ``left_out`` names them."""
    most = int(room * HEAD_SHARE)
    optional = sorted((key for key in head if key not in keep), key=lambda key: cost_of(head[key], count))
    left_out: list[str] = []
    while optional and cost_of(head, count) > most:
        left_out.append(optional.pop())
        head = {key: value for key, value in head.items() if key not in left_out}
        if room > HEAD_TOKENS:
            head["left_out"] = left_out
    return head


@dataclass(slots=True)
class Items:
    """The objects of one page, in order, as many as fit the room."""

    room: int
    count: Count
    views: list[View] = field(default_factory=list)
    used: int = 0

    def add(self, within: Callable[[int], View], text_tokens: int, beside: int = 0) -> bool:
        """Appends what ``within`` returns for the room that is left; False when it waits for the next page.

        ``text_tokens``: of the object's whole text. An object that is larger than a page is cut, any other is not.
        ``beside``: what naming the object elsewhere in the answer costs.
        """
        left = self.room - self.used - beside
        whole = text_tokens + HEAD_TOKENS
        if self.views and whole > left and (whole <= self.room or left < LEAST_PIECE):
            return False
        view = within(left)
        cost = cost_of(view, self.count) + SEPARATOR_TOKENS
        if self.views and cost > left:
            return False
        self.views.append(view)
        self.used += cost + beside
        return True
