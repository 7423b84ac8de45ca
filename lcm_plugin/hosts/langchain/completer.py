"""Summaries through the agent's own chat model: its provider, its keys, its billing."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from lcm_plugin.errors import ModelUnavailable
from lcm_plugin.hosts.langchain.messages import from_core
from lcm_plugin.hosts.model_errors import model_error
from lcm_plugin.types import CompletionRequest, CompletionResult, Usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage


class ChatModelCompleter:
    """Answers with the chat model that was used last. Raises the package's model errors. Thread-safe.

    Neither temperature nor length is passed on: providers name them differently or refuse them, and every
    summary is measured before it is stored.
    """

    def __init__(self, model: BaseChatModel | None = None) -> None:
        self._lock = threading.Lock()
        self._fixed = model is not None
        self._model = model

    def use(self, model: BaseChatModel) -> None:
        """The agent's model from now on; a model given at the beginning stays."""
        with self._lock:
            if not self._fixed:
                self._model = model

    def __call__(self, request: CompletionRequest) -> CompletionResult:
        with self._lock:
            model = self._model
        if model is None:
            raise ModelUnavailable("the agent has not called its model yet")
        try:
            runnable = model.bind_tools(list(request.tools)) if request.tools else model
            messages = [one for message in request.messages for one in from_core(message)]
            answer = runnable.invoke(messages, config={"metadata": {"lc_source": "lcm"}})
        except Exception as error:
            raise model_error(error) from error
        return _result(answer)


def usage_of(message: AIMessage) -> Usage | None:
    """What the provider counted, when it said so."""
    counted: Any = message.usage_metadata
    if not counted:
        return None
    details = counted.get("input_token_details") or {}
    return Usage(
        prompt_tokens=int(counted.get("input_tokens") or 0),
        completion_tokens=int(counted.get("output_tokens") or 0),
        cache_read_tokens=int(details.get("cache_read") or 0),
        cache_write_tokens=int(details.get("cache_creation") or 0),
    )


def _result(answer: AIMessage) -> CompletionResult:
    about = answer.response_metadata
    return CompletionResult(
        text=str(answer.text),
        model=str(about.get("model_name") or about.get("model") or ""),
        usage=usage_of(answer),
        tool_calls=[
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["args"])},
            }
            for call in answer.tool_calls
        ],
        finish_reason=str(about.get("finish_reason") or about.get("stop_reason") or ""),
    )
