"""The host's hooks: a turn of the host told in the words of our contract, and back.

The host is asynchronous; the core works on worker threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

from lcm_plugin.hosts.bub.lanes import session_of, workspace_of
from lcm_plugin.hosts.bub.overhead import Overhead
from lcm_plugin.hosts.bub.step import Step, answer_of, begin_step, step_of
from lcm_plugin.hosts.bub.store import watched_tapes
from lcm_plugin.hosts.bub.tape import Entry, bare, is_handoff, is_recorded, since_last_anchor
from lcm_plugin.messages.usage import usage_of
from lcm_plugin.types import Message, Session, Turn

if TYPE_CHECKING:
    from lcm_plugin.config import LcmConfig
    from lcm_plugin.hosts.bub.core import Core

hookimpl = pluggy.HookimplMarker("bub")
_HANDOFF = "tape_handoff"


class Shell:
    """``bub lcm``: all that is there when the plugin is switched off."""

    def __init__(self, config: LcmConfig) -> None:
        self._config = config

    @hookimpl
    def register_cli_commands(self, app: Any) -> None:
        """Adds ``bub lcm``."""
        from lcm_plugin.hosts.bub.shell import add_command

        add_command(app, self._config)


class Hooks(Shell):
    """All hooks. None of them raises into a turn."""

    def __init__(self, framework: Any, core: Core) -> None:
        super().__init__(core.config)
        self._framework = framework
        self._core = core
        self._overhead = Overhead(self._count)
        self._last_call: dict[str, tuple[int, str | None]] = {}
        self._overflows: dict[str, str] = {}
        self._tapes: dict[str, Session] = {}
        self._handed_off: set[Session] = set()

    @hookimpl
    async def provide_lifespan(self) -> AsyncIterator[None]:
        """Closes the store when the host stops."""
        try:
            yield
        finally:
            await asyncio.to_thread(self._core.close)

    @hookimpl
    def provide_tape_store(self) -> AsyncIterator[Any]:
        """The host's own store, watched for resets and handoffs."""
        return watched_tapes(self._framework, self)

    @hookimpl
    async def load_state(self, message: Any, session_id: str) -> None:
        """A turn begins: opens the store, and notes whose tape it writes."""
        workspace = Path(self._framework.workspace)
        session = session_of({"session_id": session_id, "_runtime_workspace": str(workspace)})
        if session is not None:
            self._tapes[_tape_name(session_id, workspace)] = session
        await asyncio.to_thread(self._core.open, self._is_selected())

    @hookimpl
    def system_prompt(self, prompt: Any, state: dict[str, Any]) -> str | None:
        """Says what summaries are and which tools look behind them."""
        session = session_of(state)
        return self._core.note(session) if session is not None else None

    @hookimpl
    def render_outbound(
        self, message: Any, session_id: str, state: dict[str, Any], model_output: str
    ) -> list[Any]:
        """A message of its own beside the answer, once, when the plugin does not work."""
        session = session_of(state)
        news = self._core.news(session) if session is not None else ""
        return [_line_to(message, session_id, news)] if news else []

    @hookimpl
    def build_tape_context(self) -> Any:
        """The assembly of contexts, from the whole tape: anchors do not cut it."""
        from bub.tape import TapeContext

        return TapeContext(anchor=None, select=self.select)

    async def select(self, entries: Iterable[Any], context: Any) -> list[Message]:
        """What to show the model of all that was said, before the host adds what is new."""
        tape = list(entries)
        step = begin_step(context.state)
        shown = await asyncio.to_thread(self._assembled, step, tape) if step is not None else None
        if shown is None:
            shown = _own_context(tape, context)
        if step is not None:
            step.shown = shown
        return list(shown)

    @hookimpl(tryfirst=True)
    async def before_llm_call(self, request: Any, state: dict[str, Any]) -> Any:
        """Stores what is new before the model sees it; the context is assembled anew around it."""
        step = step_of(state)
        if step is None:
            return None
        messages = await asyncio.to_thread(self._completed, step, request, state)
        return None if messages is None else replace(request, messages=messages)

    @hookimpl
    async def after_llm_call(self, request: Any, result: Any, state: dict[str, Any]) -> None:
        """Stores the answer with what the provider counted."""
        step = step_of(state)
        if step is None:
            return
        if result.error is not None:
            step.failed()
            self._overflows[step.session.key] = str(result.error)
            return
        step.answered()
        await asyncio.to_thread(self._answered, step, request.run_id, result)

    @hookimpl
    async def after_tool_call(self, call: Any, result: Any, state: dict[str, Any]) -> None:
        """The agent hands off in the middle of its turn, to have a shorter context: it gets one."""
        session = session_of(state)
        if call.tool == _HANDOFF and result.error is None and session is not None:
            await asyncio.to_thread(self._core.command, session, "/lcm compact")

    @hookimpl
    async def save_state(self, session_id: str, state: dict[str, Any]) -> None:
        """A turn is over: what only the tape knows is stored, and a handoff that was typed is carried out."""
        agent, session = state.get("_runtime_agent"), session_of(state)
        if agent is None or session is None:
            return
        tape = agent.tape.session_tape(session_id, workspace_of(state))
        entries = list(await tape.store.fetch_all(tape.query()))
        if await asyncio.to_thread(self._follow, session, entries):
            self._core.turn_taped(session, entries)

    def tape_appended(self, tape: str, entry: Entry) -> None:
        """The host wrote to a tape. A handoff after which more of its turn was recorded cuts nothing here."""
        session = self._tapes.get(tape)
        if session is not None and is_handoff(entry):
            self._handed_off.add(session)
        elif session is not None and is_recorded(entry):
            self._handed_off.discard(session)

    async def tape_reset(self, tape: str) -> None:
        """The host emptied a tape."""
        session = self._tapes.get(tape)
        if session is not None:
            await asyncio.to_thread(self._core.reset, session)

    def _is_selected(self) -> bool:
        """Whether it is us whom the host asks for contexts: the plugin that was registered last is."""
        asked = self._framework.plugin_manager.hook.build_tape_context.get_hookimpls()[-1]
        return asked.plugin is self

    def _assembled(self, step: Step, tape: Sequence[Entry]) -> list[Message] | None:
        if not self._follow(step.session, tape) or self._core.captures_only(step.session):
            return None
        context = self._core.before_turn(self._turn(step.session, []))
        step.sent = context.sent if context else None
        return bare(context.messages) if context is not None else None

    def _completed(self, step: Step, request: Any, state: dict[str, Any]) -> list[Message] | None:
        step.ask(request.messages, request.run_id)
        if not self._core.serves(step.session):
            return None
        key = step.session.key
        failure, assumed = self._overflows.pop(key, ""), self._last_call.get(key)
        self._last_call[key] = (self._overhead.of(request, state), request.model)
        if self._core.captures_only(step.session):
            return self._core.with_quotes(self._turn(step.session, step.asked), request.messages)
        if not step.asked and not failure and self._last_call[key] == assumed:
            return None  # What `select` gave stands.
        turn = self._turn(step.session, step.asked)
        metadata = {"overflow": failure} if failure else {}
        context = self._core.before_turn(replace(turn, metadata=metadata, sent=step.sent))
        if context is None:
            return None
        step.sent = context.sent
        return [*(m for m in request.messages if m.get("role") == "system"), *bare(context.messages)]

    def _answered(self, step: Step, run: str, result: Any) -> None:
        if self._core.serves(step.session):
            turn = self._turn(step.session, [answer_of(result, run)])
            self._core.after_turn(replace(turn, usage=usage_of(result.usage), sent=step.sent))

    def _turn(self, session: Session, messages: Sequence[Message]) -> Turn:
        overhead, model = self._last_call.get(session.key, (0, None))
        return Turn(session, messages, mode="append", model=model, overhead_tokens=overhead)

    def _follow(self, session: Session, tape: Sequence[Entry]) -> bool:
        """Takes in what the tape holds; whether the session is ours to serve."""
        if not self._is_selected() or not self._core.serves(session):
            return False
        self._core.follow(session, tape)
        if session in self._handed_off:
            self._handed_off.discard(session)
            self._core.handoff(session)
        return True

    def _count(self, value: Any) -> int:
        engine = self._core.engine()
        return engine.count_tokens(value) if engine is not None else 0


def _own_context(tape: Sequence[Any], context: Any) -> list[Message]:
    """What the host would show its model without us."""
    from bub.builtin.context import default_tape_context

    select = default_tape_context().select
    assert select is not None
    return list(select(since_last_anchor(tape), context))


def _line_to(message: Any, session_id: str, text: str) -> Any:
    """A line for the chat that a message came from."""
    from bub.channels.message import ChannelMessage
    from bub.envelope import field_of

    return ChannelMessage(
        session_id=session_id,
        channel=field_of(message, "channel", "default"),
        chat_id=field_of(message, "chat_id", "default"),
        content=text,
        output_channel=field_of(message, "output_channel", "default"),
    )


def _tape_name(session_id: str, workspace: Path) -> str:
    from bub.store import InMemoryTapeStore
    from bub.tape import Tape, TapeContext

    nowhere: Any = InMemoryTapeStore()
    return str(Tape(Path(), nowhere, TapeContext()).session_tape(session_id, workspace).name)
