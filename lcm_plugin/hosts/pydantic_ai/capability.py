"""The capability: it stores a run's messages and puts an assembled context into each model call.

The run's own history is never changed. Nothing here decides what is new to the core, what is summarised or
what fits: that is asked of the core. When something fails, the model call goes out as the host made it.
"""

from __future__ import annotations

import copy
import os
import uuid
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import RetryModelRequest
from pydantic_ai.tools import AgentDepsT, RunContext

from lcm_plugin.assembly.recall_note import recall_note
from lcm_plugin.compaction.overflow import is_shorter, refusal_of
from lcm_plugin.hosts.pydantic_ai.completer import ModelCompleter
from lcm_plugin.hosts.pydantic_ai.messages import from_core
from lcm_plugin.hosts.pydantic_ai.recorder import Recorders
from lcm_plugin.hosts.pydantic_ai.tools import recall_toolset
from lcm_plugin.hosts.pydantic_ai.view import seen_by_model, with_quotes
from lcm_plugin.messages.usage import usage_of
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.recall.tools import TOOL_NAMES
from lcm_plugin.sessions.access import Access
from lcm_plugin.types import Message, RunPosition, Sent, Session, Turn, Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestContext
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.toolsets import AbstractToolset

    from lcm_plugin.config import LcmConfig
    from lcm_plugin.engine import Engine

_T = TypeVar("_T")
SessionOf = Callable[[RunContext[Any]], str]
# The session of the run whose tools are running here.
_RUNNING: ContextVar[str | None] = ContextVar("lcm_pydantic_ai_running", default=None)


