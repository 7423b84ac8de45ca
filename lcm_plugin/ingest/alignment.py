"""Which of a host's messages are new.

``sync`` hands over the host's whole current list. It is aligned with the stored tail by content and
position, and what follows the last aligned message is new. The host may have dropped, rewritten or
decorated older messages and may have put in its own; honest repeats stay apart because a stored row
aligns with one message only. ``append`` hands over a delta: all of it is new, except what the end of
the store proves to be handed over again. (``all`` needs no comparison: whatever is handed over is new.)

The alignment is a global one with free ends (Needleman & Wunsch 1970, overlap variant): stored rows
that the host dropped cost little, a host's message passed over costs more, above all a
user's. A host's own id decides wherever there is one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lcm_plugin.store.records import MessageHead

WINDOW_SLACK = 64
_CONTIGUOUS = 8
_LOST_AT_END = 3
_STORED_GAP = 0.02
_GAP_OPENS = 0.25
_NEVER = float("-inf")
_USER_GAP = 0.9
_OTHER_GAP = 0.6
_REPEATED = 0.5
_REWRITTEN = 0.6
_TRIVIAL_CHARS = 32
_TELLING_CHARS = 16
_UNGUESSABLE = 12
_DECORATION = re.compile(r"\s*(?:\[.*\]|<([A-Za-z][\w-]*)\b[^>]*>.*</\1>)\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Incoming:
    """A host's message, reduced to what alignment looks at.

    ``ours``: a text that we made. ``refers``: it holds one of our file references.
    """

    role: str
    identity: int
    text: str
    host_id: str | None = None
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    ours: bool = False
    has_reasoning: bool = False
    refers: bool = False


FindRows = Callable[[Sequence[int]], list[MessageHead]]
LoadTexts = Callable[[Sequence[int]], dict[int, str]]


def new_in_list(
    incoming: Sequence[Incoming],
    stored: Sequence[MessageHead],
    known_ids: set[str],
    load_texts: LoadTexts,
    find_rows: FindRows,
) -> list[int]:
    """Indices of the new messages of a host's whole list.

    ``stored`` is the newest part of the conversation, at least `WINDOW_SLACK` rows longer than the
    list unless the conversation is shorter. ``known_ids`` are the host ids that are stored anywhere in
    the lane. ``load_texts`` gives the words of stored messages, ``find_rows`` the rows of the whole
    conversation with some identities, in order; both are asked only when needed.
    """
    theirs = [index for index, item in enumerate(incoming) if not item.ours]
    items = [incoming[index] for index in theirs]
    pairs = _align(items, stored, load_texts)
    if _may_be_stale(items, pairs, stored):
        pairs = _align_with_all(items, pairs, find_rows, load_texts)
    aligned, last = {position for position, _ in pairs}, pairs[-1][0] if pairs else -1
    new = [
        position
        for position, item in enumerate(items)
        if item.host_id not in known_ids and (position > last or _is_new_by_id(item, position, aligned))
    ]
    return [theirs[position] for position in new if not _is_echo(items, position)]


def new_in_delta(
    incoming: Sequence[Incoming], stored: Sequence[MessageHead], known_ids: set[str]
) -> list[int]:
    """Indices of the new messages of a host's delta."""
    items = [(index, item) for index, item in enumerate(incoming) if not item.ours]
    repeated = _repeated_head([item for _, item in items], stored)
    fresh = items[repeated:]
    return [
        index
        for position, (index, item) in enumerate(fresh)
        if item.host_id not in known_ids and not _is_echo([other for _, other in fresh], position)
    ]


def replayed_head(
    incoming: Sequence[Incoming],
    before: Sequence[MessageHead],
    since: Sequence[MessageHead],
    load_texts: LoadTexts,
) -> int:
    """How many leading messages of a host's list come from before a ``/new`` or ``/reset``.

    ``before`` is the end of what was said until then, ``since`` what was said after. A list that begins
    as ``since`` does has begun anew. Else at least two messages must align, up to the end of ``before``
    and with more than small talk among them, so that first words ("hi", "hello") said again are no replay.
    """
    spoken = [index for index, item in enumerate(incoming) if not item.ours]
    items = [incoming[index] for index in spoken]
    first = next((item for item in items if item.role != "system"), None)
    begun = next((head for head in since if head.role != "system"), None)
    if first is None or (begun is not None and first.identity == begun.identity):
        return 0
    pairs = _align(items, before, load_texts)
    words = [items[position] for position, _ in pairs if items[position].role != "system"]
    if len(words) < 2 or pairs[-1][1] < len(before) - _LOST_AT_END:
        return 0
    proven = len(words) >= _CONTIGUOUS or any(map(_is_substantial, words))
    return spoken[pairs[-1][0]] + 1 if proven else 0


