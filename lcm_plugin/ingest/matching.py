"""Which stored row is which of a host's messages: scores, and the best alignment of two sequences.

The alignment is a global one with free ends (Needleman & Wunsch 1970, overlap variant): stored rows
that the host dropped cost little, a host's message passed over costs more, above all a
user's. A host's own id decides wherever there is one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lcm_plugin.characters import encodable
from lcm_plugin.store.records import MessageHead

_STORED_GAP = 0.02
_GAP_OPENS = 0.25
_NEVER = float("-inf")
_USER_GAP = 0.9
_OTHER_GAP = 0.6
_REPEATED = 0.5
_REWRITTEN = 0.6
TRIVIAL_CHARS = 32
_TELLING_CHARS = 16
_UNGUESSABLE = 12
_SUMMARY_CHARS = 600
_SUMMARY_WORDS = re.compile(
    r"\b(?:summar(?:y|ies|i[sz]ed)|compact(?:ed|ion)|condensed|continued from)\b", re.I
)
# What stands in a host's copy for what it cut or masked.
_LEFT_OUT = re.compile(r"\[[^\]]*\]|<[^<>]*>|\*{3,}|█+|…|\.{3}")
_DECORATION = re.compile(r"\s*(?:\[.*\]|<([A-Za-z][\w-]*)\b[^>]*>.*</\1>)\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Incoming:
    """A host's message, reduced to what alignment looks at.

    ``speaks``: a user says something in it. ``ours``: a text that we made. ``refers``: it holds one of our file
    references. ``edited``: the host's id of it is stored with other words, so that only a row with the very same words
    is the same message.
    """

    role: str
    identity: int
    text: str
    host_id: str | None = None
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    speaks: bool = False
    ours: bool = False
    has_reasoning: bool = False
    refers: bool = False
    edited: bool = False


LoadTexts = Callable[[Sequence[int]], dict[int, str]]


def best_alignment(
    items: Sequence[Incoming], stored: Sequence[MessageHead], load_texts: LoadTexts
) -> list[tuple[int, int]]:
    score = _Scores(items, stored, load_texts)
    grid = _Grid(items, len(stored), score)
    return grid.trace(*grid.best_end())


class _Grid:
    """The scores of all beginnings of a list against all beginnings of the stored rows.

    ``_best[i][j]`` is the best score for ``i`` items and ``j`` rows, ``_gap[i][j]`` the best that ends in
    stored rows which the list lacks. Column 0 is the score while nothing is aligned yet; it holds for any
    number of rows, since what a host dropped before its first message costs nothing. A gap between aligned
    rows costs more to begin than to go on (affine, Gotoh 1982): a host drops a run, it does not pick.
    """

    def __init__(self, items: Sequence[Incoming], rows: int, score: _Scores) -> None:
        self._score = score
        width = rows + 1
        self._best = [[0.0] * width]
        self._gap = [[_NEVER] * width]
        for position, item in enumerate(items):
            above, passed = self._best[-1], score.gap(item)
            start = above[0] - passed
            best, gap = [start], [_NEVER]
            for column in range(1, width):
                gap.append(max(best[-1] - _GAP_OPENS, gap[-1]) - _STORED_GAP)
                value = max(above[column] - passed, gap[-1], start)
                match = score.match(position, column - 1)
                best.append(max(value, above[column - 1] + match) if match else value)
            self._best.append(best)
            self._gap.append(gap)

    def best_end(self) -> tuple[int, int]:
        """Where the best alignment ends; rows at the end that the list lacks cost a little each."""
        rows = len(self._best[0]) - 1
        ends = [
            (value - _STORED_GAP * (rows - column), -item, column)
            for item, row in enumerate(self._best)
            for column, value in enumerate(row)
        ]
        _, item, column = max(ends)
        return -item, column

    def trace(self, item: int, column: int) -> list[tuple[int, int]]:
        """The aligned positions of items and rows on the way to a cell."""
        pairs: list[tuple[int, int]] = []
        while item > 0 and column > 0 and self._best[item][column] != self._best[item][0]:
            value = self._best[item][column]
            match = self._score.match(item - 1, column - 1)
            if match and value == self._best[item - 1][column - 1] + match:
                pairs.append((item - 1, column - 1))
                item, column = item - 1, column - 1
            elif value == self._gap[item][column]:
                column = self._gap_start(item, column)
            else:
                item -= 1
        return pairs[::-1]

    def _gap_start(self, item: int, column: int) -> int:
        """The column before a gap of stored rows that ends at a column."""
        best, gap = self._best[item], self._gap[item]
        while gap[column] != best[column - 1] - _GAP_OPENS - _STORED_GAP:
            column -= 1
        return column - 1


class _Scores:
    """How well a host's message and a stored one go together; 0 when they do not."""

    def __init__(
        self, items: Sequence[Incoming], stored: Sequence[MessageHead], load_texts: LoadTexts
    ) -> None:
        self._items = items
        self._stored = stored
        counts = Counter(item.identity for item in items) | Counter(head.identity for head in stored)
        self._repeated = {identity for identity, count in counts.items() if count > 1}
        known = {head.identity for head in stored}
        # A message that was decorated may have been said again in plain words, so all users' words count.
        said = [head.message_id for head in stored if head.role == "user"]
        changed = any(item.role == "user" and item.identity not in known for item in items)
        self._texts = load_texts(said) if said and changed else {}

    def gap(self, item: Incoming) -> float:
        return _USER_GAP if item.role == "user" else _OTHER_GAP

    def match(self, position: int, column: int) -> float:
        item, head = self._items[position], self._stored[column]
        if item.role != head.role:
            return 0.0
        if item.edited and item.identity != head.identity:
            return 0.0
        if item.host_id and head.host_id:
            return 1.0 if item.host_id == head.host_id else 0.0
        if item.identity == head.identity:
            # Of two equal rows the one that still stands.
            lost = _STORED_GAP if head.withdrawn_at is not None else 0.0
            return (_REPEATED if item.identity in self._repeated else 1.0) - lost
        if item.answers and item.answers == head.answers:
            return _REWRITTEN
        text = self._texts.get(head.message_id)
        return _REWRITTEN if text and _decorated(encodable(item.text), encodable(text)) else 0.0


