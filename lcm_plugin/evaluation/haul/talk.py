"""What the hosts of a haul say: steps of each session, the same for the same seed, and the host's own list after them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Literal

from lcm_plugin.evaluation.corpus import Corpus
from lcm_plugin.types import IngestMode, Message

Shape = Literal["delta", "list", "state"]
SHAPES: tuple[Shape, ...] = ("delta", "list", "state")
MODES: dict[Shape, IngestMode] = {"delta": "append", "list": "whole", "state": "state"}
StepKind = Literal["turn", "branch", "new", "reset"]
_EVENTS: tuple[tuple[StepKind, float], ...] = (("branch", 0.04), ("new", 0.015), ("reset", 0.005))


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a session does: a turn with its messages, the same after the turn before was taken back, a reset."""

    kind: StepKind
    messages: tuple[Message, ...] = ()


@dataclass(slots=True)
class HostList:
    """What a host keeps of its session: the messages since it last began anew, and where the newest turn began."""

    messages: list[Message] = field(default_factory=list)
    turn_began: int = 0

    def begin(self, step: Step) -> None:
        """Before the first message of a step."""
        if step.kind in ("new", "reset"):
            self.messages, self.turn_began = [], 0
        elif step.kind == "branch":
            del self.messages[self.turn_began :]
        self.turn_began = len(self.messages)


@cache
def _corpus(seed: int) -> Corpus:
    return Corpus(seed)


def shape_of(session: int) -> Shape:
    """How a session's host hands messages over."""
    return SHAPES[session % len(SHAPES)]


def key_of(session: int) -> str:
    """A session's key."""
    return f"agent:haul-{session}:main"


def steps(seed: int, session: int) -> Iterator[Step]:
    """The endless steps of a session. Every message has an id of its own, so that each can be told from all others."""
    random, turns = Random(f"{seed}:{session}"), _corpus(seed).speaker(f"{seed}:{session}:talk").turns()
    for number, turn in enumerate(turns):
        rows = tuple({**row, "id": f"s{session}t{number}m{place}"} for place, row in enumerate(turn))
        chance, kind = random.random(), "turn"
        for event, share in _EVENTS if number > 2 else ():
            if chance < share:
                kind = event
                break
            chance -= share
        if kind == "branch" and shape_of(session) == "delta":
            kind = "turn"  # a host that hands over what is new cannot take anything back
        yield Step(kind, rows)  # type: ignore[arg-type]


def pieces(messages: Sequence[Message]) -> Iterator[tuple[list[Message], bool]]:
    """A turn as a host hands it over: what comes before each model call (true), and the rest after the last."""
    waiting: list[Message] = []
    for message in messages:
        if message["role"] == "assistant":
            yield waiting, True
            waiting = []
        waiting.append(message)
    yield waiting, False
