"""What the plugin in OpenClaw calls: the context of a turn, a turn to store, a compaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lcm_plugin.hosts.agents.passages import is_a_persons_text
from lcm_plugin.hosts.openclaw.history import follow, reply_at_the_end
from lcm_plugin.hosts.openclaw.messages import plan, to_core
from lcm_plugin.hosts.openclaw.sessions import quoted_in
from lcm_plugin.hosts.stdio.lines import Method
from lcm_plugin.hosts.stdio.methods import OfSession
from lcm_plugin.interchange.importers.sources.openclaw_store import is_own_copy
from lcm_plugin.messages.blocks import text_of
from lcm_plugin.messages.markup import recalled_ids_of
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.recall.scope import Scope
from lcm_plugin.sessions.access import Access
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.session_keys import is_single_run
from lcm_plugin.types import Message, Turn

_ASSUMED_BUDGET = 128_000
# Percent of the budget: the order that OpenClaw gives with its copy needs room too.
_SHARE_OF_COPY = 75


class AssembleParams(OfSession):
    """The history before a turn, the tokens that the context may take, and what the user asks now.

    Between calls of tools the history is the context of this turn that was made here.
    """

    messages: list[dict[str, Any]]
    budget: int | None = None
    model: str | None = None
    prompt: str = ""


class CommitParams(OfSession):
    """A turn that is over, under a key that the host gives it once."""

    key: str
    messages: list[dict[str, Any]]
    heartbeat: bool = False


class CompactParams(OfSession):
    """A compaction that the host or a user asks for."""

    budget: int | None = None
    force: bool = False
    focus: str = ""


class OpenclawMethods:
    """The methods for one OpenClaw. What goes wrong is an error there: the host then goes on with its own list."""

    def __init__(self, plugin: LcmPlugin) -> None:
        self._plugin = plugin

    def all(self) -> dict[str, Method]:
        """The methods by name."""
        return {
            "openclaw.assemble": self._assemble,
            "openclaw.commit": self._commit,
            "openclaw.compact": self._compact,
        }

    def _assemble(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The context: places in the host's list, and messages that stand for what does not fit."""
        given = AssembleParams.model_validate(params)
        history = [to_core(one) for one in given.messages]
        if is_own_copy(given.session.key):
            return self._newest(history, given.budget or _ASSUMED_BUDGET)
        # What is committed may come back in another form, and is not to be stored again.
        is_known = follow(self._plugin.engine, given.session, history)
        # What a first prompt was given with it is no talk.
        if not history or (not is_known and all(recalled_ids_of(text_of(one)) for one in history)):
            return self._with_quotes(given, [], 0, [])
        turn = Turn(
            given.session,
            () if is_known else history,
            mode="append" if is_known else "sync",
            model=given.model,
            window=given.budget,
            prompt=given.prompt,
            recall=False,
        )
        context = self._plugin.before_turn(turn)
        if context is None or not context.messages:
            return {"plan": list(range(len(history))), "tokens": 0}
        reply = reply_at_the_end(self._plugin.engine, given.session)
        shown = [*context.messages, *reply]
        tokens = context.tokens + sum(map(self._plugin.engine.count_tokens, reply))
        return self._with_quotes(given, plan(shown, history), tokens, shown)

    def _newest(self, history: Sequence[Message], budget: int) -> dict[str, Any]:
        """The newest messages of a copy that OpenClaw made for work of its own: its talk is stored where it was held."""
        free, begin = budget * _SHARE_OF_COPY // 100, len(history)
        costs = [self._plugin.engine.count_tokens(one) for one in history]
        used = 0
        for place in range(len(history) - 1, -1, -1):
            used += costs[place]
            if used > free:
                break
            # A context begins with a request; a result never stands without its call.
            begin = place if history[place]["role"] == "user" else begin
        return {"plan": list(range(begin, len(history))), "tokens": sum(costs[begin:])}

    def _with_quotes(
        self,
        given: AssembleParams,
        planned: list[int | dict[str, Any]],
        tokens: int,
        shown: Sequence[Message],
    ) -> dict[str, Any]:
        """A context with the quotes that fit the prompt, which follows it; none for a sub-agent's order or a notice."""
        if not is_a_persons_text(given.prompt) or is_single_run(given.session.key):
            return {"plan": planned, "tokens": tokens}
        engine = self._plugin.engine
        free = max(0, (given.budget or _ASSUMED_BUDGET) - tokens)
        quotes = engine.quotes_for(
            given.session, given.prompt, shown, free, free, among=partial(self._among, given.session.key)
        )
        if quotes:
            planned.append({"role": "user", "content": [{"type": "text", "text": quotes}], "timestamp": 0})
            tokens += engine.count_tokens(quotes)
        return {"plan": planned, "tokens": tokens}

    def _among(self, key: str, reader: Reader) -> Scope | None:
        """Where quotes for a session come from; None for the session itself."""
        engine = self._plugin.engine
        if engine.config.recall_scope == "session":
            return None
        return quoted_in(reader, key, lambda other: engine.sessions.access_of_key(other) is Access.NONE)

    def _commit(self, params: Mapping[str, Any]) -> dict[str, Any]:
        given = CommitParams.model_validate(params)
        if is_own_copy(given.session.key):
            return {"status": "committed"}
        turn = [to_core(one) for one in given.messages]
        report = self._plugin.engine.ingest(given.session, turn, "append")
        self._plugin.after_turn(Turn(given.session, (), mode="append"))
        return {"status": "committed" if report.stored else "duplicate"}

    def _compact(self, params: Mapping[str, Any]) -> dict[str, Any]:
        given = CompactParams.model_validate(params)
        done = self._plugin.engine.compact(given.session, given.force, given.budget, focus=given.focus)
        counts = {"tokensBefore": done.tokens_before, "tokensAfter": done.tokens_after}
        # A context is within the budget without it; for a reason in other words OpenClaw gives up the turn.
        reason = str(done.reason) if done.compacted else f"already under target: {done.reason}"
        return {"ok": True, "compacted": done.compacted, "reason": reason, "result": counts}
