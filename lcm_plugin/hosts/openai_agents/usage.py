"""What the provider counted, handed to the core after each model call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from agents import RunHooks

from lcm_plugin.messages.usage import usage_of

if TYPE_CHECKING:
    from agents import ModelResponse

    from lcm_plugin.types import Sent, Usage


class Measuring(Protocol):
    """A session that counts what its model calls are given, and learns from what they cost."""

    def measure(self, tools: Sequence[Any], instructions: str | None, items: Sequence[Any]) -> Sent:
        """What a call is given."""

    def note_usage(self, usage: Usage, sent: Sent | None = None) -> None:
        """What an answered call cost."""


class UsageHooks(RunHooks[Any]):  # type: ignore[misc, unused-ignore]
    """Run hooks that tell a session what its model calls were given and what they cost."""

    def __init__(self, session: Measuring) -> None:
        self._session = session
        self._sent: dict[int, Sent] = {}

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: str | None, input_items: list[Any]
    ) -> None:
        """Before each model call."""
        sent = await asyncio.to_thread(self._session.measure, agent.tools, system_prompt, input_items)
        self._sent[id(context)] = sent

    def sent_instead(self, refused: Sent, now: Sent) -> None:
        """A call that was refused is made again with another input."""
        for call, sent in list(self._sent.items()):
            if sent.tokens == refused.tokens:
                self._sent[call] = now

    async def on_llm_end(self, context: Any, agent: Any, response: ModelResponse) -> None:
        """After each model call."""
        usage, sent = usage_of(response.usage), self._sent.pop(id(context), None)
        if usage is not None and usage.prompt_tokens:
            await asyncio.to_thread(self._session.note_usage, usage, sent)
