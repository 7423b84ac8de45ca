"""The middleware: it stores the graph's messages and puts an assembled context into each model call.

The graph's own history is never changed. Nothing here decides what is new, what is summarised or what
fits: that is asked of the core. When something fails, the model call goes out as the graph made it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from lcm_plugin.compaction.overflow import is_shorter, refusal_of
from lcm_plugin.hosts.langchain.completer import ChatModelCompleter
from lcm_plugin.hosts.langchain.lanes import KeyOf, keeps_its_state, running_session
from lcm_plugin.hosts.langchain.messages import Converted, converted, listing
from lcm_plugin.hosts.langchain.neighbours import warn_of_summariser
from lcm_plugin.hosts.langchain.options import ContextSize, Trigger, configured
from lcm_plugin.hosts.langchain.tools import compaction_tool, recall_tools
from lcm_plugin.hosts.langchain.view import beside_state, seen_by_model, with_note
from lcm_plugin.messages.conversions import Grown
from lcm_plugin.messages.usage import usage_of
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.text import plural
from lcm_plugin.types import IngestMode, Message, Sent, Session, Turn, Usage

if TYPE_CHECKING:
    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain_core.language_models import BaseChatModel
    from langgraph.runtime import Runtime

    from lcm_plugin.config import LcmConfig
    from lcm_plugin.config.model import Policy
    from lcm_plugin.engine import Engine

logger = logging.getLogger("lcm_plugin.langchain")


@dataclass(frozen=True, slots=True)
class _Call:
    """A model call as it goes out, and what the core is told of it."""

    request: Any
    session: Session
    model: str
    window: int | None
    overhead: int
    prompt: str | None
    held: Grown[Converted]
    sent: Sent | None = None

    def turn(
        self,
        messages: Sequence[Message] = (),
        mode: IngestMode = "append",
        usage: Usage | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Turn:
        """What the core is told of this call."""
        return Turn(
            self.session,
            messages,
            mode=mode,
            model=self.model,
            window=self.window,
            overhead_tokens=self.overhead,
            prompt=self.prompt,
            usage=usage,
            metadata=metadata or {},
            sent=self.sent,
        )


class LcmMiddleware(AgentMiddleware):  # type: ignore[misc, unused-ignore]
    """Lossless context management for ``create_agent`` and everything built on it.

    ``window`` is the model's context size in tokens; by default what the model's profile says, else
    128,000. ``session`` names the lane of talk from the run's config; by default it is the thread's id.
    ``summary_model`` writes the summaries: by default the agent's own model; ``"none"`` leaves them to the
    settings' ``summaryModel`` or to extraction. ``engine`` shares an open engine (then its completer counts).
    ``name`` is the middleware's own: under ``"SummarizationMiddleware"`` deepagents lets it replace its summariser.
    ``trigger``, ``keep`` and ``policy`` stand for settings, in the words of LangChain's `SummarizationMiddleware`: when
    compaction is owed (nothing is compacted before), and what is never summarised. With ``compact_tool`` the agent gets
    the tool ``compact_conversation``.
    """

    def __init__(
        self,
        config: LcmConfig | None = None,
        *,
        window: int | None = None,
        session: KeyOf | None = None,
        summary_model: BaseChatModel | str | None = None,
        engine: Engine | None = None,
        name: str = "LcmMiddleware",
        trigger: Trigger | None = None,
        keep: ContextSize | None = None,
        policy: Policy | None = None,
        compact_tool: bool = False,
    ) -> None:
        super().__init__()
        if isinstance(summary_model, str) and summary_model != "none":
            raise ValueError(f"summary_model must be a chat model, 'none' or None, not {summary_model!r}")
        model = None if isinstance(summary_model, str) else summary_model
        self._completer = None if summary_model == "none" else ChatModelCompleter(model)
        if engine is not None and (trigger or keep or policy):
            raise ValueError(
                "trigger, keep and policy are settings of the engine: give them to its LcmConfig"
            )
        config = configured(config, trigger, keep, policy, window)
        self.plugin = LcmPlugin(config, completer=self._completer, engine=engine)
        self._name = name
        self._is_being_built = True
        self._window = window
        self._session = session
        self._warned = False
        self.tools = recall_tools(self.plugin.lcm_tools(), self._answer)
        if compact_tool:
            self.tools = [*self.tools, compaction_tool(self._compact)]

    # the graph's hooks

    @property
    def name(self) -> str:
        """What the graph calls this middleware. The graph asks for it while it is built."""
        if self._is_being_built:
            settings = self.plugin.settings()
            if settings is not None and not settings.capture_only:
                self._is_being_built = not warn_of_summariser(self)
        return self._name

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Calls the model with the assembled context; with a shorter one as long as it finds that too long."""
        call = self._prepare(request, running_session(self._session))
        if call is None:
            return handler(request)
        while True:
            try:
                response = handler(call.request)
                break
            except Exception as error:
                shorter = self._after_overflow(request, call, error)
                if shorter is None:
                    raise
                call = shorter
        self._note(call, response)
        return response

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """As `wrap_model_call`; the store works on a thread of its own."""
        call = await asyncio.to_thread(self._prepare, request, running_session(self._session))
        if call is None:
            return await handler(request)
        while True:
            try:
                response = await handler(call.request)
                break
            except Exception as error:
                shorter = await asyncio.to_thread(self._after_overflow, request, call, error)
                if shorter is None:
                    raise
                call = shorter
        await asyncio.to_thread(self._note, call, response)
        return response

    def after_agent(self, state: Mapping[str, Any], runtime: Runtime[Any]) -> None:
        """Stores the end of a run."""
        self._end(state["messages"], running_session(self._session))

    async def aafter_agent(self, state: Mapping[str, Any], runtime: Runtime[Any]) -> None:
        """As `after_agent`."""
        await asyncio.to_thread(self._end, state["messages"], running_session(self._session))

    # for people

    @property
    def engine(self) -> Engine:
        """The engine, opened at first use: status, search, import and export."""
        return self.plugin.engine

    @staticmethod
    def session_of(thread_id: str) -> Session:
        """The engine's session of a thread, unless ``session`` chooses another."""
        return Session(f"langchain:{thread_id}")

    def close(self) -> None:
        """Closes the engine; a later call opens it again."""
        self.plugin.close()

    # inside

    def _prepare(
        self,
        request: ModelRequest[Any],
        session: Session | None,
        overflow: Exception | None = None,
        refused: Sent | None = None,
    ) -> _Call | None:
        """The call with an assembled context; None when it must go out as it is."""
        self._is_being_built = False
        if session is None:
            self._warn_once()
            return None
        if self._completer is not None:
            self._completer.use(request.model)
        return self.plugin.guard(
            "before_model", session, lambda: self._prepared(request, session, overflow, refused), lambda: None
        )

    def _prepared(
        self, request: ModelRequest[Any], session: Session, overflow: Exception | None, refused: Sent | None
    ) -> _Call | None:
        if not self.engine.config.enabled:
            return None
        state = _state(request)
        noted = request.override(
            system_message=with_note(request.system_message, self.engine.system_note(session))
        )
        beside = beside_state(request.messages, state)
        held = converted(state, session.name, begins=_begins(state))
        call = _Call(
            noted,
            session,
            _name_of(request.model),
            self._window_of(request.model),
            self._overhead(noted, beside),
            _asked(state),
            held,
            refused,
        )
        metadata = {} if overflow is None else {"overflow": overflow}
        context = self.plugin.before_turn(call.turn(listing(held), _mode(), metadata=metadata))
        if context is None or context.sent is None:
            return None
        messages = seen_by_model(context.messages, request.messages, held, beside)
        return replace(call, request=noted.override(messages=messages), sent=context.sent)

    def _after_overflow(self, request: ModelRequest[Any], call: _Call, error: Exception) -> _Call | None:
        """A shorter call when the provider refused the last one as too long; None when there is none."""
        if refusal_of(error) is None:
            return None
        shorter = self._prepare(request, call.session, error, call.sent)
        return shorter if shorter and is_shorter(shorter.sent, call.sent) else None

    def _note(self, call: _Call, response: Any) -> None:
        """Stores the answer, takes what the provider counted, and lets due compaction start.

        A tool that raises ends the run, and without a checkpointer nothing would hand the answer over again.
        """
        result = getattr(response, "result", response)
        answers = [
            one for one in (result if isinstance(result, list) else [result]) if isinstance(one, BaseMessage)
        ]
        answer = next((message for message in reversed(answers) if isinstance(message, AIMessage)), None)
        usage = usage_of(answer.usage_metadata) if answer is not None else None
        self.plugin.after_turn(call.turn(listing(call.held, converted(answers)), _mode(), usage))

    def _end(self, messages: Sequence[BaseMessage], session: Session | None) -> None:
        if session is None:
            return

        def record() -> None:
            if self.engine.config.enabled:
                self.plugin.record(
                    session, listing(converted(messages, session.name, begins=False, ends=True)), _mode()
                )

        self.plugin.guard("after_agent", session, record, lambda: None)

    def _answer(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        session = running_session(self._session)
        if session is None:
            return {"error": "this run has no thread_id, so there is no history to search"}
        return self.plugin.lcm_call_tool(session, name, arguments) or {"error": f"there is no tool {name}"}

    def _compact(self, focus: str = "") -> str:
        """What the agent is told of the compaction that it asked for."""
        session = running_session(self._session)
        if session is None:
            return "Nothing was compacted: this run has no thread_id."
        work = partial(self.engine.compact, session, True, self._window, focus=focus.strip())
        done = self.plugin.guard("compact", session, work, lambda: None)
        if done is None or not done.compacted:
            why = "it failed; the log says why" if done is None else str(done.reason).replace("_", " ")
            return f"Nothing was compacted: {why}."
        return (
            f"Compacted: {plural(len(done.summaries), 'summary')} stand for the older messages, "
            f"{done.tokens_before:,} -> {done.tokens_after:,} tokens. Your next answer is asked for with them."
        )

    def _overhead(self, request: ModelRequest[Any], beside: Sequence[Any]) -> int:
        """Tokens of what goes out besides the assembled context."""
        count = self.engine.count_tokens
        schemas = [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in request.tools]
        text = str(request.system_message.content) if request.system_message else ""
        return count(text) + count(schemas) + sum(count(str(one.message.content)) for one in beside)

    def _window_of(self, model: Any) -> int | None:
        if self._window is not None:
            return self._window
        profile = getattr(model, "profile", None)
        known = profile.get("max_input_tokens") if isinstance(profile, Mapping) else None
        return known if isinstance(known, int) and known > 0 else None

    def _warn_once(self) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "LCM stores nothing: this run has no thread_id. Call the agent with "
                "config={'configurable': {'thread_id': …}}, or give LcmMiddleware a session."
            )


def _state(request: ModelRequest[Any]) -> Sequence[BaseMessage]:
    """The graph's messages before the call."""
    messages: Sequence[BaseMessage] = request.state.get("messages") or request.messages
    return messages


def _begins(state: Sequence[BaseMessage]) -> bool:
    """Whether a model call begins a turn, rather than going on with a tool's result."""
    return not state or state[-1].type != "tool"


def _mode() -> IngestMode:
    """With a checkpointer messages keep their ids; else the caller hands over a history or only what is new."""
    return "state" if keeps_its_state() else "part"


def _asked(messages: Sequence[BaseMessage]) -> str | None:
    """The newest words of a user."""
    return next((str(message.text) for message in reversed(messages) if message.type == "human"), None)


def _name_of(model: Any) -> str:
    for attribute in ("model_name", "model"):
        name = getattr(model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(model).__name__
