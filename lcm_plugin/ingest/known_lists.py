"""Lists that were compared with what is stored. One that begins as a known list does is compared from near its end.

A host's list grows at its end, and to align all of it at each call would cost as much as the talk is long. What a known
list says of its messages' rows holds until rows are withdrawn, come back or are rewritten: each of these raises the
conversation's revision, which every comparison reads anew. So does a compaction, which leaves the rows as they are: of
one in this process it is known, and the lists hold on. Runs that go on at the same time have a list each.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from operator import attrgetter

from lcm_plugin.ingest.matching import Incoming, is_request
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.blocks import is_instruction
from lcm_plugin.messages.conversions import Grown
from lcm_plugin.store.records import Conversation
from lcm_plugin.types import RunPosition

_OVERLAP = 32
_LEAST = 2 * _OVERLAP
_MOST_LISTS = 8
_MOST_MESSAGES = 500_000
_Basis = tuple[int, int]


@dataclass(frozen=True, slots=True)
class KnownList:
    """The rows (``seqs``) of a list's messages, up to the first that has none; its instructions are left out.

    ``root`` is the seq behind which the list begins, ``run`` where its running turn stands, whose request is message
    ``asked`` of it. ``line`` is the name of the line that the list began as.
    """

    basis: _Basis
    identities: list[int]
    host_ids: list[str | None]
    seqs: list[int]
    root: int | None
    run: RunPosition | None
    asked: int | None
    line: object | None = None


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a list begins: ``length`` messages whose rows are known and all stand before ``seq``, the next one's row.

    ``run`` is where the running turn stands if its request is among them.
    """

    known: KnownList
    length: int
    talk: int
    seq: int
    run: RunPosition | None

    @property
    def leading(self) -> int:
        """How many of the messages are the instructions that the list begins with."""
        return self.length - self.talk


class KnownLists:
    """The newest lists of each conversation. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: LruCache[int, list[KnownList]] = LruCache(_MOST_MESSAGES, _messages_in)

    def beginning(self, conversation: Conversation, incoming: Grown[Incoming]) -> Beginning | None:
        """The part of a list that need not be compared; None when there is no such part, or not a long one."""
        known = self._of.get(conversation.conversation_id, [])
        start = talk_begins(incoming)
        if not known or conversation.restart_seq != 1 or len(incoming) - start < _LEAST:
            return None
        basis = _basis(conversation)
        found = [(_common(one, incoming, start), n) for n, one in enumerate(known) if one.basis == basis]
        count, best = max(found, default=(0, 0))
        return _begun(known[best], incoming, start, count) if count >= _LEAST else None

    def note(self, known: KnownList) -> None:
        """A list was stored. It takes the place of one that is its beginning."""
        if len(known.seqs) < _LEAST:
            return
        here = known.basis[0]
        with self._lock:
            others = [one for one in self._of.get(here, []) if not _is_beginning(one, known)]
            self._of.put(here, [*others, known][-_MOST_LISTS:])

    def keep(self, conversation_id: int, revision: int) -> None:
        """A summary, or clearing, raised the revision by one and changed no rows."""
        before, after = (conversation_id, revision), (conversation_id, revision + 1)
        with self._lock:
            if known := self._of.get(conversation_id, []):
                moved = [replace(one, basis=after) if one.basis == before else one for one in known]
                self._of.put(conversation_id, moved)


def talk_begins(incoming: Sequence[Incoming]) -> int:
    """How many messages of a list are the instructions that it begins with, and texts of ours among them."""
    return sum(1 for _ in takewhile(lambda item: item.ours or is_instruction(item.role), incoming))


def known_list(
    conversation: Conversation,
    incoming: Grown[Incoming],
    seqs: Mapping[int, int],
    root: int | None,
    run: RunPosition | None,
    begun: Beginning | None,
) -> KnownList:
    """A list of which ``seqs`` gives the rows by place, from the end of ``begun`` on."""
    start = talk_begins(incoming)
    identities, host_ids = _names(incoming, start)
    rows = begun.known.seqs[: begun.talk] if begun else []
    while (seq := seqs.get(start + len(rows))) is not None:
        rows.append(seq)
    asked = None
    if run is not None and run.turn in rows[-_OVERLAP:]:
        asked = len(rows) - 1 - rows[::-1].index(run.turn)
    elif run is not None and begun is not None and begun.run is not None and run.turn == begun.run.turn:
        asked = begun.known.asked
    elif run is not None and run.turn in rows:
        asked = rows.index(run.turn)
    count = len(rows)
    line = incoming.line_name if incoming.shared == len(incoming) else None
    return KnownList(_basis(conversation), identities[:count], host_ids[:count], rows, root, run, asked, line)


def _begun(known: KnownList, incoming: Sequence[Incoming], start: int, count: int) -> Beginning | None:
    """The beginning of a list that has ``count`` messages in common with a known one."""
    for talk in range(count - _OVERLAP, 0, -1):
        seq, item = known.seqs[talk], incoming[start + talk]
        if is_instruction(item.role) or is_request(item):
            continue
        if max(known.seqs[:talk]) < seq == min(known.seqs[talk:count]):
            break
    else:
        return None
    if any(is_request(item) for item in incoming[start + talk :]):
        run = None
    elif known.asked is not None and known.asked < talk:
        run = known.run
    else:
        return None
    return Beginning(known, start + talk, talk, seq, run)


def _names(incoming: Grown[Incoming], start: int) -> tuple[list[int], list[str | None]]:
    identities = incoming.column("identity", attrgetter("identity"))
    host_ids = incoming.column("host_id", attrgetter("host_id"))
    return (identities[start:], host_ids[start:]) if start else (identities, host_ids)


def _common(known: KnownList, incoming: Grown[Incoming], start: int) -> int:
    """How many messages two lists begin with alike, which begin with ``start`` instructions here."""
    count = len(known.seqs)
    if known.line is not None and known.line is incoming.line_name and incoming.shared == len(incoming):
        return min(count, len(incoming) - start)
    identities, host_ids = _names(incoming, start)
    if identities[:count] == known.identities and host_ids[:count] == known.host_ids:
        return count
    pairs = zip(
        zip(known.identities, known.host_ids, strict=True),
        zip(identities, host_ids, strict=True),
        strict=False,
    )
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _is_beginning(one: KnownList, other: KnownList) -> bool:
    count = len(one.seqs)
    return one.seqs == other.seqs[:count] and one.host_ids == other.host_ids[:count]


def _basis(conversation: Conversation) -> _Basis:
    return conversation.conversation_id, conversation.revision


def _messages_in(lists: Sequence[KnownList]) -> int:
    return sum(len(one.seqs) for one in lists)
