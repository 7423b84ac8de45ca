"""What pairing works on: messages with their calls and results put together, and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lcm_plugin.assembly.render import Rendered
from lcm_plugin.messages.shape import only_results
from lcm_plugin.types import Message

_SYNTHETIC = ("[lcm: no result", "[lossless-claw] missing tool result")


@dataclass(frozen=True, slots=True)
class Placed:
    """A message of the output. ``tokens`` is None where it must be counted."""

    message: Message
    tokens: int | None
    reply: bool = False


@dataclass(frozen=True, slots=True)
class Paired:
    """The output, and what hosts need to know about its stability.

    ``breaks`` are the ordinals of rows that changed what had been shown before; ``open`` names calls
    whose marked result may yet be replaced; ``settled`` is how many messages will stay as they are.
    """

    messages: list[Placed]
    breaks: tuple[int, ...]
    open: tuple[str, ...]
    settled: int


@dataclass(slots=True)
class Answer:
    item: Rendered
    index: int

    @property
    def is_synthetic(self) -> bool:
        content = self.item.message.get("content")
        return isinstance(content, str) and content.startswith(_SYNTHETIC)

    @property
    def text(self) -> str:
        return str(only_results(self.item.message, [self.index], [""]))


@dataclass(slots=True)
class Caller:
    """A message with calls: ``shown`` once it stands in the output, ``closed`` once something follows."""

    item: Rendered
    slots: list[Answer | None]
    shown: bool = False
    closed: bool = False


@dataclass(slots=True)
class Orphans:
    """Results that came before their call, or without one."""

    answers: list[Answer] = field(default_factory=list)
    shown: bool = False


@dataclass(frozen=True, slots=True)
class Direct:
    """What nearly all exchanges are: a message with new call ids and, right behind it, one result for each."""

    item: Rendered
    results: Sequence[Rendered]


Entry = Rendered | Direct | Caller | Orphans
