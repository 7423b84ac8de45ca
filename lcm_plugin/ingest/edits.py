"""Messages that a host changed or put in where they stand, while it kept what came after them.

The new version takes the place of the stored one (`Writer.take_place`), so that all that follows stays as it is. An
edit with which the list goes on otherwise is a branch instead: what followed the old version was said to that one.
A host's id says that two messages are versions of one; else it is their place between messages that are the same.
What is new between stored messages stands between them (`Writer.insert_before`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import pairwise

from lcm_plugin.ingest.alignment import Alignment, FindRows
from lcm_plugin.ingest.matching import (
    Incoming,
    LoadTexts,
    is_proof,
    is_reworded,
    is_same_id,
    is_summary,
)
from lcm_plugin.messages.blocks import is_instruction
from lcm_plugin.store.records import MessageHead
from lcm_plugin.types import RunPosition


@dataclass(frozen=True, slots=True)
class Edit:
    """Message ``index`` of a list is another version of the row ``old``; ``former`` is its row if it was said before.

    ``host_id`` is the host's id of the new version.
    """

    index: int
    old: MessageHead
    host_id: str | None
    former: MessageHead | None = None


@dataclass(frozen=True, slots=True)
class Insertion:
    """New messages of a list, by ``indices``, that stand there before the message with the row ``follower``."""

    indices: tuple[int, ...]
    follower: MessageHead


def with_insertions(
    items: Sequence[Incoming], alignment: Alignment, is_whole: bool
) -> tuple[Alignment, tuple[Insertion, ...]]:
    """An alignment without the new messages that stand between stored ones, and these.

    A message without a host's id may be the host's own copy of a stored one, unless the list ``is_whole``.
    """
    talk = [index for index, row in sorted(alignment.rows.items()) if not is_instruction(row.role)]
    new, found = set(alignment.new), list[Insertion]()
    for before, after in pairwise([-1, *talk]):
        indices = tuple(
            index
            for index in range(before + 1, after)
            if _is_talk(items[index])
            and index not in alignment.rows
            and (index in new or (is_whole and items[index].host_id is None))
        )
        if indices:
            found.append(Insertion(indices, alignment.rows[after]))
            new.difference_update(indices)
    return replace(alignment, new=[index for index in alignment.new if index in new]), tuple(found)


def with_edits(
    items: Sequence[Incoming], named: Mapping[str, MessageHead], find_withdrawn: FindRows
) -> tuple[list[Incoming], tuple[Edit, ...]]:
    """A list of which ``named`` are the rows by the host's ids: what was edited is marked, and where it takes the
    stored version's place, the list has that version."""
    marked = [replace(item, edited=_is_edited(item, named.get(item.host_id or ""))) for item in items]
    return _as_stored(marked, _in_place(marked, named), find_withdrawn)


def with_edits_of_whole(
    items: Sequence[Incoming], standing: Sequence[MessageHead], find_withdrawn: FindRows
) -> tuple[list[Incoming], tuple[Edit, ...]]:
    """A list after which nothing follows, with the stored versions of messages that are another one's words now."""
    edited = dict[int, MessageHead]()
    rows = [row for row in standing if not row.hidden]
    found = SequenceMatcher(None, [row.identity for row in rows], [item.identity for item in items], False)
    *changes, last = found.get_opcodes() or [("equal", 0, 0, 0, 0)]
    for kind, low, high, first, end in changes if last[0] != "delete" else changes[:-1]:
        roles = [item.role for item in items[first:end] if _is_talk(item)]
        if kind == "replace" and roles == [row.role for row in rows[low:high]]:
            edited |= dict(zip(range(first, end), rows[low:high], strict=True))
    return _as_stored(list(items), edited, find_withdrawn)


def _as_stored(
    items: list[Incoming], edited: Mapping[int, MessageHead], find_withdrawn: FindRows
) -> tuple[list[Incoming], tuple[Edit, ...]]:
    """The list with the stored version of each edited message, and the edits."""
    if not edited:
        return items, ()
    withdrawn = find_withdrawn([items[index].identity for index in edited])
    stored = [
        replace(item, identity=edited[index].identity, host_id=edited[index].host_id, edited=False)
        if index in edited
        else item
        for index, item in enumerate(items)
    ]
    return stored, tuple(_with_former(items, edited, withdrawn))


def with_edits_by_place(
    items: Sequence[Incoming],
    alignment: Alignment,
    standing: Sequence[MessageHead],
    known_ids: set[str],
    find_withdrawn: FindRows,
    load_texts: LoadTexts,
) -> tuple[Alignment, tuple[Edit, ...]]:
    """An alignment with the rows that other messages stand for now, and these messages.

    ``standing`` are the rows that the list is compared with. Between two aligned messages there must be as many rows
    as messages, of the same roles. Each message must have an id of its own, or plainly other words in a list that is
    surely aligned. A message with a row's id and plainly other words stands for it, too; one with the id of a row that
    is elsewhere is that row, in another order.
    """
    edited = dict[int, MessageHead]()
    is_sure = any(is_proof(items[index], row) for index, row in alignment.rows.items())
    for messages, rows, follower in _gaps(items, alignment.rows, standing):
        if [items[index].role for index in messages] != [row.role for row in rows]:
            continue
        if any(
            items[index].host_id in known_ids and not is_same_id(items[index], row)
            for index, row in zip(messages, rows, strict=True)
        ):
            continue
        named = all(items[index].host_id for index in messages)
        path = [*rows, follower]
        if named or (
            is_sure
            and all(row.before == before.seq for before, row in pairwise(path))
            and _are_reworded([items[index] for index in messages], rows, load_texts)
        ):
            edited |= dict(zip(messages, rows, strict=True))
    for index, row in alignment.rows.items():
        other_words = items[index].identity != row.identity and is_same_id(items[index], row)
        if other_words and _are_reworded([items[index]], [row], load_texts):
            edited[index] = row
    if not edited:
        return alignment, ()
    withdrawn = find_withdrawn([items[index].identity for index in edited])
    new = [index for index in alignment.new if index not in edited]
    return replace(alignment, rows={**alignment.rows, **edited}, new=new), tuple(
        _with_former(items, edited, withdrawn)
    )


