"""One model call of the host, from the context it is given to the answer.

The host asks for a context before it knows the call's id, adds system prompt and new messages itself, and
records them only after the answer. So what is new is told apart by the very dicts of the context.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from lcm_plugin.hosts.bub.lanes import session_of
from lcm_plugin.hosts.bub.tape import asked_name, bare, calling, named
from lcm_plugin.types import Message, Sent, Session

_KEY = "_lcm"


@dataclass(slots=True)
class Step:
    """The calls of one turn, one after the other. ``owner`` is the state that it belongs to.

    ``shown``: the context that the host was given, and ``sent`` its record. ``asked``: what the host added and
    is being answered.
    """

    owner: int
    session: Session
    shown: list[Message] = field(default_factory=list)
    asked: list[Message] = field(default_factory=list)
    sent: Sent | None = None
    _unanswered: list[Message] = field(default_factory=list)

    def ask(self, messages: list[Message], run: str) -> None:
        """A call begins. What a call that failed had asked already is known again, and keeps its id."""
        shown = {id(message) for message in self.shown}
        new = [m for m in messages if id(m) not in shown and m.get("role") != "system"]
        self.asked = [
            self._again(message, place) or named(message, asked_name(run, place))
            for place, message in enumerate(new)
        ]

    def failed(self) -> None:
        """The call brought no answer."""
        self._unanswered = self.asked

    def answered(self) -> None:
        """The call was answered."""
        self._unanswered = []

    def _again(self, message: Message, place: int) -> Message | None:
        before = self._unanswered[place] if place < len(self._unanswered) else None
        return dict(before) if before is not None and bare([before]) == [message] else None


def step_of(state: Mapping[str, Any]) -> Step | None:
    """The turn's step; None when its context does not come from us."""
    step = state.get(_KEY)
    return step if isinstance(step, Step) and step.owner == id(state) else None


def begin_step(state: MutableMapping[str, Any]) -> Step | None:
    """The turn's step, made for its first call; None when the state names no session.

    A sub-agent gets a copy of its parent's state and a step of its own.
    """
    step = step_of(state)
    session = session_of(state)
    if session is not None and (step is None or step.session != session):
        step = state[_KEY] = Step(id(state), session)
    return step


def answer_of(result: Any, run: str) -> Message:
    """What the model said, as the host will record it."""
    if result.tool_calls:
        return named(calling(result.tool_calls, result.text), run)
    return named({"role": "assistant", "content": result.text or ""}, run)
