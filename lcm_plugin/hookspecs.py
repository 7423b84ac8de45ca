"""The contract between a host and this plugin (pluggy, project name ``lcm``).

For each hook: who calls it, when, what the return value means, and what an exception does.
Hooks of the first block are implemented here; no exception leaves them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pluggy

from lcm_plugin.events import Event
from lcm_plugin.types import CommandResult, CompletionRequest, CompletionResult, Context, Reset, Session, Turn

PROJECT = "lcm"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class HostHooks:
    """Called by the host, implemented by this plugin."""

    @hookspec(firstresult=True)
    def before_turn(self, turn: Turn) -> Context | None:
        """Before a model call: stores what is new and returns the context to send."""

    @hookspec
    def after_turn(self, turn: Turn) -> None:
        """After a turn: stores what happened, takes the usage, starts compaction that is due."""

    @hookspec(firstresult=True)
    def before_reset(self, reset: Reset) -> CommandResult | None:
        """Before ``/new`` or ``/reset``: returns what was kept and dropped."""

    @hookspec
    def session_end(self, session: Session, reason: str) -> None:
        """When a session ends (rollover, idle, deleted, restart, shutdown). Never closes the engine."""

    @hookspec(firstresult=True)
    def lcm_tools(self) -> list[dict[str, Any]] | None:
        """At start-up: the recall tools as OpenAI function schemas."""

    @hookspec(firstresult=True)
    def lcm_call_tool(
        self, session: Session, name: str, arguments: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """When the model calls a recall tool: its result, errors included, as a dict."""

    @hookspec(firstresult=True)
    def lcm_commands(self) -> list[dict[str, str]] | None:
        """At start-up: the chat commands with a line of help each."""

    @hookspec(firstresult=True)
    def lcm_run_command(self, session: Session, text: str) -> CommandResult | None:
        """When a user types ``/lcm …``: the answer, or None when the text is not ours."""


class PluginHooks:
    """Called by this plugin, implemented by a host or another plugin."""

    @hookspec(firstresult=True)
    def lcm_complete(self, request: CompletionRequest) -> str | CompletionResult | None:
        """For each summary or expansion: the host's own model call; None or an exception passes it on."""

    @hookspec
    def lcm_event(self, event: Event) -> None:
        """For every pass, skip, deferral, fallback and error; an exception is logged and dropped."""
