"""The host's own compressor, for what this plugin does not serve: ignored sessions, a store that is down."""

from __future__ import annotations

from typing import Any

from lcm_plugin.hosts.hermes.agent import Agent
from lcm_plugin.types import Message


class HostCompressor:
    """Compacts as the host would without us. Made when it is first needed."""

    def __init__(self) -> None:
        self._compressor: Any = None
        self._made_for: tuple[object, ...] = ()

    def compress(
        self, agent: Agent, messages: list[Message], tokens: int, focus: str | None, force: bool
    ) -> list[Message] | None:
        """The host's result, or None when it changed nothing."""
        try:
            from agent.context_compressor import ContextCompressor
        except ImportError:
            return None
        model = (agent.model, agent.base_url, agent.context_length)
        if self._compressor is None or self._made_for != model:
            self._compressor = ContextCompressor(
                model=agent.model,
                threshold_percent=agent.threshold_percent,
                quiet_mode=True,
                base_url=agent.base_url,
                api_key=agent.api_key,
                config_context_length=agent.context_length,
                provider=agent.provider,
                api_mode=agent.api_mode,
            )
            self._made_for = model
        result: list[Message] = self._compressor.compress(
            [dict(message) for message in messages], current_tokens=tokens, focus_topic=focus, force=force
        )
        return result if result and result != messages else None
