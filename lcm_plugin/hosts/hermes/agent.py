"""One agent's engine, as the parts around it see it: `engine.HermesEngine` has it all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from lcm_plugin.types import Session


class Agent(Protocol):
    """An agent that the host has bound to a session, or will bind.

    ``bound_at`` grows with each binding; ``api_key`` to ``threshold_tokens`` are as the host set them.
    """

    bound_at: int
    gateway_key: str
    platform: str
    model: str
    base_url: str
    provider: str
    api_mode: str
    api_key: Any
    context_length: int
    threshold_percent: float
    threshold_tokens: int

    @property
    def session_id(self) -> str:
        """The host's id of the bound session, or an empty string."""

    @property
    def session(self) -> Session | None:
        """The core's session of the bound one."""

    def bind_session_state(self, session_db: Any = None, session_id: str = "") -> None:
        """The agent is in this session."""

    def quotes_for(self, said: str, messages: Sequence[Any]) -> str | None:
        """Pins that are in no request yet, and old messages that fit what the user just said."""

    def before_request(self, messages: Sequence[Any], request: Mapping[str, Any]) -> None:
        """Before each model call."""

    def sends(self, request: Mapping[str, Any]) -> None:
        """Each request as it goes out, whole."""

    def refused(self, error: str) -> None:
        """The provider refused a request as too long."""

    def after_turn(self, messages: Sequence[Any]) -> None:
        """After a turn."""

    def after_cut_turn(self) -> None:
        """After a turn without an answer."""
