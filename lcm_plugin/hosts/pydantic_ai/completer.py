"""Summaries through a model of the host: its provider, its keys, its billing.

An HTTP client belongs to the event loop in which it was first used. The agent's own model is therefore asked in
the loop in which the agent runs, a model of its own in a loop of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, TimeoutError
from typing import TYPE_CHECKING, Any

from lcm_plugin.errors import ModelTimeout, ModelUnavailable
from lcm_plugin.forks import FreshLocks, join
from lcm_plugin.hosts.model_errors import model_error
from lcm_plugin.hosts.pydantic_ai.content import dumps
from lcm_plugin.hosts.pydantic_ai.messages import from_core
from lcm_plugin.messages.usage import usage_of
from lcm_plugin.types import CompletionRequest, CompletionResult

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model

NOTHING_ASKED_YET = "the agent has not called its model yet"


class ModelCompleter(FreshLocks):
    """Answers with ``model``, or without one with the model that the agent called last. Thread-safe."""

    def __init__(self, model: Model | str | None = None) -> None:
        self._lock = threading.Lock()
        join(self)
        self._model = model
        self._is_own = model is not None
        self._loop: asyncio.AbstractEventLoop | None = None

    def after_fork_in_child(self) -> None:
        """No event loop runs here yet."""
        super().after_fork_in_child()
        self._loop = None

    def use(self, model: Model) -> None:
        """The agent calls this model, in the running loop. A model given at the beginning stays."""
        if not self._is_own:
            with self._lock:
                self._model, self._loop = model, asyncio.get_running_loop()

    def __call__(self, request: CompletionRequest) -> CompletionResult:
        with self._lock:
            if self._is_own and self._loop is None:
                self._loop = _loop_of_its_own()
            model, loop = self._model, self._loop
        if model is None or loop is None:
            raise ModelUnavailable(NOTHING_ASKED_YET)
        if not loop.is_running():
            raise ModelUnavailable("the event loop in which the agent calls its model does not run")
        return _result(_wait(_ask(model, request), loop, request.timeout))


async def _ask(model: Model | str, request: CompletionRequest) -> ModelResponse:
    from pydantic_ai.direct import model_request
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    functions = [tool["function"] for tool in request.tools]
    tools = [
        ToolDefinition(
            name=function["name"],
            description=function["description"],
            parameters_json_schema=function["parameters"],
        )
        for function in functions
    ]
    # Temperature and length are left to the model: some providers refuse them, and every summary is measured.
    return await model_request(
        model,
        from_core(request.messages, merge=True),
        model_settings={"timeout": request.timeout},
        model_request_parameters=ModelRequestParameters(function_tools=tools),
    )


def _wait(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop, timeout: float) -> Any:
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result(timeout)
    except TimeoutError as error:
        future.cancel()
        raise ModelTimeout(f"no answer in {timeout:g} s") from error
    except CancelledError as error:
        raise ModelUnavailable("the event loop ended before the model answered") from error
    except Exception as error:
        raise model_error(error) from error


def _loop_of_its_own() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="lcm-model", daemon=True).start()
    while not loop.is_running():
        threading.Event().wait(0.001)
    return loop


def _result(response: ModelResponse) -> CompletionResult:
    calls = [part for part in response.parts if part.part_kind == "tool-call"]
    return CompletionResult(
        text="".join(part.content for part in response.parts if part.part_kind == "text"),
        model=response.model_name or "",
        usage=usage_of(response.usage),
        tool_calls=[
            {
                "id": call.tool_call_id,
                "type": "function",
                "function": {"name": call.tool_name, "arguments": dumps(call.args_as_dict())},
            }
            for call in calls
        ],
        finish_reason=response.finish_reason or "",
    )
