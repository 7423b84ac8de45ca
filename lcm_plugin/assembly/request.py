"""What a context is wanted for, and what one is before it is handed out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from lcm_plugin.assembly.entries import Paired
from lcm_plugin.assembly.notices import NOTHING
from lcm_plugin.assembly.render import Rendered
from lcm_plugin.assembly.standing import NO_LAYER, Layer
from lcm_plugin.compaction.tail import TailBounds
from lcm_plugin.types import Context, Fixed, Message, RunPosition


@dataclass(frozen=True, slots=True)
class Request:
    """What a context is wanted for. Amounts are tokens.

    ``limit`` is the budget less the host's overhead, ``room`` also less the safety margin; only the
    newest user message may use the margin. ``budget`` is the whole, the same from turn to turn.
    ``standing`` is what pins and the newest plan may take, ``keep_latest_of`` the globs of tools that make plans.
    ``run`` is set while other runs go on beside the one that asks. ``recall`` asks for old passages as well.
    """

    budget: int
    limit: int
    room: int
    tail: TailBounds
    prompt: str | None = None
    model: str | None = None
    by_relevance: bool = False
    standing: int = 0
    keep_latest_of: tuple[str, ...] = ()
    run: RunPosition | None = None
    recall: bool = True


@dataclass(frozen=True, slots=True)
class Choice:
    """What goes in, and how it came about.

    ``silent``: there is no room to say what is missing. ``newer`` tokens of it came after the plan.
    ``fits`` is false when not even the least form of the running turn does.
    """

    chosen: Sequence[Rendered]
    layer: Layer = NO_LAYER
    missing: str | None = None
    decisions: tuple[object, ...] = ()
    silent: bool = False
    newer: int = 0
    fits: bool = True


@dataclass(frozen=True, slots=True)
class Draft:
    """A context before it is handed out.

    ``crowded`` is what fills its room, where the model is told so with the message ``notice`` or a line behind a result;
    ``unsaid`` are the ids of the messages at which earlier turns were told.
    """

    messages: list[Message]
    tokens: int
    choice: Choice
    paired: Paired
    opening: str | None
    crowded: Fixed | None = None
    notice: Message | None = None
    unsaid: tuple[str, ...] = ()


def epoch(*facts: object) -> str:
    """A short hash of everything that a change of the output's beginning could come from."""
    return hashlib.sha256(json.dumps(facts, default=str, ensure_ascii=True).encode()).hexdigest()[:16]


def nothing(conversation_id: int) -> Context:
    """The context of a conversation of which nothing can be sent."""
    return Context([], 0, notices=(NOTHING,), prefix_epoch=epoch(conversation_id, "nothing"))
