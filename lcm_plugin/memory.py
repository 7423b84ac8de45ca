"""Lossless memory for a program that calls a model's API itself.

    with Memory("talk.db", window=128_000) as memory:
        memory.add("What was the door code?")
        while True:
            answer = call_model(messages=memory.context(), tools=memory.tools)
            memory.add(answer)
            if not memory.run_tools(answer):
                break
        memory.end_turn()

Messages are dicts in OpenAI's chat shape. Every message is stored when `Memory.add` returns, and comes
back word for word; the context never outgrows the window. `AsyncMemory` has the same methods to await.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from lcm_plugin.arguments import checked
from lcm_plugin.config import LcmConfig
from lcm_plugin.config.file import load_config
from lcm_plugin.engine import Engine
from lcm_plugin.errors import InputError
from lcm_plugin.messages.usage import usage_of
from lcm_plugin.plugin import end_turn, next_context
from lcm_plugin.recall.tools import tool_names, tool_schemas
from lcm_plugin.types import Completer, Context, Message, Pin, Sent, Session, Turn, Usage

_P = ParamSpec("_P")
_T = TypeVar("_T")


@checked
class Memory:
    """The memory of one session. Thread-safe; close it, or use it in a ``with`` block.

    ``database`` is a path or a PostgreSQL URL; left out, it comes from the settings. The same ``session``
    key goes on with the same talk in any process. ``window`` is the model's context size in tokens (128,000
    is assumed when it is left out), ``system`` its instructions, to which a note on the tools is added.
    ``completer`` writes the summaries: ``(CompletionRequest) -> str``; without one they come from
    ``summaryModel`` or from extraction.
    Methods raise `LcmError` for what went wrong.
    """

    def __init__(
        self,
        database: str | os.PathLike[str] | None = None,
        *,
        session: str = "agent:memory:main",
        window: int | None = None,
        model: str | None = None,
        system: str = "",
        completer: Completer | None = None,
        config: LcmConfig | None = None,
    ) -> None:
        if window is not None and window < 1:
            raise InputError(f"window must be at least 1 token, not {window}")
        self.session = Session(session)
        self.engine = Engine.open(_config(database, config), completer)
        self._window = window
        self._model = model
        self._system = system
        self._sent: Sent | None = None

    def add(self, *messages: Message | str) -> int:
        """Stores messages in their order and returns how many; a text is a user's message."""
        said = [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]
        return self.engine.ingest(self.session, said).stored

    def take_back(self, count: int = 1) -> list[Message]:
        """Takes the newest ``count`` messages back and returns them, oldest first.

        They stay stored and can be found, marked as taken back; no context and no summary holds them from now on.
        """
        standing = self.engine.record.newest(self.session, count, standing=True)
        self.engine.record.withdraw(self.session, [row.head.message_id for row in standing])
        return [self.engine.record.whole(row) for row in standing]

    def replace(self, *messages: Message | str) -> int:
        """Makes this the whole talk and returns how many messages are new.

        What the talk had behind the point where the list goes on otherwise is taken back; what was taken back
        and is in the list again stands again.
        """
        said = [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]
        return self.engine.ingest(self.session, said, "whole").stored

    def pin(self, what: str) -> Pin:
        """Keeps a text, or a message's words by its id (``msg_…``), word for word in every context; see `Engine.pin`."""
        return self.engine.pin(self.session, what)

    def pins(self) -> list[Pin]:
        """What is pinned, oldest first."""
        return self.engine.pins(self.session)

    def unpin(self, *names: str) -> list[Pin]:
        """Removes pins by id, or ``all``, and returns them."""
        return self.engine.unpin(self.session, *names)

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The recall tools' schemas, in OpenAI's shape, to hand to the model beside your own."""
        return tool_schemas(self.engine.config)

    def context(
        self,
        *,
        overhead_tokens: int = 0,
        prompt: str | None = None,
        overflow: bool | str | BaseException = False,
    ) -> list[Message]:
        """The messages of the next model call: your instructions, then what fits.

        ``overhead_tokens`` is what you add yourself, your own tools' schemas above all. ``prompt`` is the
        question, for settings that choose by relevance. Set ``overflow`` (the exception, the provider's error
        text, or true) when the last context was refused as too long: this one is shorter, as the error says,
        or by a fifth. Ask so again as often as it is refused and gets shorter.
        """
        if overhead_tokens < 0:
            raise InputError(f"overhead_tokens must be at least 0, not {overhead_tokens}")
        instructions = self.instructions
        overhead = overhead_tokens + self.engine.count_tokens(self.tools)
        overhead += self.engine.count_tokens(instructions)
        assembled = self._next(overhead, prompt, {"overflow": overflow} if overflow else {})
        return [*instructions, *assembled.messages]

    @property
    def instructions(self) -> list[Message]:
        """The system message of each context: yours, and how to use the tools."""
        note = self.engine.system_note(self.session)
        text = "\n\n".join(filter(None, (self._system, note)))
        return [{"role": "system", "content": text}] if text else []

    def call_tool(self, name: str, arguments: str | Mapping[str, Any]) -> dict[str, Any]:
        """A recall tool's answer; ``arguments`` may be the JSON text that a model wrote."""
        try:
            return self.engine.call_tool(self.session, name, _values(arguments))
        except InputError as error:
            return _refused(error)

    def run_tools(self, answer: Message, other: Callable[[str, dict[str, Any]], Any] | None = None) -> int:
        """Runs the tool calls of an assistant's message and stores each result as it comes; returns how many.

        Calls of other tools go to ``other(name, arguments)``; its result is stored as text, or as JSON. Without
        it such a call is answered with an error, as is one whose arguments are no JSON object.
        """
        if not isinstance(answer, Mapping):
            raise InputError(
                f"answer must be the message that the model returned, a dict, not {type(answer).__name__}"
            )
        calls = answer.get("tool_calls") or ()
        for call in calls:
            self.add(self._result(call, other))
        return len(calls)

    def end_turn(self, usage: Usage | Mapping[str, Any] | None = None) -> None:
        """The turn is over: older messages are summarised in the background when that is due.

        ``usage`` is what the provider counted for the last call, as `Usage` or in its own shape (OpenAI's,
        Anthropic's or Gemini's). It is compared with what the last `context` gave.
        """
        end_turn(self.engine, self._turn(0, None, {}, usage_of(usage)))

    def messages(self) -> list[Message]:
        """All messages of the session, as they were added."""
        return self.engine.messages(self.session)

    def close(self) -> None:
        """Stops background work and closes the database."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _next(self, overhead: int, prompt: str | None, metadata: Mapping[str, Any]) -> Context:
        with self.engine.background.foreground():
            context = next_context(self.engine, self._turn(overhead, prompt, metadata))
        self._sent = context.sent
        return context

    def _turn(
        self,
        overhead: int,
        prompt: str | None,
        metadata: Mapping[str, Any],
        usage: Usage | None = None,
    ) -> Turn:
        return Turn(
            self.session,
            (),
            mode="append",
            model=self._model,
            window=self._window,
            overhead_tokens=overhead,
            prompt=prompt,
            usage=usage,
            metadata=metadata,
            sent=self._sent,
        )

    def _result(self, call: Mapping[str, Any], other: Callable[[str, dict[str, Any]], Any] | None) -> Message:
        name, arguments = call["function"]["name"], call["function"].get("arguments") or "{}"
        try:
            given = _values(arguments)
        except InputError as error:
            outcome: Any = _refused(error)
        else:
            if other is None or name in tool_names(self.engine.config):
                outcome = self.call_tool(name, given)
            else:
                outcome = other(name, given)
        text = outcome if isinstance(outcome, str) else json.dumps(outcome, ensure_ascii=False, default=str)
        return {"role": "tool", "tool_call_id": call["id"], "content": text}


class AsyncMemory:
    """`Memory` for coroutines: the same methods, each run in a worker thread.

    Use it with ``async with``, or call `open` first; the database is opened there and not before.
    """

    def __init__(self, database: str | os.PathLike[str] | None = None, **options: Any) -> None:
        self._database = database
        self._options = options
        self._opened: Memory | None = None

    @property
    def memory(self) -> Memory:
        """The memory itself. Raises `InputError` before it was opened."""
        if self._opened is None:
            raise InputError("open it first: async with AsyncMemory(…) as memory")
        return self._opened

    @property
    def tools(self) -> list[dict[str, Any]]:
        """As `Memory.tools`."""
        return tool_schemas() if self._opened is None else self._opened.tools

    async def open(self) -> Self:
        """Opens the database."""
        self._opened = await asyncio.to_thread(Memory, self._database, **self._options)
        return self

    async def add(self, *messages: Message | str) -> int:
        """As `Memory.add`."""
        return await _threaded(self.memory.add, *messages)

    async def take_back(self, count: int = 1) -> list[Message]:
        """As `Memory.take_back`."""
        return await _threaded(self.memory.take_back, count)

    async def replace(self, *messages: Message | str) -> int:
        """As `Memory.replace`."""
        return await _threaded(self.memory.replace, *messages)

    async def pin(self, what: str) -> Pin:
        """As `Memory.pin`."""
        return await _threaded(self.memory.pin, what)

    async def pins(self) -> list[Pin]:
        """As `Memory.pins`."""
        return await _threaded(self.memory.pins)

    async def unpin(self, *names: str) -> list[Pin]:
        """As `Memory.unpin`."""
        return await _threaded(self.memory.unpin, *names)

    async def context(
        self,
        *,
        overhead_tokens: int = 0,
        prompt: str | None = None,
        overflow: bool | str | BaseException = False,
    ) -> list[Message]:
        """As `Memory.context`."""
        return await _threaded(
            self.memory.context, overhead_tokens=overhead_tokens, prompt=prompt, overflow=overflow
        )

    async def call_tool(self, name: str, arguments: str | Mapping[str, Any]) -> dict[str, Any]:
        """As `Memory.call_tool`."""
        return await _threaded(self.memory.call_tool, name, arguments)

    async def run_tools(
        self, answer: Message, other: Callable[[str, dict[str, Any]], Any] | None = None
    ) -> int:
        """As `Memory.run_tools`; ``other`` is called in the worker thread."""
        return await _threaded(self.memory.run_tools, answer, other)

    async def end_turn(self, usage: Usage | Mapping[str, Any] | None = None) -> None:
        """As `Memory.end_turn`."""
        await _threaded(self.memory.end_turn, usage)

    async def messages(self) -> list[Message]:
        """As `Memory.messages`."""
        return await _threaded(self.memory.messages)

    async def close(self) -> None:
        """Stops background work and closes the database."""
        if self._opened is not None:
            await _threaded(self._opened.close)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _threaded(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """The result; a cancelled wait lets the work in the thread end, so that nothing is half-stored."""
    return await asyncio.to_thread(function, *args, **kwargs)


def _values(arguments: str | Mapping[str, Any]) -> dict[str, Any]:
    """A call's arguments; raises `InputError` when they are no JSON object."""
    try:
        values = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
    except ValueError as error:
        raise InputError(f"the arguments are not JSON: {error}") from error
    if not isinstance(values, Mapping):
        raise InputError(f"the arguments must be one JSON object, not {values!r}")
    return dict(values)


def _refused(error: InputError) -> dict[str, Any]:
    return {"error": str(error), "error_code": "INVALID_ARGUMENTS"}


def _config(database: str | os.PathLike[str] | None, config: LcmConfig | None) -> LcmConfig:
    named = {} if database is None else {"database": os.fspath(database)}
    return config.model_copy(update=named) if config else load_config(**named)