class LcmCapability(AbstractCapability[AgentDepsT]):
    """Lossless context management: ``Agent(…, capabilities=[LcmCapability("agent:me:main")])``.

    ``session`` is the key of the lane of talk, or a function of the run's context that gives it. ``window`` is
    the model's context size in tokens; by default what the model's profile says, else 128,000.
    ``summary_model`` writes the summaries: by default the agent's own model; a name, or a model of its own;
    ``"none"`` leaves them to the settings' ``summaryModel`` or to extraction. ``engine`` shares an open engine
    (then its completer counts).
    """

    def __init__(
        self,
        session: str | SessionOf,
        database: str | os.PathLike[str] | None = None,
        *,
        window: int | None = None,
        summary_model: Model | str | None = None,
        config: LcmConfig | None = None,
        engine: Engine | None = None,
    ) -> None:
        self._completer = None if summary_model == "none" else ModelCompleter(summary_model)
        self.plugin = LcmPlugin(_config(database, config), completer=self._completer, engine=engine)
        self._session = session
        self._window = window
        self._recorders = Recorders()
        self._run = _Run()

    # for people

    @property
    def engine(self) -> Engine:
        """The engine, opened at first use: status, search, import and export."""
        return self.plugin.engine

    def history(self, session: str | None = None) -> list[ModelMessage]:
        """All stored messages of a session, as they were; of the capability's own, when its key is fixed."""
        key = session or self._session
        if not isinstance(key, str):
            raise ValueError("which session? This capability finds its key anew for each run")
        return from_core(self.engine.messages(Session(key)))

    def close(self) -> None:
        """Closes the database; a later run opens it again."""
        self.plugin.close()
        self._recorders.forget()

    # what an agent asks for when it is built and when a run begins

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """None: it cannot be named in a specification, since it may hold functions and models."""
        return None

    def get_ordering(self) -> CapabilityOrdering:
        """Innermost: what others do to a call is done before."""
        return CapabilityOrdering(position="innermost")

    def get_instructions(self) -> str:
        """What summaries are, and how to look behind them: the same text in every call."""
        return recall_note([schema["function"]["name"] for schema in self.plugin.lcm_tools()])

    def get_toolset(self) -> AbstractToolset[AgentDepsT]:
        """The recall tools, and the one that pins where the settings give it to agents."""
        return recall_toolset(self.plugin.lcm_tools(), self._answer)

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> AbstractCapability[AgentDepsT]:
        """A copy with a memory of its own for this run."""
        mine = copy.copy(self)
        key = self._session if isinstance(self._session, str) else self._session(ctx)
        outer = _RUNNING.get()
        if outer is not None and (key == outer or key.startswith(f"{outer}:subagent:")):
            # An agent that a tool of another agent runs: its talk is not that agent's.
            key = f"{outer}:subagent:{ctx.run_id or uuid.uuid4().hex}"
        mine._run = _Run(Session(key))
        return mine

    # a run's hooks

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: Any) -> AgentRunResult[Any]:
        """Stores the end of the run, also when it failed or was cancelled."""
        messages: Sequence[ModelMessage] | None = None
        outer = _RUNNING.set(self._run.session.key)
        try:
            result: AgentRunResult[Any] = await handler()
            messages = result.all_messages()
        finally:
            _RUNNING.reset(outer)
            with anyio.CancelScope(shield=True):
                await self._end(messages)
        return result

    async def prepare_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """The call with the assembled context."""
        run = self._run
        run.messages, model = ctx.messages, request_context.model
        run.model, run.window = model.model_name, self._window_of(model)
        if self._completer is not None:
            self._completer.use(model)
        if not await self._store(ctx.messages):
            return request_context

        def prepared() -> ModelRequestContext:
            if self.engine.captures_only(run.session):
                quoted = self._quotes(ctx.messages, request_context)
                return replace(request_context, messages=with_quotes(request_context.messages, quoted))
            context = self._assemble(request_context)
            if context is None:
                return request_context
            return replace(
                request_context, messages=seen_by_model(context, request_context.messages, ctx.messages)
            )

        guarded = partial(
            self.plugin.guard, "prepare_model_request", run.session, prepared, lambda: request_context
        )
        return await _threaded(guarded) or request_context

    async def on_model_request_error(
        self, ctx: RunContext[AgentDepsT], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """Tries again with a shorter context, as long as the provider finds the call too long."""
        run = self._run
        if refusal_of(error) is None or (run.overflow and not is_shorter(run.sent, run.refused)):
            raise error
        run.overflow, run.refused = error, run.sent
        raise RetryModelRequest from error

    async def after_model_request(
        self, ctx: RunContext[AgentDepsT], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Takes what the provider counted."""
        self._run.usage, self._run.overflow = usage_of(response.usage), None
        return response

    async def before_tool_execute(
        self, ctx: RunContext[AgentDepsT], *, call: Any, tool_def: Any, args: Any
    ) -> Any:
        """Stores the calls before the first of them does anything; a search need not find itself."""
        if call.tool_name not in TOOL_NAMES:
            await self._store(ctx.messages)
        return args

    # inside

    async def _store(self, messages: Sequence[ModelMessage]) -> bool:
        """Stores what is new; whether the session's history may stand in for the host's."""
        work = partial(self._stored, list(messages))
        return bool(
            await _threaded(partial(self.plugin.guard, "record", self._run.session, work, lambda: False))
        )

    def _stored(self, messages: list[ModelMessage]) -> bool:
        run, engine = self._run, self.engine
        if not engine.config.enabled or engine.access(run.session) is not Access.FULL:
            return False
        recorder = self._recorders.of(run.session.key)
        with recorder.lock:
            listing = recorder.listing(messages, run.model)
            if recorder.goes_on:
                run.place = _ingest(engine, run.session, listing) or run.place
                recorder.stored(listing)
        return True

    def _assemble(self, request: ModelRequestContext) -> list[dict[str, Any]] | None:
        self._run.overhead = self._overhead(request)
        metadata = {"overflow": self._run.overflow} if self._run.overflow else {}
        context = self.plugin.before_turn(replace(self._run.turn(), metadata=metadata))
        self._run.sent = context.sent if context else None
        return context.messages if context else None

    def _quotes(self, history: Sequence[ModelMessage], request: ModelRequestContext) -> str:
        """What recall quotes for the newest request of a run whose host compacts."""
        run = self._run
        room = self.engine.token_limit(run.window, self._overhead(request), run.model)
        talk = self._recorders.of(run.session.key).converted(history)
        quoted = self.engine.quoted_beside(run.session, talk, room)
        return str(quoted[1]["content"]) if quoted else ""

    async def _end(self, messages: Sequence[ModelMessage] | None) -> None:
        if not await self._store(self._run.messages if messages is None else messages):
            return
        await _threaded(self.plugin.after_turn, self._run.turn(self._run.usage))

    async def _answer(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        call = partial(self.plugin.lcm_call_tool, self._run.session, name, arguments)
        return await _threaded(call) or {"error": f"there is no tool {name}"}

    def _overhead(self, request: ModelRequestContext) -> int:
        """Tokens of what goes out beside the messages: instructions and tool schemas."""
        asked = request.model_request_parameters
        tools = [
            [tool.name, tool.description, tool.parameters_json_schema]
            for tool in (*asked.function_tools, *asked.output_tools)
        ]
        count = self.engine.count_tokens
        return count(getattr(request.messages[-1], "instructions", None) or "") + count(tools)

    def _window_of(self, model: Model) -> int | None:
        if self._window is not None:
            return self._window
        known = getattr(model, "context_window", None)
        return known if isinstance(known, int) and known > 0 else None


class _Run:
    """What the capability knows of one run."""

    def __init__(self, session: Session | None = None) -> None:
        self.session = session or Session("")
        self.messages: Sequence[ModelMessage] = ()
        self.model: str | None = None
        self.window: int | None = None
        self.overhead = 0
        self.usage: Usage | None = None
        self.sent: Sent | None = None
        self.place: RunPosition | None = None
        self.overflow: Exception | None = None
        self.refused: Sent | None = None

    def turn(self, usage: Usage | None = None) -> Turn:
        """What the core is told of a call: the messages are stored already."""
        return Turn(
            self.session,
            (),
            mode="append",
            model=self.model,
            window=self.window,
            overhead_tokens=self.overhead,
            usage=usage,
            sent=self.sent,
            run=self.place,
        )


def _ingest(engine: Engine, session: Session, listing: Sequence[Message]) -> RunPosition | None:
    """Stores what is new of a run's list; a list with nothing of the session is a run without a history."""
    names = [f"{message['role']}:{message['id']}" for message in listing]
    known = engine.record.known_ids(session, names)
    return engine.ingest(session, listing, "sync" if known else "append").run


def _config(database: str | os.PathLike[str] | None, config: LcmConfig | None) -> LcmConfig | None:
    if database is None:
        return config
    from lcm_plugin.config.file import load_config

    named = {"database": os.fspath(database)}
    return config.model_copy(update=named) if config else load_config(**named)


async def _threaded(function: Callable[..., _T], *args: Any) -> _T:
    return await anyio.to_thread.run_sync(function, *args)