def replayed_turn(incoming: Sequence[Incoming], before: Sequence[MessageHead]) -> bool:
    """Whether a whole delta repeats the end of a conversation that was reset."""
    items = [item for item in incoming if not item.ours]
    overlap = _overlap([item.identity for item in items], [head.identity for head in before])
    return 0 < overlap == len(items) and _is_whole_turn(items)


def _align(
    items: Sequence[Incoming], stored: Sequence[MessageHead], load_texts: LoadTexts
) -> list[tuple[int, int]]:
    """The aligned positions, of the items and of the stored messages; none when nothing aligns."""
    if not items or not stored:
        return []
    overlap = _overlap([item.identity for item in items], [head.identity for head in stored])
    if (
        overlap
        and (overlap >= _CONTIGUOUS or overlap == len(stored))
        and not _ids_differ(items, stored, overlap)
    ):
        return [(position, len(stored) - overlap + position) for position in range(overlap)]
    pairs = _proven_alignment(items, stored, load_texts)
    if not pairs or (len(pairs) == 1 and pairs[-1][1] != len(stored) - 1):
        return []
    return pairs


def _may_be_stale(
    items: Sequence[Incoming], pairs: Sequence[tuple[int, int]], stored: Sequence[MessageHead]
) -> bool:
    """Whether most of a list is unknown to the newest rows, and none of it to the very newest."""
    if not stored or stored[0].seq == 1 or (pairs and pairs[-1][1] >= len(stored) - _LOST_AT_END):
        return False
    spoken = sum(item.role != "system" for item in items)
    return spoken > 1 and 2 * len(pairs) < spoken


def _align_with_all(
    items: Sequence[Incoming],
    pairs: list[tuple[int, int]],
    find_rows: FindRows,
    load_texts: LoadTexts,
) -> list[tuple[int, int]]:
    """The alignment with rows from anywhere in the conversation, when it is proven and the better one."""
    found = _proven_alignment(items, find_rows([item.identity for item in items]), load_texts)
    words = [items[position] for position, _ in found if items[position].role != "system"]
    proven = len(words) >= _CONTIGUOUS or (len(words) >= 2 and any(map(_is_substantial, words)))
    return found if proven and len(found) > len(pairs) else pairs


def _proven_alignment(
    items: Sequence[Incoming], stored: Sequence[MessageHead], load_texts: LoadTexts
) -> list[tuple[int, int]]:
    """The best alignment that passes over no user's message without proof that it is an old one.

    Calls with ids that a model made, their results and small talk recur from turn to turn. Behind a
    user's message that aligns with nothing they prove nothing, and the message is a new one. That it is old
    is proven, too, by a stored row near by with its words, which the host has in another order: it does
    when several turns go on at the same time.
    """
    end = len(items)
    while True:
        pairs = _best_alignment(items[:end], stored, load_texts)
        aligned = {position for position, _ in pairs}
        proofs = [position for position, column in pairs if _is_proof(items[position], stored[column])]
        doubtful = range(proofs[-1] + 1 if proofs else 0, pairs[-1][0] if pairs else 0)
        moved = _left_over(pairs, stored, proofs[-1] if proofs else 0)
        passed = [
            at
            for at in doubtful
            if at not in aligned and _is_said(items[at]) and items[at].identity not in moved
        ]
        if not passed:
            return pairs
        end = min(position for position in aligned if position > passed[-1])


