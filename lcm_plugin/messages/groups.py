"""Groups: an assistant message with tool calls, and all their results.

This module owns the rule that no cutter may split a group. A message's ``group_seq`` is the seq of
the first message of its group; it is settled when the message is stored. A cut before a seq is legal
when no message from there on belongs to a group that began earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lcm_plugin.store.records import CallRow, MessageHead

# A result that comes more messages after its call than this stands for itself. It bounds what a
# cutter must look at; hosts answer calls within a turn.
MAX_SPAN = 512


class GroupLinker:
    """Gives each new message its ``group_seq``, from the calls and answers seen so far.

    Ids made by a model recur: an id always means its newest call. A result may also stand before
    its call; then the call joins the result's group.
    """

    def __init__(self, recent: Sequence[CallRow]) -> None:
        self._calls: dict[str, int] = {}
        self._orphans: dict[str, int] = {}
        for head in recent:
            self._note(head.seq, head.group_seq, head.calls, head.answers)

    def link(self, seq: int, calls: Sequence[str], answers: Sequence[str]) -> int:
        """The ``group_seq`` of the message that is stored at ``seq``."""
        starts = [self._calls[call] for call in answers if call in self._calls]
        starts += [self._orphans[call] for call in calls if call in self._orphans]
        group = min((start for start in starts if seq - start < MAX_SPAN), default=seq)
        self._note(seq, group, calls, answers)
        return group

    def _note(self, seq: int, group: int, calls: Sequence[str], answers: Sequence[str]) -> None:
        for call in answers:
            if call not in self._calls:
                self._orphans[call] = group
        for call in calls:
            self._orphans.pop(call, None)
            self._calls[call] = group


def legal_cut(seq: int, lowest_group: Callable[[int], int | None]) -> int:
    """The newest legal cut at or before ``seq``.

    ``lowest_group`` answers, for a seq, the smallest ``group_seq`` of the `MAX_SPAN` messages from
    there on. Calls that overlap without end have no legal cut near: then ``seq`` itself must do.
    """
    cut = seq
    while (lowest := lowest_group(cut)) is not None and lowest < cut:
        cut = lowest
        if seq - cut > MAX_SPAN:
            return seq
    return cut


def next_legal_cut(heads: Sequence[MessageHead], at_least: int) -> int:
    """The index of the first legal cut at or after ``at_least`` in messages that follow each other.

    ``len(heads)`` when there is none within them.
    """
    lowest_after = [0] * (len(heads) + 1)
    lowest_after[len(heads)] = 1 << 62
    for index in range(len(heads) - 1, -1, -1):
        lowest_after[index] = min(lowest_after[index + 1], heads[index].group_seq)
    for index in range(at_least, len(heads)):
        if lowest_after[index] >= heads[index].seq:
            return index
    return len(heads)
