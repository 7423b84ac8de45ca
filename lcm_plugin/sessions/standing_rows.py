"""What stands before the talk in every context of a conversation, as one transaction sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lcm_plugin.sessions.pins import pins_of
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation, MessageHead
from lcm_plugin.types import Pin


@dataclass(frozen=True, slots=True)
class StandingRows:
    """A conversation with its instructions, each with whether it stands raw in the context, and its pins."""

    conversation: Conversation
    instructions: Sequence[tuple[MessageHead, bool]]
    pins: tuple[Pin, ...]

    @classmethod
    def read(cls, reader: Reader, conversation: Conversation) -> StandingRows:
        """Those of a conversation."""
        instructions = reader.instructions(conversation.conversation_id)
        return cls(conversation, instructions, pins_of(reader, conversation))

    @property
    def tokens(self) -> int:
        """What they cost in a context."""
        return sum(head.tokens for head, _ in self.instructions) + sum(pin.tokens for pin in self.pins)
