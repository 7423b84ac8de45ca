"""Summaries through the agent's own chat model: its provider, its keys, its billing."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

from lcm_plugin.errors import ModelUnavailable
from lcm_plugin.forks import FreshLocks, join
from lcm_plugin.hosts.langchain.messages import from_core
from lcm_plugin.hosts.model_errors import model_error
from lcm_plugin.messages.usage import usage_of
from lcm_plugin.types import CompletionRequest, CompletionResult

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage


class ChatModelCompleter(FreshLocks):
    """Answers with the chat model that was used last. Raises the package's model errors. Thread-safe.

    Neither temperature nor length is passed on: providers name them differently or refuse them, and every
    summary is measured before it is stored.
    """

    def __init__(self, model: BaseChatModel | None = None) -> None:
        self._lock = threading.Lock()
        join(self)
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


def _result(answer: AIMessage) -> CompletionResult:
    about = answer.response_metadata
    return CompletionResult(
        text=str(answer.text),
        model=str(about.get("model_name") or about.get("model") or ""),
        usage=usage_of(answer.usage_metadata),
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