def _decorated(one: str, other: str) -> bool:
    """Whether two texts differ only by a bracketed or tagged note before or after."""
    longer, shorter = (one, other.strip()) if len(one) > len(other) else (other, one.strip())
    longer = longer.strip()
    if not shorter or longer == shorter:
        return False
    if longer.startswith(shorter):
        return _DECORATION.fullmatch(longer[len(shorter) :]) is not None
    return longer.endswith(shorter) and _DECORATION.fullmatch(longer[: -len(shorter)]) is not None


def is_reworded(item: Incoming, head: MessageHead, text: str) -> bool:
    """Whether a message has words of its own at a stored one's place, and is no copy that a host cut or decorated."""
    if item.role not in ("user", "assistant") or item.calls or item.answers or head.calls or head.answers:
        return False
    new, old = " ".join(encodable(item.text).split()), " ".join(encodable(text).split())
    is_note = _DECORATION.fullmatch(item.text) or (new.startswith("(") and new.endswith(")"))
    if not new or not old or old in new or is_note:
        return False
    end = 0
    for piece in _LEFT_OUT.split(new):
        end = old.find(piece.strip(), end)
        if end < 0:
            return True
    return False


def is_said(item: Incoming) -> bool:
    """Whether a user said something, rather than a host put in a bracketed or tagged note."""
    return item.role == "user" and _DECORATION.fullmatch(item.text) is None


def is_summary(item: Incoming) -> bool:
    """Whether a message reads as the account that a host which compacts its list puts where the beginning was."""
    return _SUMMARY_WORDS.search(item.text[:_SUMMARY_CHARS]) is not None


def is_proof(item: Incoming, head: MessageHead) -> bool:
    """Whether two aligned messages are surely the same one."""
    if is_same_id(item, head):
        return True
    if any(len(call_id) >= _UNGUESSABLE and ":" not in call_id for call_id in (*item.calls, *item.answers)):
        return True
    least = {"user": _TELLING_CHARS, "assistant": TRIVIAL_CHARS}.get(item.role)
    return least is not None and len(item.text) >= least


def is_same_id(item: Incoming, head: MessageHead) -> bool:
    return item.host_id is not None and item.host_id == head.host_id


def may_be_same(item: Incoming, head: MessageHead) -> bool:
    """Whether a host's own ids do not say that two messages are different ones."""
    return not (item.host_id and head.host_id) or is_same_id(item, head)


def is_request(item: Incoming) -> bool:
    """Whether a message begins a turn: a user's, or a note in a user's name."""
    return item.speaks and not item.ours
