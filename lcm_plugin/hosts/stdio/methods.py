"""What a client can call: the hooks of a host, the recall tools and the chat commands, with JSON in and out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from lcm_plugin.hosts.agents.resume import resume_pack
from lcm_plugin.hosts.stdio.lines import Method
from lcm_plugin.messages.usage import usage_of
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import (
    Context,
    IngestMode,
    Message,
    Reset,
    RunPosition,
    Sent,
    Session,
    Turn,
)
from lcm_plugin.version import VERSION

PROTOCOL = 1


def _session(value: Any) -> Any:
    return Session(value) if isinstance(value, str) else value


SessionName = Annotated[Session, BeforeValidator(_session)]
"""A session key, or an object with ``key`` and ``id``."""


class Params(BaseModel):
    """The arguments of a method; one that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class OfSession(Params):
    """Names a session only."""

    session: SessionName


class TurnParams(OfSession):
    """`Turn`, with the usage in any provider's shape."""

    messages: list[Message] = []
    mode: IngestMode = "sync"
    model: str | None = None
    window: int | None = None
    overhead_tokens: int = Field(default=0, ge=0)
    prompt: str | None = None
    usage: dict[str, Any] | None = None
    metadata: dict[str, Any] = {}
    sent: Sent | None = None
    run: RunPosition | None = None
    recall: bool = True

    def turn(self) -> Turn:
        """For the hooks."""
        return Turn(
            self.session,
            self.messages,
            mode=self.mode,
            model=self.model,
            window=self.window,
            overhead_tokens=self.overhead_tokens,
            prompt=self.prompt,
            usage=usage_of(self.usage),
            metadata=self.metadata,
            sent=self.sent,
            run=self.run,
            recall=self.recall,
        )


class RecordParams(OfSession):
    """Messages to store outside of a turn."""

    messages: list[Message]
    mode: IngestMode = "append"


class RecallParams(OfSession):
    """A request that is not stored yet, what the client's context shows, and how many tokens quotes may take."""

    prompt: str
    shown: list[Message] = []
    tokens: int = Field(default=750, ge=1)


class ToolParams(OfSession):
    """A model's call of a recall tool."""

    name: str
    arguments: dict[str, Any] = {}


class CommandParams(OfSession):
    """What a user typed: ``/lcm …``."""

    text: str


class ResetParams(OfSession):
    """``new`` or ``reset``."""

    kind: Literal["new", "reset"]
    retain_depth: int | None = None


class EndParams(OfSession):
    """Why a session ends."""

    reason: str


class CompactParams(OfSession):
    """As `Engine.compact`."""

    force: bool = False
    budget: int | None = None
    focus: str = ""


class HostMethods:
    """The methods of a server. ``plugin`` opens its engine at the first call that needs it."""

    def __init__(self, plugin: LcmPlugin) -> None:
        self._plugin = plugin

    def all(self) -> dict[str, Method]:
        """The methods by name."""
        return {
            "hello": self._hello,
            "before_turn": self._before_turn,
            "after_turn": self._after_turn,
            "record": self._record,
            "recall": self._recall,
            "resume": self._resume,
            "tools": self._tools,
            "call_tool": self._call_tool,
            "command": self._command,
            "compact": self._compact,
            "reset": self._reset,
            "session_end": self._session_end,
            "messages": self._messages,
        }

    def _hello(self, params: Mapping[str, Any]) -> dict[str, Any]:
        Params.model_validate(params)
        return {"protocol": PROTOCOL, "version": VERSION}

    def _before_turn(self, params: Mapping[str, Any]) -> dict[str, Any]:
        found: Context | None = self._plugin.before_turn(TurnParams.model_validate(params).turn())
        return asdict(found) if found is not None else {"messages": None}

    def _after_turn(self, params: Mapping[str, Any]) -> dict[str, Any]:
        self._plugin.after_turn(TurnParams.model_validate(params).turn())
        return {}

    def _record(self, params: Mapping[str, Any]) -> dict[str, Any]:
        given = RecordParams.model_validate(params)
        return {"stored": self._plugin.record(given.session, given.messages, given.mode)}

    def _recall(self, params: Mapping[str, Any]) -> dict[str, Any]:
        given = RecallParams.model_validate(params)
        room = 10 * given.tokens
        text = self._plugin.engine.quotes_for(given.session, given.prompt, given.shown, room, given.tokens)
        return {"text": text}

    def _resume(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"text": resume_pack(self._plugin.engine, OfSession.model_validate(params).session)}

    def _tools(self, params: Mapping[str, Any]) -> dict[str, Any]:
        Params.model_validate(params)
        return {"tools": self._plugin.lcm_tools()}

    def _call_tool(self, params: Mapping[str, Any]) -> dict[str, Any]:
        given = ToolParams.model_validate(params)
        return self._plugin.engine.call_tool(given.session, given.name, given.arguments)

    def _command(self, params: Mapping[str, Any]) -> dict[str, Any]:
        given = CommandParams.model_validate(params)
        answer = self._plugin.lcm_run_command(given.session, given.text)
        return {"text": None} if answer is None else asdict(answer)

    def _compact(self, params: Mapping[str, Any]) -> dict[str, Any]:
        given = CompactParams.model_validate(params)
        return asdict(
            self._plugin.engine.compact(given.session, given.force, given.budget, focus=given.focus)
        )

    def _reset(self, params: Mapping[str, Any]) -> dict[str, Any]:
        given = ResetParams.model_validate(params)
        answer = self._plugin.before_reset(Reset(given.session, given.kind, given.retain_depth))
        return {"text": None} if answer is None else asdict(answer)

    def _session_end(self, params: Mapping[str, Any]) -> dict[str, Any]:
        given = EndParams.model_validate(params)
        self._plugin.session_end(given.session, given.reason)
        return {}

    def _messages(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"messages": self._plugin.engine.messages(OfSession.model_validate(params).session)}
