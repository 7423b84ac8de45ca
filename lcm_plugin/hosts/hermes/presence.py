"""Which of the core's raw messages the host still has.

The host can take the newest turns back (``/undo``) and can ask for the compaction of the older part of
its list only; it tells the engine nothing about either. Its list does.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from lcm_plugin.messages.identity import identity_of
from lcm_plugin.types import Message


def present(context: Sequence[Message], listing: Sequence[Message]) -> list[Message]:
    """The context without the whole turns that the host's list no longer has.

    A stretch is left out when the list has nothing in its place and it runs from one user message to
    the next, or to the end. Anything before the first message that both have stays: there stand the
    summaries.
    """
    ours = [identity_of(message) for message in context]
    theirs = [identity_of(message) for message in listing]
    gone: set[int] = set()
    shared = False
    for kind, start, end, _, _ in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        shared = shared or kind == "equal"
        if kind == "delete" and shared and _whole_turns(context, start, end):
            gone.update(range(start, end))
    return [message for index, message in enumerate(context) if index not in gone]


def _whole_turns(context: Sequence[Message], start: int, end: int) -> bool:
    ends_well = end == len(context) or context[end].get("role") == "user"
    return ends_well and context[start].get("role") == "user"
