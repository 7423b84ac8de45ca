"""Summaries through the host's own auxiliary client: its model, its keys, its billing."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from lcm_plugin.errors import ModelError, ModelUnavailable
from lcm_plugin.forks import FreshLocks, join
from lcm_plugin.hosts.model_errors import model_error
from lcm_plugin.messages.usage import usage_of
from lcm_plugin.types import CompletionRequest, CompletionResult

TASK = "compression"


class AuxiliaryCompleter(FreshLocks):
    """Answers with ``agent.auxiliary_client.call_llm``, under the host's task ``compression``.

    So ``auxiliary.compression.*`` of the host's config.yaml picks the model; without it the model of
    the chat answers. Raises the package's model errors.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        join(self)
        self._runtime: dict[str, Any] = {}

    def use_runtime(self, runtime: Mapping[str, Any]) -> None:
        """Remembers the chat's own model and endpoint, which the host falls back to."""
        with self._lock:
            self._runtime = {name: value for name, value in runtime.items() if value}

    def __call__(self, request: CompletionRequest) -> CompletionResult:
        try:
            from agent.auxiliary_client import call_llm
        except ImportError as error:
            raise ModelUnavailable(f"the host's auxiliary client cannot be imported: {error}") from error
        with self._lock:
            runtime = dict(self._runtime)
        options: dict[str, Any] = {"model": request.model} if request.model else {}
        if request.tools:
            options["tools"] = list(request.tools)
        try:
            with _uninterrupted():
                response = call_llm(
                    task=TASK,
                    messages=[dict(message) for message in request.messages],
                    temperature=request.temperature,
                    max_tokens=request.max_tokens,
                    timeout=request.timeout,
                    main_runtime=runtime or None,
                    **options,
                )
            return _result(response)
        except ModelError:
            raise
        except Exception as error:
            raise model_error(error) from error


def _uninterrupted() -> Any:
    """Keeps a user's interrupt of the turn from cutting a summary in half."""
    from contextlib import nullcontext

    try:
        from agent.auxiliary_client import aux_interrupt_protection
    except ImportError:
        return nullcontext()
    return aux_interrupt_protection()


def _result(response: Any) -> CompletionResult:
    try:
        choice = response.choices[0]
        message = choice.message
    except (AttributeError, IndexError, TypeError) as error:
        raise ModelUnavailable(f"the host's model answered without a message: {response!r:.200}") from error
    return CompletionResult(
        text=_text(_get(message, "content")),
        model=str(getattr(response, "model", "") or ""),
        usage=usage_of(getattr(response, "usage", None)),
        tool_calls=[_tool_call(call) for call in _get(message, "tool_calls") or ()],
        finish_reason=str(getattr(choice, "finish_reason", "") or ""),
    )


def _get(source: Any, name: str) -> Any:
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(_get(part, "text") or "") for part in content)
    return content if isinstance(content, str) else ""


def _tool_call(call: Any) -> dict[str, Any]:
    function = _get(call, "function")
    return {
        "id": _get(call, "id"),
        "type": "function",
        "function": {"name": _get(function, "name"), "arguments": _get(function, "arguments")},
    }
