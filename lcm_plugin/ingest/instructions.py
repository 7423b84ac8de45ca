"""Which messages are the host's instructions: the system and developer messages that it has in force.

They are the leading run of the host's list, or of a delta that brings one. Another run takes the place of the
last; the rows of those that are not in it any more are hidden. Instructions further on in the talk are part of the
talk. An instruction with the same words as a stored one is that one, however often a host hands it over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lcm_plugin.ingest.matching import Incoming
from lcm_plugin.messages.blocks import is_instruction
from lcm_plugin.store.protocol import Reader, Writer
from lcm_plugin.store.records import Conversation
from lcm_plugin.types import LIST_MODES, IngestMode

_MOST_ROWS = 1_024


@dataclass(frozen=True, slots=True)
class Leading:
    """The leading run of what a host hands over.

    ``seqs`` are the rows of the stored ones by their place in the list; the others at ``new`` places have none yet.
    ``kept`` are the instructions in force that stay so before the run.
    """

    seqs: dict[int, int]
    new: tuple[int, ...]
    kept: tuple[int, ...] = ()

    @property
    def places(self) -> set[int]:
        """Where the run stands in the list."""
        return {*self.seqs, *self.new}

    def in_force(self, stored_at: dict[int, int]) -> tuple[int, ...]:
        """The rows that are the instructions from now on; ``stored_at`` gives the new ones' rows."""
        found = {**self.seqs, **{place: stored_at[place] for place in self.new if place in stored_at}}
        return tuple(dict.fromkeys([*self.kept, *(found[place] for place in sorted(found))]))


def leading_run(
    reader: Reader, conversation: Conversation | None, incoming: Sequence[Incoming], mode: IngestMode
) -> Leading | None:
    """The instructions that a list or delta begins with; None when it brings none.

    A delta of nothing but instructions, directly behind those in force, goes on with them: hosts that hand over
    one message at a time mean one run.
    """
    spoken = [place for place, item in enumerate(incoming) if not item.ours]
    length = next(
        (n for n, place in enumerate(spoken) if not is_instruction(incoming[place].role)), len(spoken)
    )
    run = spoken[:length]
    if not run:
        return None
    identities = {place: incoming[place].identity for place in run}
    stored = _stored(reader, conversation, list(identities.values()), mode) if mode != "all" else {}
    seqs: dict[int, int] = {}
    new: dict[int, int] = {}
    for place, identity in identities.items():
        if identity in stored:
            seqs[place] = stored[identity]
        else:
            new.setdefault(identity, place)
    kept: tuple[int, ...] = ()
    if mode not in LIST_MODES and conversation and length == len(spoken):
        in_force = conversation.instruction_seqs
        kept = in_force if conversation.next_seq - 1 in in_force else ()
    return Leading(seqs, tuple(new.values()), kept)


def with_leading(new: list[int], leading: Leading | None, conversation: Conversation | None) -> list[int]:
    """The places of what is new, the leading run decided by its words alone.

    Instructions before a replay of what was reset begin no new conversation.
    """
    if leading is None or not (new or conversation):
        return new
    return sorted((set(new) - leading.places) | set(leading.new))


def put_in_force(writer: Writer, conversation: Conversation, seqs: Sequence[int], now: int) -> None:
    """Makes rows the instructions in force: the former ones go out of the context, what was hidden comes back."""
    if tuple(seqs) == conversation.instruction_seqs:
        return
    here, former = conversation.conversation_id, conversation.instruction_seqs
    rows = writer.messages_at(here, sorted({*seqs, *former}))
    hidden = [row.head.message_id for row in rows if row.head.seq in seqs and row.head.hidden]
    gone = [row.head.message_id for row in rows if row.head.seq not in seqs and not row.head.hidden]
    if hidden:
        writer.show(here, hidden, now)
    if gone:
        writer.hide(here, gone, now)
    writer.set_instructions(here, seqs, now)


def _stored(
    reader: Reader, conversation: Conversation | None, identities: Sequence[int], mode: IngestMode
) -> dict[int, int]:
    """The rows of stored instructions by identity: one in force if there is one, else the newest.

    One that a delta brought further on in the talk stays a part of the talk; a whole list may have lost what
    stood before it.
    """
    if conversation is None:
        return {}
    heads = reader.heads_with_identity(conversation.conversation_id, identities, limit=_MOST_ROWS)
    rows = [head for head in heads if is_instruction(head.role) and head.withdrawn_at is None]
    if mode == "append":
        rows = [head for head in rows if head.hidden or head.seq in conversation.instruction_seqs]
    rows.sort(key=lambda head: (head.seq in conversation.instruction_seqs, head.seq))
    return {head.identity: head.seq for head in rows}
