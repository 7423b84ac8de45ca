"""A `Session` of OpenAI Agents over the core.

The runner reads a session once, when a run begins, and adds what happened after each turn. So a long run's
input grows between the two; `LcmSession.input_filter` keeps that within the window too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from agents import Model, ModelProvider, MultiProvider, RunConfig
from agents.memory import SessionABC

from lcm_plugin.compaction.overflow import is_shorter, refusal_of
from lcm_plugin.forks import FreshLocks, join
from lcm_plugin.hosts.openai_agents.items import Item, call_of, is_output, is_sealed, to_core
from lcm_plugin.hosts.openai_agents.journal import LiveRow, live_rows, newest_items, record_items, take_back
from lcm_plugin.hosts.openai_agents.models import FittingModel, FittingModels
from lcm_plugin.hosts.openai_agents.shown import shown_items
from lcm_plugin.hosts.openai_agents.tools import recall_tools
from lcm_plugin.hosts.openai_agents.usage import UsageHooks
from lcm_plugin.messages.convert import broken_record, to_json
from lcm_plugin.messages.tokens import files_in
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import Sent, Session, Turn, Usage

if TYPE_CHECKING:
    from agents import FunctionTool
    from agents.run import CallModelData, ModelInputData

    from lcm_plugin.config import LcmConfig
    from lcm_plugin.engine import Engine
    from lcm_plugin.types import Completer

_T = TypeVar("_T")
_HARD_SHARE = 0.95
_UNMEASURED = 4_000
_READINGS = 5
_NOTHING_KEPT = 1 << 30


class LcmSession(FreshLocks, SessionABC):  # type: ignore[misc, unused-ignore]
    """One conversation. Sessions may share an open ``engine``; else each opens its own on first use.

    ``window`` is the model's context size in tokens (128,000 when not told), ``overhead_tokens`` what goes
    out besides the items: instructions and tool schemas. Left out, it is what `hooks` measured in the newest
    call, 4,000 before the first. ``completer`` writes the summaries; by default the
    settings' ``summaryModel`` does, else they are extracted.
    """

    session_settings: Any = None

    def __init__(
        self,
        session_id: str,
        config: LcmConfig | None = None,
        *,
        window: int | None = None,
        overhead_tokens: int | None = None,
        model: str | None = None,
        completer: Completer | None = None,
        engine: Engine | None = None,
    ) -> None:
        if not session_id:
            raise ValueError("a session needs an id")
        if overhead_tokens is not None and overhead_tokens < 0:
            raise ValueError(f"overhead_tokens must be at least 0, not {overhead_tokens}")
        self.session_id = session_id
        self.plugin = LcmPlugin(config, completer=completer, engine=engine)
        self.core_session = Session(f"openai-agents:{session_id}")
        self.tools: list[FunctionTool] = recall_tools(self)
        self.hooks = UsageHooks(self)
        self._window = window
        self._named_overhead = overhead_tokens
        self._measured_overhead = _UNMEASURED
        self._model = model
        self._writing = threading.Lock()
        join(self)

    # the SDK's protocol

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The assembled context; with a ``limit`` the newest items of the record, exactly as they came in.

        Where the host compacts (``captureOnly``), all of them.
        """
        return await asyncio.to_thread(self._items, self._limit(limit))

    async def add_items(self, items: list[Any]) -> None:
        """Stores items, all or none of them."""
        if items:
            await asyncio.to_thread(self._add, [_as_dict(item) for item in items])

    async def pop_item(self) -> Any:
        """Takes the newest item out of the conversation and returns it; its record stays."""
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        """Archives the conversation; the next item begins an empty one."""
        await asyncio.to_thread(self.engine.reset_session, self.core_session)

    async def _atomic_replace_items(self, items: list[Any]) -> bool:
        """The SDK compacted the history (``responses.compact``): its items stand in the place of all before.

        From now on it compacts this conversation, and nothing is summarised here. What was said before can be found.
        """
        await asyncio.to_thread(self._replace, [_as_dict(item) for item in items])
        return True

    # beside the protocol

    @property
    def engine(self) -> Engine:
        """The engine, opened at first use: status, search, import and export."""
        return self.plugin.engine

    async def record(self) -> list[Any]:
        """Every item ever added since the last clear, also those taken back, exactly as they came in."""
        return await asyncio.to_thread(lambda: record_items(self.engine, self.core_session))

    def run_config(self, *, model_provider: ModelProvider | None = None, **settings: Any) -> RunConfig:
        """A run config with `input_filter` in it, whose models of a name are as those of `model`."""
        return RunConfig(
            call_model_input_filter=self.input_filter,
            model_provider=FittingModels(model_provider or MultiProvider(), self),
            **settings,
        )

    def model(self, model: Model) -> Model:
        """The model, asked again with a shorter input within the same turn when an input is refused as too long."""
        return FittingModel(model, self)

    async def input_filter(self, data: CallModelData[Any]) -> ModelInputData:
        """For ``RunConfig.call_model_input_filter``: assembles anew when a run's own items outgrow the window.

        Old items that fit the newest request are quoted before it.
        """
        work = partial(self._filtered, data.model_data.input, data.model_data.instructions)
        items = await asyncio.to_thread(
            self.plugin.guard, "input_filter", self.core_session, work, lambda: None
        )
        return data.model_data if items is None else replace(data.model_data, input=items)

    def tool_schemas(self) -> list[dict[str, Any]]:
        """The tools that the settings give to agents."""
        return self.plugin.lcm_tools()

    def call_tool(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Runs a recall tool on this session."""
        answer = self.plugin.lcm_call_tool(self.core_session, name, arguments)
        return answer or {"error": f"there is no tool {name}"}

    def measure(self, tools: Sequence[Any], instructions: str | None, items: Sequence[Any]) -> Sent:
        """What a model call is given, as the engine counts it; `hooks` asks before each call."""
        count, plain = self.engine.count_tokens, [_as_dict(item) for item in items]
        schemas = [
            [tool.name, getattr(tool, "description", ""), getattr(tool, "params_json_schema", {})]
            for tool in tools
        ]
        self._measured_overhead = count(instructions or "") + count(schemas)
        return Sent(sum(count(item) for item in plain), self._measured_overhead, None, files_in(plain))

    def note_usage(self, usage: Usage, sent: Sent | None = None) -> None:
        """Records what the provider counted for a model call, and what that call was given."""
        self.plugin.after_turn(replace(self._turn(usage=usage), sent=sent))

    def after_refusal(
        self, error: BaseException, given: Sequence[Any], instructions: str | None, tools: Sequence[Any]
    ) -> list[Item] | None:
        """A model call failed: a shorter input to try again with, or None when the error is another or none is shorter."""
        if refusal_of(error) is None:
            return None

        def shorten() -> list[Item] | None:
            if self.engine.captures_only(self.core_session):
                return None
            refused = self.measure(tools, instructions, given)
            self.note_refusal(error, refused)
            shorter = self._assembled_anew([_as_dict(item) for item in given])
            now = None if shorter is None else self.measure(tools, instructions, shorter)
            if now is None or not is_shorter(now, refused):
                return None
            self.hooks.sent_instead(refused, now)
            return shorter

        return self.plugin.guard("after_refusal", self.core_session, shorten, lambda: None)

    def note_refusal(self, error: BaseException, sent: Sent | None = None) -> None:
        """A run failed with this error. If it says that the input was too long, the next run's input fits."""
        self.engine.recover_overflow(
            self.core_session,
            self._window,
            overhead_tokens=self._overhead,
            model=self._model,
            window=self._window,
            error=error,
            sent=sent,
        )

    @property
    def _overhead(self) -> int:
        return self._measured_overhead if self._named_overhead is None else self._named_overhead

    def close(self) -> None:
        """Closes the engine; a later call opens it again."""
        self.plugin.close()

    # inside

    def _counted(self, hook: str, work: Callable[[], _T]) -> _T:
        """The work's result. A failure is raised: nobody else has this history, so that the run must not go on."""
        return self.plugin.counted(hook, self.core_session, work)

    def _limit(self, limit: int | None) -> int | None:
        if limit is not None or self.session_settings is None:
            return limit
        settings = self.session_settings
        found: int | None = settings.get("limit") if isinstance(settings, dict) else settings.limit
        return found

    def _items(self, limit: int | None) -> list[Item]:
        def items() -> list[Item]:
            if limit is not None or self.engine.captures_only(self.core_session):
                return (
                    newest_items(self.engine, self.core_session, limit) if limit is None or limit > 0 else []
                )
            return self._assembled(lambda row: not _calls(row))

        return self._counted("get_items", items)

    def _assembled(self, belongs: Callable[[LiveRow], bool]) -> list[Item]:
        """The context and the newest replies, which the core leaves out since a model call cannot follow them.

        When another run adds items meanwhile, the replies stand in the context after all, so that both are read again.
        """
        items: list[Item] = []
        for _ in range(_READINGS):
            ending = self._ending(belongs)
            tokens = self.engine.count_tokens([{"role": "assistant", "content": ending}]) if ending else 0
            context = self.plugin.before_turn(self._turn(more_overhead=tokens))
            if context is None:
                return newest_items(self.engine, self.core_session, None)
            items = shown_items(context.messages)
            if self._ending(belongs) == ending:
                return [*items, *ending]
        return items

    def _ending(self, belongs: Callable[[LiveRow], bool]) -> list[Item]:
        """The items of a model's newest messages that nothing followed."""
        found: list[Item] = []
        for row in live_rows(self.engine, self.core_session):
            if row.message["role"] != "assistant" or not belongs(row):
                break
            if not row.shows_nothing:
                found[:0] = shown_items([row.message])
        return found

    def _add(self, items: list[Item]) -> None:
        with self._writing:
            newest = self._counted("add_items", lambda: next(live_rows(self.engine, self.core_session), None))
            messages = to_core(items, newest.message if newest else None)
            self.plugin.record(self.core_session, messages, "all")
            if any(map(is_sealed, items)):
                self._counted("add_items", lambda: self.engine.leave_to_host(self.core_session))
        self.plugin.after_turn(self._turn())

    def _replace(self, items: list[Item]) -> None:
        """Stores the items behind a cut that `_newest` and contexts do not look beyond; without the cut on a failure."""

        def replace_all() -> None:
            self.engine.new_session(self.core_session, _NOTHING_KEPT)
            try:
                self.engine.ingest(self.core_session, to_core(items), "all")
            except BaseException:
                self.engine.undo_new(self.core_session)
                raise
            self.engine.leave_to_host(self.core_session)

        with self._writing:
            self._counted("replace_items", replace_all)

    def _pop(self) -> Item | None:
        with self._writing:
            return self._counted("pop_item", lambda: take_back(self.engine, self.core_session))

    def _shorter(self, given: Sequence[Any], instructions: str | None) -> list[Item] | None:
        """The input within the window; None when it is already, or when it is not this session's."""
        count, items = self.engine.count_tokens, [_as_dict(item) for item in given]
        room = int(self.engine.token_limit(self._window, self._overhead, self._model) * _HARD_SHARE)
        if count(instructions or "") + sum(count(item) for item in items) <= room:
            return None
        return self._assembled_anew(items)

    def _filtered(self, given: Sequence[Any], instructions: str | None) -> list[Any]:
        captures_only = self.engine.captures_only(self.core_session)
        shorter = None if captures_only else self._shorter(given, instructions)
        return self._with_quotes(given if shorter is None else shorter, instructions)

    def _with_quotes(self, given: Sequence[Any], instructions: str | None) -> list[Any]:
        """The input with what recall quotes for its newest request; the same within a run's tool loop."""
        room = self.engine.token_limit(self._window, self._overhead, self._model)
        room -= self.engine.count_tokens(instructions or "")
        quoted = self.engine.quoted_beside(self.core_session, [_as_dict(item) for item in given], room)
        if quoted is None:
            return list(given)
        at, quotes = quoted
        return [*given[:at], quotes, *given[at:]]

    def _assembled_anew(self, items: Sequence[Item]) -> list[Item] | None:
        """The context, and those of the items that are not stored yet; None when they are not this session's."""
        newest = newest_items(self.engine, self.core_session, 1)
        position = next((n for n in range(len(items) - 1, -1, -1) if [items[n]] == newest), None)
        if position is None:
            return None
        fresh = items[position + 1 :]
        shorter = [*self._assembled(lambda row: True), *fresh]
        made = {call_of(item) for item in shorter if not is_output(item)}
        orphans = [item for item in fresh if is_output(item) and call_of(item) not in made]
        return None if orphans else shorter

    def _turn(self, usage: Usage | None = None, more_overhead: int = 0) -> Turn:
        return Turn(
            self.core_session,
            [],
            mode="append",
            model=self._model,
            window=self._window,
            overhead_tokens=self._overhead + more_overhead,
            usage=usage,
        )


def _calls(row: LiveRow) -> bool:
    return any(call_of(item) for item in row.stored.items)


def _as_dict(item: Any) -> Item:
    """An item as plain JSON values."""
    given = item.model_dump(exclude_unset=True) if hasattr(item, "model_dump") else item
    try:
        plain: Item = to_json(given)
    except Exception as error:  # noqa: BLE001 - a foreign mapping may raise anything
        return broken_record(given, error)
    return plain
