"""The agent's loop. It keeps no history of its own: each model call gets what the plugin assembles.

A turn: the user's message goes to ``before_turn``, which returns the context; the model answers; for
every tool call the results go to ``before_turn`` again; the final answer goes to ``after_turn``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pluggy

from lcm_plugin.compaction.overflow import is_shorter, refusal_of
from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import ModelError
from lcm_plugin.hosts.chat import tools as own_tools
from lcm_plugin.hosts.chat.model import Answer, ChatModel
from lcm_plugin.plugin import register
from lcm_plugin.types import (
    CommandResult,
    CompletionRequest,
    CompletionResult,
    Message,
    Reset,
    Sent,
    Session,
    Turn,
    Usage,
)

SYSTEM = "You are a helpful assistant in a terminal. Be brief and exact."
MOST_ROUNDS = 50
STOPPED = "[stopped by the user]"


class ChatAgent:
    """A conversation of one session with one model. ``show`` gets the answer's text as it comes, ``called`` a tool's
    name and arguments before it runs.

    ``manager`` is the host's plugin manager: other plugins may be registered with it.
    """

    def __init__(
        self,
        model: ChatModel,
        session: Session,
        config: LcmConfig,
        *,
        show: Callable[[str], None],
        called: Callable[[str, str], None] = lambda name, arguments: None,
        allow_tools: bool = False,
    ) -> None:
        self._model = model
        self._session = session
        self._show = show
        self._called = called
        self._said: list[str] = []
        self.manager = pluggy.PluginManager("lcm")
        self._plugin = register(self.manager, config, completer=self._complete)
        self._own = own_tools.SCHEMAS if allow_tools else []
        self._tools: list[dict[str, Any]] = [*self.manager.hook.lcm_tools(), *self._own]
        self._system: Message = {"role": "system", "content": SYSTEM}

    def say(self, text: str) -> str:
        """One turn: returns the answer's text. Raises `ModelError` when the model cannot be reached.

        An interrupt ends the answer: what was said until then is stored, and the exception goes on.
        """
        self._said = []
        try:
            return self._turns_of(text)
        except KeyboardInterrupt:
            if said := "".join(self._said).strip():
                partial = {"role": "assistant", "content": f"{said} {STOPPED}"}
                self.manager.hook.after_turn(turn=self._turn([partial]))
            raise

    def _turns_of(self, text: str) -> str:
        fresh: list[Message] = [{"role": "user", "content": text}]
        for _ in range(MOST_ROUNDS):
            answer, sent = self._answer(fresh)
            calls = answer.message.get("tool_calls")
            if not calls:
                self.manager.hook.after_turn(turn=self._turn([answer.message], answer.usage, sent))
                return str(answer.message["content"] or "")
            self._said = []
            fresh = [answer.message, *(self._result(call) for call in calls)]
        self.manager.hook.after_turn(turn=self._turn(fresh))
        return f"(stopped after {MOST_ROUNDS} rounds of tool calls)"

    def command(self, text: str) -> CommandResult | None:
        """Answers ``/lcm …``, ``/new``, ``/reset`` and ``/compact``; None for any other text."""
        word = text.split()[0].lower() if text.startswith("/") else ""
        if word in ("/new", "/reset"):
            reset = Reset(self._session, "new" if word == "/new" else "reset")
            result: CommandResult = self.manager.hook.before_reset(reset=reset)
            return result
        if word == "/compact":
            text = "/lcm compact"
        answered: CommandResult | None = self.manager.hook.lcm_run_command(session=self._session, text=text)
        return answered

    def news(self) -> str:
        """What the user is to be told now, once; else the empty text."""
        return self._plugin.health.take_news(self._session)

    def close(self) -> None:
        """Ends the run and closes the database."""
        self.manager.hook.session_end(session=self._session, reason="shutdown")
        self._plugin.close()

    def _answer(self, fresh: Sequence[Message]) -> tuple[Answer, Sent | None]:
        """The model's answer to what is assembled; as long as that is too long for it, to something shorter."""
        turn, refused = self._turn(fresh), None
        while True:
            context = self.manager.hook.before_turn(turn=turn)
            sent = context.sent if context else None
            if refused and not is_shorter(sent, turn.sent):
                raise refused
            messages = [self._system, *(context.messages if context else fresh)]
            try:
                return self._model.answer(messages, self._tools, self._heard), sent
            except ModelError as error:
                if refusal_of(error) is None:
                    raise
                turn, refused = replace(turn, metadata={"overflow": error}, sent=sent), error

    def _heard(self, piece: str) -> None:
        self._said.append(piece)
        self._show(piece)

    def _turn(
        self, messages: Sequence[Message], usage: Usage | None = None, sent: Sent | None = None
    ) -> Turn:
        return Turn(
            self._session,
            messages,
            mode="append",
            model=self._model.name,
            window=self._model.window,
            overhead_tokens=self._overhead(),
            prompt=str(messages[-1].get("content") or ""),
            usage=usage,
            sent=sent,
        )

    def _overhead(self) -> int:
        count = self._plugin.engine.count_tokens
        return count(self._system) + count(self._tools)

    def _result(self, call: dict[str, Any]) -> Message:
        name, raw = call["function"]["name"], call["function"]["arguments"]
        self._called(name, raw or "{}")
        try:
            arguments = json.loads(raw or "{}")
        except ValueError as error:
            outcome: dict[str, Any] = {"error": f"the arguments are not JSON: {error}"}
        else:
            outcome = self.manager.hook.lcm_call_tool(session=self._session, name=name, arguments=arguments)
            if outcome is None:
                outcome = (
                    own_tools.run(name, arguments) if self._own else {"error": f"there is no tool {name}"}
                )
        return {
            "role": "tool",
            "tool_call_id": call["id"],
            "content": json.dumps(outcome, ensure_ascii=False),
        }

    def _complete(self, request: CompletionRequest) -> CompletionResult:
        """The chat's own model writes the summaries too."""
        answer: Answer = self._model.answer(request.messages, request.tools, lambda _: None)  # type: ignore[arg-type]
        message = answer.message
        return CompletionResult(
            str(message["content"] or ""), self._model.name, answer.usage, message.get("tool_calls") or ()
        )
