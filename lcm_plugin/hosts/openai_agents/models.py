"""Models that ask again with a shorter input when their provider refuses one as too long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from agents import Model, ModelProvider


class Shortening(Protocol):
    """A session that has a shorter input after a refusal."""

    def after_refusal(
        self, error: BaseException, given: Sequence[Any], instructions: str | None, tools: Sequence[Any]
    ) -> list[Any] | None:
        """The input to ask again with; None when there is no shorter one."""


class FittingModel(Model):  # type: ignore[misc, unused-ignore]
    """Another model, whose refused inputs `LcmSession.after_refusal` shortens, as long as that helps."""

    def __init__(self, inner: Model, session: Shortening) -> None:
        self._inner = inner
        self._session = session

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,
        model_settings: Any,
        tools: list[Any],
        *more: Any,
        **options: Any,
    ) -> Any:
        """The model's response."""
        while True:
            try:
                return await self._inner.get_response(
                    system_instructions, input, model_settings, tools, *more, **options
                )
            except Exception as error:
                shorter = await self._shorter(error, system_instructions, input, tools)
                if shorter is None:
                    raise
                input = shorter

    async def stream_response(
        self,
        system_instructions: str | None,
        input: Any,
        model_settings: Any,
        tools: list[Any],
        *more: Any,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """The model's events. After the first one nothing is asked again."""
        begun = False
        while True:
            events = self._inner.stream_response(
                system_instructions, input, model_settings, tools, *more, **options
            )
            try:
                async for event in events:
                    begun = True
                    yield event
                return
            except Exception as error:
                shorter = None if begun else await self._shorter(error, system_instructions, input, tools)
                if shorter is None:
                    raise
                input = shorter

    async def close(self) -> None:
        """Closes the model."""
        await self._forward("close")

    def get_retry_advice(self, request: Any) -> Any:
        """The model's advice; older SDKs ask for none."""
        advise = getattr(self._inner, "get_retry_advice", None)
        return advise(request) if advise is not None else None

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self._forward("_cleanup_on_run_end", owner)

    async def _forward(self, name: str, *arguments: object) -> None:
        method = getattr(self._inner, name, None)
        if method is not None:
            await method(*arguments)

    async def _shorter(
        self, error: Exception, instructions: str | None, given: Any, tools: Sequence[Any]
    ) -> list[Any] | None:
        if isinstance(given, str):
            return None
        return await asyncio.to_thread(self._session.after_refusal, error, given, instructions, tools)


class FittingModels(ModelProvider):  # type: ignore[misc, unused-ignore]
    """Another provider, whose models are `FittingModel`s."""

    def __init__(self, inner: ModelProvider, session: Shortening) -> None:
        self._inner = inner
        self._session = session

    def get_model(self, model_name: str | None) -> Model:
        """The model of a name."""
        return FittingModel(self._inner.get_model(model_name), self._session)

    async def aclose(self) -> None:
        """Closes the provider."""
        close = getattr(self._inner, "aclose", None)
        if close is not None:
            await close()
