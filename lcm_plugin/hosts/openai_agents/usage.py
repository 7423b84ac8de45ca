"""What the provider counted, handed to the core after each model call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agents import RunHooks

from lcm_plugin.types import Usage

if TYPE_CHECKING:
    from agents import ModelResponse

    from lcm_plugin.hosts.openai_agents.session import LcmSession


class UsageHooks(RunHooks[Any]):  # type: ignore[misc, unused-ignore]
    """Run hooks that tell a session what its model calls cost, so that its own counts get better."""

    def __init__(self, session: LcmSession) -> None:
        self._session = session

    async def on_llm_end(self, context: Any, agent: Any, response: ModelResponse) -> None:
        """After each model call."""
        counted = response.usage
        details = getattr(counted, "input_tokens_details", None)
        usage = Usage(
            prompt_tokens=counted.input_tokens or 0,
            completion_tokens=counted.output_tokens or 0,
            cache_read_tokens=getattr(details, "cached_tokens", 0) or 0,
        )
        if usage.prompt_tokens:
            await asyncio.to_thread(self._session.note_usage, usage)
