"""Which of a host's messages are new.

``sync`` hands over the host's whole current list. It is aligned with the stored tail by content and
position, and what follows the last aligned message is new. The host may have dropped, rewritten or
decorated older messages and may have put in its own; honest repeats stay apart because a stored row
aligns with one message only. ``append`` hands over a delta: all of it is new, except what the end of
the store proves to be handed over again. (``all`` needs no comparison: whatever is handed over is new.)

`matching` says which rows go together best; here is what that proves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import dropwhile

from lcm_plugin.ingest.matching import (
    TRIVIAL_CHARS,
    Incoming,
    LoadTexts,
    best_alignment,
    is_proof,
    is_said,
    is_same_id,
    may_be_same,
)
from lcm_plugin.messages.blocks import is_instruction
from lcm_plugin.store.records import MessageHead

WINDOW_SLACK = 64
_CONTIGUOUS = 8
_LOST_AT_END = 3
_WHOLE_END = 3


FindRows = Callable[[Sequence[int]], list[MessageHead]]
Pairs = list[tuple[int, MessageHead]]


@dataclass(frozen=True, slots=True)
class Alignment:
    """A host's list beside the stored rows: the row of each message that is stored, and which ones are new.

    From ``edited`` on all are new: that message was edited, and what follows it goes on from the new version.
    """

    rows: dict[int, MessageHead]
    new: list[int]
    edited: int | None = None


def align_list(
    incoming: Sequence[Incoming],
    stored: Sequence[MessageHead],
    known_ids: set[str],
    load_texts: LoadTexts,
    find_rows: FindRows,
    find_withdrawn: FindRows,
    begins: int | None = None,
) -> Alignment:
    """Aligns a host's whole list, but for the instructions that it begins with: they are known by their words alone.

    ``stored`` is the newest part of what stands in the conversation, at least `WINDOW_SLACK` rows longer than the
    list unless the conversation is shorter. ``known_ids`` are the host ids that are stored anywhere in
    the lane. ``load_texts`` gives the words of stored messages, ``find_rows`` the rows of the whole
    conversation with some identities, in order, ``find_withdrawn`` those of them that were taken back; they are
    asked only when needed. ``begins`` is the seq with which this run's lists began, if it is known.
    """
    spoken = (index for index, item in enumerate(incoming) if not item.ours)
    theirs = list(dropwhile(lambda index: is_instruction(incoming[index].role), spoken))
    items = [incoming[index] for index in theirs]
    # Where all was taken back, what the list has again is looked for among that.
    pairs = _goes_on(items, stored) if stored or not items else None
    if pairs is None:
        found = [*stored, *find_withdrawn([item.identity for item in items])]
        if edited_before := [item.identity for item in items if item.edited]:
            found += find_rows(edited_before)
        rows = _in_order({row.seq: row for row in found}.values())
        pairs = _best_pairs(items, rows, stored, load_texts, begins)
        if _may_be_stale(items, pairs, stored):
            pairs = _align_with_all(items, pairs, find_rows, load_texts)
        pairs = [*pairs, *_moved_behind(items, pairs, rows)]
    aligned = {position for position, _ in pairs}
    edited = next((n for n, item in enumerate(items) if item.edited and n not in aligned), len(items))
    pairs = [pair for pair in pairs if pair[0] < edited]
    last = pairs[-1][0] if pairs else -1
    new = [
        position
        for position, item in enumerate(items)
        if position >= edited
        or (item.host_id not in known_ids and (position > last or _is_new_by_id(item, position, aligned)))
    ]
    return Alignment(
        {theirs[position]: row for position, row in pairs},
        [theirs[position] for position in new if not _is_echo(items, position)],
        theirs[edited] if edited < len(items) else None,
    )


def new_in_delta(
    incoming: Sequence[Incoming], stored: Sequence[MessageHead], known_ids: set[str]
) -> list[int]:
    """Indices of the new messages of a host's delta."""
    items = [(index, item) for index, item in enumerate(incoming) if not item.ours]
    repeated = _repeated_head([item for _, item in items], stored)
    fresh = items[repeated:]
    said = [item for _, item in fresh]
    return [
        index
        for position, (index, item) in enumerate(fresh)
        if item.host_id not in known_ids and not _is_echo(said, position)
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
    Three that are the very end of ``before`` prove it, too, and so does an answer at the list's beginning.
    """
    spoken = [index for index, item in enumerate(incoming) if not item.ours]
    items = [incoming[index] for index in spoken]
    first = next((item for item in items if item.role != "system"), None)
    begun = next((head for head in since if head.role != "system"), None)
    if first is None or (begun is not None and first.identity == begun.identity):
        return 0
    said = [index for index, item in enumerate(items) if item.role != "system"]
    end = _overlap([items[index].identity for index in said], [head.identity for head in before])
    if end >= _WHOLE_END or (end and first.role != "user"):
        return spoken[said[end - 1]] + 1
    pairs = _align(items, before, load_texts)
    words = [items[position] for position, _ in pairs if items[position].role != "system"]
    if len(words) < 2 or pairs[-1][1].seq < before[-_LOST_AT_END:][0].seq:
        return 0
    proven = len(words) >= _CONTIGUOUS or any(map(_is_substantial, words))
    return spoken[pairs[-1][0]] + 1 if proven else 0


def replayed_turn(incoming: Sequence[Incoming], before: Sequence[MessageHead]) -> bool:
    """Whether a whole delta repeats the end of a conversation that was reset."""
    items = [item for item in incoming if not item.ours]
    overlap = _overlap([item.identity for item in items], [head.identity for head in before])
    return 0 < overlap == len(items) and _is_whole_turn(items)


def _align(items: Sequence[Incoming], stored: Sequence[MessageHead], load_texts: LoadTexts) -> Pairs:
    """The items that are stored, each with its row; none when nothing aligns."""
    pairs = _goes_on(items, stored)
    return _best_pairs(items, stored, stored, load_texts) if pairs is None else pairs


def _goes_on(items: Sequence[Incoming], stored: Sequence[MessageHead]) -> Pairs | None:
    """The alignment of a list whose head is the very end of what is stored; None when that is not sure.

    It is sure when many messages agree, or all that are stored. A few do when behind them nothing but a new turn
    follows: a user's message behind an answer, or more of the turn that is running.
    """
    if not items or not stored:
        return []
    overlap = _overlap([item.identity for item in items], [head.identity for head in stored])
    if not overlap or _ids_differ(items, stored, overlap):
        return None
    sure = overlap >= _CONTIGUOUS or overlap == len(stored) or _is_one_turn(items[overlap:], stored)
    return list(enumerate(stored[len(stored) - overlap :])) if sure else None


def _is_one_turn(rest: Sequence[Incoming], stored: Sequence[MessageHead]) -> bool:
    """Whether messages can only be new: small talk that goes on where the store ends, with at most one request."""
    if not rest or any(map(_is_substantial, rest)) or sum(is_said(item) for item in rest) > 1:
        return False
    answered = stored[-1].role == "assistant" and not stored[-1].calls
    return answered == (rest[0].role == "user")


def _best_pairs(
    items: Sequence[Incoming],
    rows: Sequence[MessageHead],
    stored: Sequence[MessageHead],
    load_texts: LoadTexts,
    begins: int | None = None,
) -> Pairs:
    """The proven alignment with rows; one message alone proves nothing but at an end of them."""
    pairs = _proven_alignment(items, rows, load_texts)
    if len(pairs) != 1:
        return pairs
    (position, row), first = pairs[0], not any(item.role != "system" for item in items[: pairs[0][0]])
    at_end = bool(stored) and row.seq == stored[-1].seq
    at_beginning = first and row.seq == begins and is_proof(items[position], row)
    return pairs if at_end or at_beginning or is_same_id(items[position], row) else []


def _moved_behind(items: Sequence[Incoming], pairs: Pairs, rows: Sequence[MessageHead]) -> Pairs:
    """Messages behind the last aligned one that are stored before it: the host put runs in order that went on
    at the same time."""
    if not pairs:
        return []
    aligned, spare = {row.seq for _, row in pairs}, dict[int, list[MessageHead]]()
    for row in rows:
        if row.seq > pairs[0][1].seq and row.seq not in aligned and row.withdrawn_at is None:
            spare.setdefault(row.identity, []).append(row)
    moved: Pairs = []
    for position in range(pairs[-1][0] + 1, len(items)):
        item, found = items[position], spare.get(items[position].identity)
        behind_moved = bool(moved) and moved[-1][0] == position - 1
        if found and may_be_same(item, found[0]) and (behind_moved or is_proof(item, found[0])):
            moved.append((position, found.pop(0)))
    return moved


def _in_order(rows: Iterable[MessageHead]) -> list[MessageHead]:
    """Rows as lists have them: one that gave its place to another version stands behind the row before it."""
    found = list(rows)
    went_on = {head.before for head in found}

    def place(head: MessageHead) -> tuple[int, int]:
        gave_way = head.withdrawn_at is not None and head.follows is not None and head.seq not in went_on
        return (head.before, head.seq) if gave_way else (head.seq, 0)

    return sorted(found, key=place)


def _may_be_stale(items: Sequence[Incoming], pairs: Pairs, stored: Sequence[MessageHead]) -> bool:
    """Whether most of a list is unknown to the newest rows, and none of it to the very newest."""
    if not stored or stored[0].seq == 1 or (pairs and pairs[-1][1].seq >= stored[-_LOST_AT_END:][0].seq):
        return False
    spoken = sum(item.role != "system" for item in items)
    return spoken > 1 and 2 * len(pairs) < spoken


def _align_with_all(
    items: Sequence[Incoming],
    pairs: Pairs,
    find_rows: FindRows,
    load_texts: LoadTexts,
) -> Pairs:
    """The alignment with rows from anywhere in the conversation, when it is proven and the better one."""
    found = _proven_alignment(items, find_rows([item.identity for item in items]), load_texts)
    words = [items[position] for position, _ in found if items[position].role != "system"]
    proven = len(words) >= _CONTIGUOUS or (len(words) >= 2 and any(map(_is_substantial, words)))
    return found if proven and len(found) > len(pairs) else pairs


def _proven_alignment(
    items: Sequence[Incoming], stored: Sequence[MessageHead], load_texts: LoadTexts
) -> Pairs:
    """The best alignment that passes over no user's message without proof that it is an old one.

    Calls with ids that a model made, their results and small talk recur from turn to turn. Behind a
    user's message that aligns with nothing they prove nothing, and the message is a new one. That it is old
    is proven, too, by a stored row near by with its words, which the host has in another order: it does
    when several turns go on at the same time.
    """
    end = len(items)
    while True:
        pairs = best_alignment(items[:end], stored, load_texts)
        aligned = {position for position, _ in pairs}
        proofs = [position for position, column in pairs if is_proof(items[position], stored[column])]
        doubtful = range(proofs[-1] + 1 if proofs else 0, pairs[-1][0] if pairs else 0)
        moved = _left_over(pairs, stored, proofs[-1] if proofs else 0)
        passed = [
            at
            for at in doubtful
            if at not in aligned and is_said(items[at]) and items[at].identity not in moved
        ]
        if not passed:
            return [(position, stored[column]) for position, column in pairs]
        end = min(position for position in aligned if position > passed[-1])


def _left_over(pairs: Sequence[tuple[int, int]], stored: Sequence[MessageHead], proven: int) -> set[int]:
    """The identities of the rows that nothing aligns with, from a little before the last proof to the end."""
    columns = {column for _, column in pairs}
    last_proof = max((column for position, column in pairs if position <= proven), default=0)
    near = range(max(0, last_proof - _CONTIGUOUS), max(columns, default=0))
    return {stored[column].identity for column in near if column not in columns}


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
    unanswered user message at the end of the store that comes again with what follows it. Instructions that
    were stored after that end are looked past.
    """
    if any(item.host_id for item in items):
        return 0
    stored = [head for head in stored if not is_instruction(head.role)]
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
    return bool(item.calls or item.answers or len(item.text) >= TRIVIAL_CHARS)


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
