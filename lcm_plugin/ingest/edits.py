"""Messages that a host changed where they stand, while it kept what came after them.

The new version takes the place of the stored one (`Writer.take_place`), so that all that follows stays as it is. An
edit with which the list goes on otherwise is a branch instead: what followed the old version was said to that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lcm_plugin.ingest.alignment import FindRows
from lcm_plugin.ingest.matching import Incoming, is_same_id
from lcm_plugin.messages.blocks import is_instruction
from lcm_plugin.store.records import MessageHead


@dataclass(frozen=True, slots=True)
class Edit:
    """Message ``index`` of a list is another version of the row ``old``; ``former`` is its row if it was said before."""

    index: int
    old: MessageHead
    former: MessageHead | None = None


def with_edits(
    items: Sequence[Incoming], named: Mapping[str, MessageHead], find_withdrawn: FindRows
) -> tuple[list[Incoming], tuple[Edit, ...]]:
    """A list of which ``named`` are the rows by the host's ids: what was edited is marked, and where it takes the
    stored version's place, the list has that version."""
    marked = [replace(item, edited=_is_edited(item, named.get(item.host_id or ""))) for item in items]
    edited = _in_place(marked, named)
    if not edited:
        return marked, ()
    withdrawn = find_withdrawn([marked[index].identity for index in edited])
    stored = [
        replace(item, identity=edited[index].identity, edited=False) if index in edited else item
        for index, item in enumerate(marked)
    ]
    return stored, tuple(_with_former(marked, edited, withdrawn))


def moved_by(count: int, edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """The edits of a list that stands ``count`` messages further back in another one."""
    return tuple(replace(edit, index=edit.index + count) for edit in edits)


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
        yield Edit(index, old, next(former, None))
