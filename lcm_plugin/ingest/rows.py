"""Rows from messages: parts, token counts and payloads, and how they are appended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from lcm_plugin.characters import storable
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.files.find import mentions_reference
from lcm_plugin.ingest.host_noise import StandingTexts
from lcm_plugin.ingest.matching import Incoming
from lcm_plugin.ingest.toolnames import name_results
from lcm_plugin.messages.blocks import (
    Call,
    blocks_of,
    calls_answered,
    calls_made,
    has_reasoning,
    is_instruction,
    kind_of,
    text_of,
    user_speaks,
)
from lcm_plugin.messages.groups import GroupLinker
from lcm_plugin.messages.identity import channel_of, host_id_of, identity_of, sender_of, time_of
from lcm_plugin.messages.parts import (
    lift,
    lift_deeper,
    make_parts,
    skeleton_of,
)
from lcm_plugin.messages.table import INSTRUCTION_ROLES, RESULT_ROLES, Kind
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.store.protocol import Writer
from lcm_plugin.store.records import Conversation, FileRecord, NewMessage
from lcm_plugin.types import Message

RECENT_CALLS = 128
"""So many messages with calls or results are looked through for the call of a result."""
_NEVER_BLANK = RESULT_ROLES | INSTRUCTION_ROLES


@dataclass(frozen=True, slots=True)
class PreparedRow:
    """A message ready to be stored, with the payloads that moved out of it."""

    row: NewMessage
    files: tuple[FileRecord, ...] = ()
    blobs: Mapping[str, bytes] | None = None


class RowMaker:
    """Turns messages into rows; that costs most of an ingest and needs no transaction. Thread-safe."""

    def __init__(self, counter: TokenCounter, payloads: PayloadStore) -> None:
        self._counter = counter
        self._payloads = payloads

    def make(
        self, message: Message, item: Incoming, lane: str, now: int, calls: Mapping[str, Call]
    ) -> PreparedRow:
        """A message's row. ``calls`` are the tool calls handed over with it, by id."""
        call = calls.get(item.answers[0]) if len(item.answers) == 1 else None
        moved = self._payloads.move_out(message, lane, now, call)
        lifted = lift_deeper(message, lift(message), moved.stand_ins)
        parts = make_parts(lifted, moved.stand_ins)
        if call is not None and (name := call.name):
            parts = tuple(
                replace(part, tool_name=storable(name))
                if part.type == "tool" and not part.tool_name
                else part
                for part in parts
            )
        row = NewMessage(
            role=storable(message["role"]),
            skeleton=skeleton_of(message, lifted),
            tokens=self._counter.message(moved.visible),
            identity=item.identity,
            created_at=time_of(message, now),
            parts=parts,
            host_id=item.host_id,
            sender=sender_of(message),
            channel=channel_of(message),
            calls=item.calls,
            answers=item.answers,
            hidden=shows_nothing(message, item.text, bool(item.calls or item.answers)),
            speaks=item.speaks,
        )
        return PreparedRow(row, moved.files, moved.blobs)


def incoming_of(message: Message, standing: StandingTexts, *, ours: bool = False) -> Incoming:
    """What is compared of a message with stored ones; ``ours`` marks one that this package made."""
    compared = standing.compared(message)
    return Incoming(
        role=storable(message["role"]),
        identity=identity_of(compared),
        text=text_of(compared),
        host_id=host_id_of(message),
        calls=calls_made(message),
        answers=calls_answered(message),
        speaks=user_speaks(message),
        ours=ours,
        has_reasoning=has_reasoning(message),
        refers=mentions_reference(message),
    )


def append_rows(
    writer: Writer,
    conversation: Conversation,
    prepared: Sequence[PreparedRow],
    now: int,
    *,
    follows: int | None = None,
) -> None:
    """Appends rows, links calls with their results, and keeps the payloads' records.

    ``follows`` is the seq of the message before the first of them, where that is not the newest one. Instructions
    with which a conversation begins are in force from then on.
    """
    if not prepared:
        return
    rows = [item.row for item in prepared]
    if follows is not None:
        rows[0] = replace(rows[0], follows=follows)
    if ids := {given for row in rows for given in (*row.calls, *row.answers)}:
        recent = writer.call_rows(conversation.conversation_id, ids, limit=RECENT_CALLS)
        rows = name_results(writer, conversation.conversation_id, rows, recent)
        linker = GroupLinker(recent)
        rows = [_in_its_group(row, seq, linker) for seq, row in enumerate(rows, conversation.next_seq)]
    writer.append(conversation, rows, now)
    if conversation.next_seq == 1:
        begun = takewhile(lambda pair: is_instruction(pair[1].role), enumerate(rows, 1))
        if in_force := [seq for seq, row in begun if not row.hidden]:
            writer.set_instructions(conversation.conversation_id, in_force, now)
    for item in prepared:
        for record in item.files:
            writer.add_file(replace(record, conversation_id=conversation.conversation_id))
        for digest, data in (item.blobs or {}).items():
            writer.put_blob(digest, data)


def _in_its_group(row: NewMessage, seq: int, linker: GroupLinker) -> NewMessage:
    group = linker.link(seq, row.calls, row.answers)
    return row if group == seq else replace(row, group_seq=group)


def shows_nothing(message: Message, text: str, linked: bool) -> bool:
    """Whether there is nothing in a message that a model could be shown.

    ``text`` are its words, ``linked`` says whether it makes or answers a call.
    """
    if (text and not text.isspace()) or linked or message["role"] in _NEVER_BLANK:
        return False
    if message.get("function_call") or message.get("tool_calls") or message.get("refusal"):
        return False
    return all(not block or kind_of(block) in (Kind.TEXT, Kind.REASONING) for block in blocks_of(message))
