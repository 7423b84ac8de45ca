"""Getting a smaller list for one agent: when it is worth asking, and asking the core."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lcm_plugin.hosts.hermes.messages import to_host
from lcm_plugin.hosts.hermes.presence import present
from lcm_plugin.types import Message, Reason, Session

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.hosts.hermes.engine import HermesEngine

_WORTH_IT = 0.97
_OVERFLOW_SHARE = 0.7
_GROWTH = 0.05
_CALIBRATE_GROWTH = 1.25
_LEAST_SCALE, _MOST_SCALE = 0.5, 3.0
_GRACE_SECONDS = 1.0
_SWEEP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The list for the host, or None when there is no smaller one; ``trouble`` is for a person."""

    messages: list[Message] | None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class _Refusal:
    session_id: str
    tokens: int


@dataclass(slots=True)
class Measure:
    """What was measured of a model's requests.

    ``overhead`` is what the host adds to the list. It is in the core's tokens, while the host's window
    is in its provider's: ``scale`` is how many of the first make one of the second.
    """

    overhead: int = 0
    scale: float = 1.0
    scaled_at: int = 0
    seen: tuple[object, ...] = ()


class Shrinker:
    """Asks the core for one agent. A new agent begins with what was measured for the one before it."""

    def __init__(self, agent: HermesEngine) -> None:
        self._agent = agent
        self._own: Measure | None = None
        self._refusal: _Refusal | None = None
        self._asked = False

    @property
    def measure(self) -> Measure:
        """The measures of this agent's requests."""
        if self._own is None:
            self._own = replace(self._agent.runtime.measures.get(self._key, Measure()))
        return self._own

    @property
    def overhead(self) -> int:
        """What the host adds to the list."""
        return self.measure.overhead

    def learn(self, request: Mapping[str, Any], engine: Engine) -> None:
        """Measures the system prompt and the tool schemas of a request, when they changed."""
        messages = request.get("request_messages") or []
        system = [m for m in messages if isinstance(m, Mapping) and m.get("role") == "system"]
        body = (request.get("request") or {}).get("body") or {}
        tools = body.get("tools") or []
        seen = (sum(len(str(m.get("content") or "")) for m in system), len(tools), request.get("tool_count"))
        if seen != self.measure.seen:
            self.measure.seen = seen
            self.measure.overhead = engine.count_tokens([dict(m) for m in system]) if system else 0
            self.measure.overhead += engine.count_tokens(json.dumps(tools)) if tools else 0
            self._share()

    def calibrate(self, engine: Engine, listing: Sequence[Message], tokens: int) -> None:
        """Compares a request's count with the core's, again whenever requests have grown by a quarter."""
        if listing and self.measure.seen and tokens > _CALIBRATE_GROWTH * self.measure.scaled_at:
            self.measure.scaled_at = tokens
            counted = engine.count_tokens(list(listing)) + self.overhead
            self.measure.scale = min(_MOST_SCALE, max(_LEAST_SCALE, counted / tokens))
            self._share()

    @property
    def _key(self) -> tuple[str, str]:
        return self._agent.model, self._agent.platform

    def _share(self) -> None:
        self._agent.runtime.measures[self._key] = replace(self.measure)

    def budget(self) -> int | None:
        """The window, or what the host left of it when it lowered the threshold; None when not known."""
        agent = self._agent
        lowered = agent.threshold_tokens / agent.configured_share()
        window = min(agent.context_length, lowered) or agent.context_length
        return max(1, int(window * self.measure.scale)) if window else None

    def forget(self) -> None:
        """Another session or model: what was refused before says nothing about it."""
        self._refusal = None
        self._asked = False
        self._own = None

    def is_refused(self, tokens: int) -> bool:
        """Whether a smaller list was refused, and the list has hardly grown since."""
        refusal = self._refusal
        if refusal is None or refusal.session_id != self._agent.session_id:
            return False
        return tokens < refusal.tokens + _GROWTH * self._agent.threshold_tokens

    def refuse(self, tokens: int) -> None:
        """Remembers that there was no smaller list."""
        self._refusal = _Refusal(self._agent.session_id, tokens)

    def start_due(self, engine: Engine, session: Session) -> None:
        """Starts, on a thread of the core, the compaction that is due; waits only past the hard limit."""
        engine.schedule_compaction(session, **self._call())

    def can_shrink(self, engine: Engine, session: Session, listing: Sequence[Message], tokens: int) -> bool:
        """Whether the core's context is smaller than the list, or can be made so now.

        An agent that has shown no list yet is judged by the host's count of it, ``tokens``.
        """
        decision = engine.evaluate(session, **self._call())
        if listing:
            theirs = engine.count_tokens(list(listing))
        else:
            theirs = int(tokens * self.measure.scale) - self.overhead
        urgent = decision.reason is Reason.OVER_HARD_LIMIT or engine.wait_idle(0)
        self._asked = decision.tokens < _WORTH_IT * theirs or (decision.due and urgent)
        return self._asked

    def shrink(
        self, engine: Engine, session: Session, listing: Sequence[Message], focus: str | None, force: bool
    ) -> Shrunk:
        """Compacts when that is due, and returns the core's context if it is smaller than the list.

        A compaction that nobody asked about (a provider that refused the request) is an emergency:
        the true window is smaller than the one we were told.
        """
        before = engine.count_tokens(list(listing))
        overflow, self._asked = not (self._asked or force), False
        budget = self.budget()
        if overflow:
            budget = min(budget or before, max(1, int(_OVERFLOW_SHARE * (before + self.overhead))))
        trouble = self._compact(engine, session, budget, force or overflow)
        context = engine.assemble(session, budget, overhead_tokens=self.overhead, prompt=focus)
        smaller = self._for_host(context.messages, listing)
        if not smaller or engine.count_tokens(smaller) > _WORTH_IT * before:
            return Shrunk(None, trouble)
        return Shrunk(to_host(smaller), trouble)

    def _compact(self, engine: Engine, session: Session, budget: int | None, now: bool) -> str:
        """Compacts in this thread, or starts it and waits a moment; returns what went wrong."""
        if now:
            engine.wait_idle(_SWEEP_SECONDS)
            return engine.compact(session, True, **self._call(budget)).detail
        engine.schedule_compaction(session, **self._call(budget))
        engine.wait_idle(_GRACE_SECONDS)
        return ""

    def _call(self, budget: int | None = None) -> dict[str, Any]:
        """What the core is told of the next model call."""
        return {
            "budget": budget or self.budget(),
            "overhead_tokens": self.overhead,
            "model": self._agent.model or None,
            "window": self._agent.context_length or None,
        }

    @staticmethod
    def _for_host(context: Sequence[Message], listing: Sequence[Message]) -> list[Message]:
        """The context without the system prompt, which the host adds, and with the reply that ends the
        host's list: a context for a model call ends before it."""
        talk = present([message for message in context if message.get("role") != "system"], listing)
        replies: list[Message] = []
        for message in reversed(listing):
            if message.get("role") != "assistant" or message.get("tool_calls"):
                break
            replies.insert(0, message)
        return [*talk, *replies] if talk and talk[-1].get("role") != "assistant" else talk
