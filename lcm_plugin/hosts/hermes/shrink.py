"""Getting a smaller list for one agent: when it is worth asking, and asking the core."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lcm_plugin.compaction.overflow import refusal_of
from lcm_plugin.hosts.hermes.agent import Agent
from lcm_plugin.hosts.hermes.messages import to_host
from lcm_plugin.hosts.hermes.runtime import Overhead, Runtime
from lcm_plugin.messages.identity import identity_of
from lcm_plugin.messages.tokens import files_in
from lcm_plugin.types import Message, Reason, RunPosition, Sent, Session, Turn, Usage

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine

DEFAULT_SHARE = 0.75
# What stands before the messages in requests of the providers' kinds.
_FIXED_PARTS = ("tools", "toolConfig", "instructions", "system")
_WORTH_IT = 0.97
_GROWTH = 0.05
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


class Shrinker:
    """Asks the core for one agent. A new agent begins with what was measured for the one before it."""

    def __init__(self, agent: Agent, runtime: Runtime) -> None:
        self._agent = agent
        self._runtime = runtime
        self._own: Overhead | None = None
        self._seen_whole = False
        self._threshold = 0
        self._refusal: _Refusal | None = None
        self._asked = False
        self._shown = 0
        self._counts: dict[int, int] = {}
        self._sent: Sent | None = None
        self._overflow: tuple[str, bool | str] | None = None

    @property
    def overhead(self) -> int:
        """What the host adds to the list."""
        return self._measured.tokens

    @property
    def _measured(self) -> Overhead:
        if self._own is None:
            self._own = self._runtime.overheads.get(self._key, Overhead())
        return self._own

    @property
    def _key(self) -> tuple[str, str]:
        return self._agent.model, self._agent.platform

    def before_request(self, request: Mapping[str, Any], engine: Engine, listing: Sequence[Message]) -> None:
        """Notes what is sent, and what the host adds to it as far as its hook shows that.

        The hook cuts a request at 50,000 characters; `measure` gets it whole.
        """
        if not self._seen_whole:
            body = (request.get("request") or {}).get("body") or {}
            self._measure({"messages": request.get("request_messages"), "tools": body.get("tools")}, engine)
        self._overflow = None
        self._shown = self._count(engine, listing)
        self._sent = Sent(self._shown, self.overhead, None, files_in(listing))

    def measure(self, request: Mapping[str, Any], engine: Engine) -> None:
        """Counts the system prompt and the tool schemas of a whole request, when they changed."""
        self._seen_whole = True
        self._measure(request, engine)
        if self._sent is not None:
            self._sent = replace(self._sent, overhead=self.overhead)

    def _measure(self, request: Mapping[str, Any], engine: Engine) -> None:
        system = [
            dict(one)
            for one in request.get("messages") or ()
            if isinstance(one, Mapping) and one.get("role") == "system"
        ]
        fixed = [json.dumps(part) for name in _FIXED_PARTS if (part := request.get(name))]
        seen = (sum(len(str(one.get("content") or "")) for one in system), *map(len, fixed))
        if seen != self._measured.seen:
            tokens = sum(map(engine.count_tokens, fixed)) + (engine.count_tokens(system) if system else 0)
            self._own = self._runtime.overheads[self._key] = Overhead(tokens, seen)
            self.follow_window()

    def answered(self, engine: Engine, session: Session, prompt_tokens: int) -> None:
        """The newest request was answered, and the provider counted this much."""
        sent, self._sent = self._sent, None
        if sent is None or prompt_tokens <= 0:
            return
        agent = self._agent
        usage = Usage(prompt_tokens=prompt_tokens)
        turn = Turn(
            session, (), "append", agent.model or None, agent.context_length or None, usage=usage, sent=sent
        )
        self._runtime.outbox.put(lambda: engine.note_usage(turn))

    def refused(self, error: str) -> None:
        """The provider refused the newest request as too long, with this text."""
        self._overflow = (self._agent.session_id, error if refusal_of(error) else True)

    def follow_window(self) -> None:
        """Sets the agent's threshold for its window and what the host adds to the list.

        Where the host has lowered the threshold, it stays lower by the same share.
        """
        agent = self._agent
        lowered = min(1.0, agent.threshold_tokens / self._threshold) if self._threshold else 1.0
        self._threshold = self._chosen_threshold()
        agent.threshold_tokens = int(self._threshold * lowered)
        agent.threshold_percent = (
            agent.threshold_tokens / agent.context_length if agent.context_length else DEFAULT_SHARE
        )

    def _chosen_threshold(self) -> int:
        """The size of a request above which the list is to be made smaller: of the window, by the settings."""
        from lcm_plugin.compaction.policy import Call, limits_for

        agent, config = self._agent, self._runtime.config
        window = agent.context_length
        if config is None or not window:
            return int(DEFAULT_SHARE * window)
        call = Call(window, self.overhead, agent.model, window)
        return self.overhead + limits_for(config, call).soft

    def budget(self) -> int | None:
        """The window, or what the host left of it when it lowered the threshold; None when not known."""
        agent, fixed = self._agent, self.overhead
        window = agent.context_length
        if window and fixed < agent.threshold_tokens < self._threshold:
            room = (window - fixed) * (agent.threshold_tokens - fixed) / (self._threshold - fixed)
            window = fixed + int(room)
        return max(1, window) if window else None

    def forget(self) -> None:
        """Another session or model: what was refused before says nothing about it."""
        self._refusal = None
        self._asked = False
        self._own = None
        self._shown = 0

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
        engine.schedule_compaction(session, **self._call(), shown_tokens=self._shown)

    def can_shrink(self, engine: Engine, session: Session, listing: Sequence[Message], tokens: int) -> bool:
        """Whether the core's context is smaller than a list that the host calls full, or can be made so now.

        An agent that has shown no list yet is judged by the host's count of it, ``tokens``.
        """
        if listing:
            theirs = self._count(engine, listing)
        else:
            theirs = int(tokens / engine.calibration.factor(self._agent.model or None)) - self.overhead
        self._shown = max(self._shown, theirs)
        decision = engine.evaluate(session, **self._call(), shown_tokens=self._full)
        urgent = decision.reason is Reason.OVER_HARD_LIMIT or engine.wait_idle(0)
        self._asked = decision.tokens < _WORTH_IT * theirs or (decision.due and urgent)
        return self._asked

    def shrink(
        self,
        engine: Engine,
        session: Session,
        listing: Sequence[Message],
        run: RunPosition | None,
        focus: str | None,
        force: bool,
    ) -> Shrunk:
        """Compacts when that is due, and returns the core's context if it is smaller than the list.

        ``run`` is what `Engine.ingest` said of the list. After a refusal the core learns the window from the
        provider's error; a compaction that nobody asked about goes as far as a forced one.
        """
        self._shown = before = self._count(engine, listing)
        now, self._asked = force or not self._asked, False
        trouble = self._compact(engine, session, now, focus or "")
        context = engine.assemble(
            session,
            self.budget(),
            self.overhead,
            focus,
            model=self._agent.model or None,
            run=run,
            recall=False,  # the host keeps this list
        )
        smaller = self._for_host(context.messages, listing)
        if not smaller or engine.count_tokens(smaller) > _WORTH_IT * before:
            return Shrunk(None, trouble)
        return Shrunk(to_host(smaller), trouble)

    def _compact(self, engine: Engine, session: Session, now: bool, focus: str) -> str:
        """Compacts in this thread, or starts it and waits a moment; returns what went wrong."""
        overflow, self._overflow = self._overflow, None
        if overflow is not None and overflow[0] == self._agent.session_id:
            engine.wait_idle(_SWEEP_SECONDS)
            done = engine.recover_overflow(session, **self._call(), error=overflow[1], sent=self._sent)
            return done.detail
        if now:
            engine.wait_idle(_SWEEP_SECONDS)
            return engine.compact(session, True, **self._call(), focus=focus).detail
        engine.schedule_compaction(session, **self._call(), shown_tokens=self._full)
        engine.wait_idle(_GRACE_SECONDS)
        return ""

    @property
    def _full(self) -> int:
        """The size of the list once the host wants a smaller one: its threshold at least, whatever we count."""
        return max(self._shown, self._agent.threshold_tokens - self.overhead)

    def _call(self) -> dict[str, Any]:
        """What the core is told of the next model call."""
        return {
            "budget": self.budget(),
            "overhead_tokens": self.overhead,
            "model": self._agent.model or None,
            "window": self._agent.context_length or None,
        }

    def _count(self, engine: Engine, listing: Sequence[Message]) -> int:
        """Tokens of a list, of which each message is counted once."""
        identities = [identity_of(message) for message in listing]
        known = self._counts
        self._counts = {
            identity: known[identity] if identity in known else engine.count_tokens(message)
            for identity, message in zip(identities, listing, strict=True)
        }
        return sum(self._counts[identity] for identity in identities)

    @staticmethod
    def _for_host(context: Sequence[Message], listing: Sequence[Message]) -> list[Message]:
        """The context without the system prompt, which the host adds, and with the reply that ends the
        host's list: a context for a model call ends before it."""
        talk = [message for message in context if message.get("role") != "system"]
        replies: list[Message] = []
        for message in reversed(listing):
            if message.get("role") != "assistant" or message.get("tool_calls"):
                break
            replies.insert(0, message)
        return [*talk, *replies] if talk and talk[-1].get("role") != "assistant" else talk
