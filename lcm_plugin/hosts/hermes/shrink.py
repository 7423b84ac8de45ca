"""Getting a smaller list for one agent: when it is worth asking, and asking the core."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lcm_plugin.hosts.hermes.messages import to_host
from lcm_plugin.hosts.hermes.presence import present
from lcm_plugin.types import Message, Session

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.hosts.hermes.engine import HermesEngine

_WORTH_IT = 0.97
_OVERFLOW_SHARE = 0.7
_GROWTH = 0.05


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The list for the host, or None when there is no smaller one; ``trouble`` is for a person."""

    messages: list[Message] | None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class _Refusal:
    session_id: str
    tokens: int


class Shrinker:
    """Asks the core for one agent. ``overhead`` is what the host adds to the list, in tokens."""

    def __init__(self, agent: HermesEngine) -> None:
        self._agent = agent
        self.overhead = 0
        self._measured: tuple[object, ...] = ()
        self._refusal: _Refusal | None = None
        self._asked = False

    def learn(self, request: Mapping[str, Any], engine: Engine) -> None:
        """Measures the system prompt and the tool schemas of a request, when they changed."""
        messages = request.get("request_messages") or []
        system = [m for m in messages if isinstance(m, Mapping) and m.get("role") == "system"]
        body = (request.get("request") or {}).get("body") or {}
        tools = body.get("tools") or []
        seen = (sum(len(str(m.get("content") or "")) for m in system), len(tools), request.get("tool_count"))
        if seen != self._measured:
            self._measured = seen
            self.overhead = engine.count_tokens([dict(m) for m in system]) if system else 0
            self.overhead += engine.count_tokens(json.dumps(tools)) if tools else 0

    def budget(self) -> int:
        """The window, or what the host left of it when it lowered the threshold."""
        share = self._agent.configured_share()
        lowered = int(self._agent.threshold_tokens / share) if self._agent.threshold_tokens else 0
        return min(self._agent.context_length, lowered) or self._agent.context_length

    def forget(self) -> None:
        """Another session or model: what was refused before says nothing about it."""
        self._refusal = None
        self._asked = False

    def is_refused(self, tokens: int) -> bool:
        """Whether a smaller list was refused, and the list has hardly grown since."""
        refusal = self._refusal
        if refusal is None or refusal.session_id != self._agent.session_id:
            return False
        return tokens < refusal.tokens + _GROWTH * self._agent.threshold_tokens

    def refuse(self, tokens: int) -> None:
        """Remembers that there was no smaller list."""
        self._refusal = _Refusal(self._agent.session_id, tokens)

    def can_shrink(self, engine: Engine, session: Session, listing: Sequence[Message]) -> bool:
        """Whether the core's context is smaller than the list, or can be made so."""
        decision = engine.evaluate(session, self.budget(), overhead_tokens=self.overhead)
        self._asked = decision.due or (
            bool(listing) and decision.tokens < _WORTH_IT * engine.count_tokens(list(listing))
        )
        return self._asked

    def shrink(
        self, engine: Engine, session: Session, listing: Sequence[Message], focus: str | None, force: bool
    ) -> Shrunk:
        """Compacts when that is due, and returns the core's context if it is smaller than the list.

        A compaction that nobody asked about (a provider that refused the request) is an emergency:
        the true window is smaller than the one we were told.
        """
        before = engine.count_tokens(list(listing))
        overflow = not self._asked and not force
        self._asked = False
        budget = self.budget()
        if overflow:
            budget = min(budget, int(_OVERFLOW_SHARE * (before + self.overhead)))
        result = engine.compact(
            session, force=force or overflow, budget=budget, overhead_tokens=self.overhead
        )
        context = engine.assemble(session, budget, overhead_tokens=self.overhead, prompt=focus)
        talk = [message for message in context.messages if message.get("role") != "system"]
        smaller = present(talk, listing)
        trouble = "" if result.compacted else result.detail
        if not smaller or engine.count_tokens(smaller) > _WORTH_IT * before:
            return Shrunk(None, trouble)
        return Shrunk(to_host(smaller), trouble)