def _are_reworded(items: Sequence[Incoming], rows: Sequence[MessageHead], load_texts: LoadTexts) -> bool:
    texts = load_texts([row.message_id for row in rows])
    return all(
        is_reworded(item, row, texts.get(row.message_id, "")) for item, row in zip(items, rows, strict=True)
    )


def with_former_versions(
    items: Sequence[Incoming], alignment: Alignment, row_at: Callable[[int], MessageHead | None]
) -> tuple[Alignment, tuple[Edit, ...]]:
    """An alignment in which former versions come back to their places: what follows them in the list is stored behind
    another version."""
    edits, rows = list[Edit](), dict(alignment.rows)
    talk = sorted(index for index, row in rows.items() if not is_instruction(row.role))
    for index, following in pairwise(talk):
        former, place = rows[index], rows[following].before
        if former.withdrawn_at is None or not former.before < place < former.seq:
            continue
        old = row_at(place)
        if old is not None and (old.before, old.role) == (former.before, former.role):
            edits.append(Edit(index, old, items[index].host_id, former))
            rows[index] = old
    return replace(alignment, rows=rows), tuple(edits)


def _gaps(
    items: Sequence[Incoming], aligned: Mapping[int, MessageHead], standing: Sequence[MessageHead]
) -> Iterator[tuple[list[int], list[MessageHead], MessageHead]]:
    """The messages between two aligned ones, the rows between theirs, and the row that follows."""
    talk = sorted(index for index, row in aligned.items() if not is_instruction(row.role))
    known = {row.seq for row in aligned.values()}
    first = standing[0].seq - 1 if standing and standing[0].before == 0 else None
    for before, after in pairwise([-1, *talk]):
        low = aligned[before].seq if before >= 0 else first
        messages = [
            index for index in range(before + 1, after) if _is_talk(items[index]) and index not in aligned
        ]
        if low is None or not messages or (before < 0 and is_summary(items[messages[0]])):
            continue
        rows = [
            row
            for row in standing
            if low < row.seq < aligned[after].seq
            and row.seq not in known
            and not (row.hidden or is_instruction(row.role))
        ]
        if rows:
            yield messages, rows, aligned[after]


def _is_talk(item: Incoming) -> bool:
    return not (item.ours or is_instruction(item.role))


def moved_by(count: int, edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """The edits of a list that stands ``count`` messages further back in another one."""
    return tuple(replace(edit, index=edit.index + count) for edit in edits)


def insertions_moved_by(count: int, insertions: Sequence[Insertion]) -> tuple[Insertion, ...]:
    """The same for insertions."""
    return tuple(replace(one, indices=tuple(index + count for index in one.indices)) for one in insertions)


def run_behind(run: RunPosition | None, insertions: Sequence[Insertion]) -> RunPosition | None:
    """Where a running turn stands once the messages are put in."""

    def moved(seq: int) -> int:
        return seq + sum(len(one.indices) for one in insertions if one.follower.seq <= seq)

    if run is None:
        return None
    return RunPosition(moved(run.fork), moved(run.turn), None if run.end is None else moved(run.end))


def _is_edited(item: Incoming, stored: MessageHead | None) -> bool:
    """Whether a message has other words than the stored one with its id."""
    if stored is None or item.ours or item.refers:
        return False
    return is_same_id(item, stored) and item.identity != stored.identity


def _in_place(items: Sequence[Incoming], named: Mapping[str, MessageHead]) -> dict[int, MessageHead]:
    """The rows of edited messages that keep their place: stored messages of the list went on from them."""
    rows = {index: row for index, item in enumerate(items) if (row := named.get(item.host_id or ""))}
    kept = {index: row for index, row in rows.items() if not items[index].edited}

    def went_on(index: int, old: MessageHead) -> bool:
        after = min((place for place in kept if place > index), default=None)
        if after is None or not all((place > index) == (row.seq > old.seq) for place, row in kept.items()):
            return False
        follower = rows.get(index + 1)
        stand = old.withdrawn_at is None and kept[after].withdrawn_at is None
        return stand or (follower is not None and follower.before == old.seq)

    return {
        index: old
        for index, old in rows.items()
        if items[index].edited
        and old.role == items[index].role
        and not is_instruction(old.role)
        and went_on(index, old)
    }


def _with_former(
    items: Sequence[Incoming], edited: Mapping[int, MessageHead], withdrawn: Sequence[MessageHead]
) -> Iterator[Edit]:
    """The edits, with the withdrawn rows that hold the new words and stood at the same place."""
    for index, old in edited.items():
        former = (
            row
            for row in withdrawn
            if (row.identity, row.before, row.role) == (items[index].identity, old.before, old.role)
        )
        yield Edit(index, old, items[index].host_id, next(former, None))