def _left_over(pairs: Sequence[tuple[int, int]], stored: Sequence[MessageHead], proven: int) -> set[int]:
    """The identities of the rows that nothing aligns with, from a little before the last proof to the end."""
    columns = {column for _, column in pairs}
    last_proof = max((column for position, column in pairs if position <= proven), default=0)
    near = range(max(0, last_proof - _CONTIGUOUS), max(columns, default=0))
    return {stored[column].identity for column in near if column not in columns}


def _is_said(item: Incoming) -> bool:
    """Whether a user said something, rather than a host put in a bracketed or tagged note."""
    return item.role == "user" and _DECORATION.fullmatch(item.text) is None


def _is_proof(item: Incoming, head: MessageHead) -> bool:
    """Whether two aligned messages are surely the same one."""
    if item.host_id and item.host_id == head.host_id:
        return True
    if any(len(call_id) >= _UNGUESSABLE and ":" not in call_id for call_id in (*item.calls, *item.answers)):
        return True
    least = {"user": _TELLING_CHARS, "assistant": _TRIVIAL_CHARS}.get(item.role)
    return least is not None and len(item.text) >= least


def _best_alignment(
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
        if item.host_id and head.host_id:
            return 1.0 if item.host_id == head.host_id else 0.0
        if item.identity == head.identity:
            return _REPEATED if item.identity in self._repeated else 1.0
        if item.answers and item.answers == head.answers:
            return _REWRITTEN
        text = self._texts.get(head.message_id)
        return _REWRITTEN if text and _decorated(item.text, text) else 0.0


def _decorated(one: str, other: str) -> bool:
    """Whether two texts differ only by a bracketed or tagged note before or after."""
    longer, shorter = (one, other.strip()) if len(one) > len(other) else (other, one.strip())
    longer = longer.strip()
    if not shorter or longer == shorter:
        return False
    if longer.startswith(shorter):
        return _DECORATION.fullmatch(longer[len(shorter) :]) is not None
    return longer.endswith(shorter) and _DECORATION.fullmatch(longer[: -len(shorter)]) is not None


def _overlap(front: Sequence[int], back: Sequence[int]) -> int:
    """The longest head of ``front`` that is a tail of ``back``."""
    if not back:
        return 0
    for end in range(min(len(front), len(back)), 0, -1):
        if front[end - 1] == back[-1] and list(front[:end]) == list(back[len(back) - end :]):
            return end
    return 0


def _ids_differ(items: Sequence[Incoming], stored: Sequence[MessageHead], overlap: int) -> bool:
    pairs = zip(items[:overlap], stored[len(stored) - overlap :], strict=True)
    return any(item.host_id and head.host_id and item.host_id != head.host_id for item, head in pairs)


def _is_new_by_id(item: Incoming, position: int, aligned: set[int]) -> bool:
    return item.host_id is not None and position not in aligned


def _repeated_head(items: Sequence[Incoming], stored: Sequence[MessageHead]) -> int:
    """How many leading messages of a delta are proven to be stored already.

    Proof is a whole turn handed over again (more than small talk, or with tool calls), or an
    unanswered user message at the end of the store that comes again with what follows it.
    """
    if any(item.host_id for item in items):
        return 0
    overlap = _overlap([item.identity for item in items], [head.identity for head in stored])
    if overlap == 0 or items[0].role != "user":
        return 0
    if overlap == len(items):
        return overlap if _is_whole_turn(items) else 0
    answered_next = stored[-1].role == "user" and items[overlap].role == "assistant" and items[0].text.strip()
    return overlap if overlap > 1 or answered_next else 0


def _is_whole_turn(items: Sequence[Incoming]) -> bool:
    if len(items) < 2 or all(item.role == "user" for item in items):
        return False
    return any(map(_is_substantial, items))


def _is_substantial(item: Incoming) -> bool:
    """Whether a message is more than small talk."""
    return bool(item.calls or item.answers or len(item.text) >= _TRIVIAL_CHARS)


def _is_echo(items: Sequence[Incoming], position: int) -> bool:
    """Whether a bare reply mirrors the reasoned reply just before it (a host's delivery copy)."""
    if position == 0:
        return False
    item, before = items[position], items[position - 1]
    return (
        item.role == before.role == "assistant"
        and item.identity == before.identity
        and before.has_reasoning
        and not item.has_reasoning
        and not item.calls
    )
