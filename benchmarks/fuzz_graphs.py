"""Drivers of `fuzz_hosts.py` for hosts that call the model themselves: LangChain and pydantic-ai.

Each talk is a list of the host's own messages, run by the host's own agent after each of them. What the model is
given is the context. An odd message that the host itself cannot run, without our adapter, is left out again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from fuzz_hosts import watch

from lcm_plugin import Engine

WINDOW = 8_000
MISSING: Any = object()


class Runs:
    """A list of the host's messages, run by an agent with our adapter; subclasses make agents and messages."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ours = False
        self._history: list[Any] = []
        self._seen: Any = []

    def say(self, message: Any) -> Any:
        try:
            made = self._made(message)
            self._bare([*self._history, made])
        except Exception:  # noqa: BLE001 - the host has no such message, or cannot run with it
            return []
        self._ours, self._seen = False, []
        self._history = self._run([*self._history, made])
        # When nothing could be assembled the host's own list went out, whatever is in it.
        return self._seen if self._ours else []

    def tool(self, name: str, arguments: Any) -> Any:
        return self._adapter.plugin.lcm_call_tool(self.session, name, arguments)

    def close(self) -> None:
        """Its engine is everybody's."""

    def _watch(self, adapter: Any) -> None:
        self._adapter = adapter
        watch(self, adapter.plugin)

    session: Any
    _made: Callable[[Any], Any]
    _run: Callable[[list[Any]], list[Any]]
    _bare: Callable[[list[Any]], Any]


class ByLangChain(Runs):
    """An agent of LangChain with the middleware."""

    def __init__(self, engine: Engine, rng: Random, name: str) -> None:
        from langchain.agents import create_agent
        from langchain_core.language_models.chat_models import BaseChatModel
        from langchain_core.messages import AIMessage, convert_to_openai_messages
        from langchain_core.outputs import ChatGeneration, ChatResult

        from lcm_plugin.hosts.langchain import LcmMiddleware

        super().__init__(engine)
        driver = self

        class Model(BaseChatModel):
            @property
            def _llm_type(self) -> str:
                return "fuzz"

            def bind_tools(self, tools: Any, **options: Any) -> Any:
                return self

            def _generate(
                self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
            ) -> Any:
                if driver._ours:
                    driver._seen = convert_to_openai_messages(messages)
                    driver.given = messages
                return ChatResult(generations=[ChatGeneration(message=AIMessage("so it is"))])

        middleware = LcmMiddleware(window=WINDOW, summary_model="none", engine=engine)
        self.given: list[Any] = []
        self.session = middleware.session_of(name)
        self._config: Any = {"configurable": {"thread_id": name}}
        self._agent = create_agent(Model(), tools=[], middleware=[middleware])
        self._without = create_agent(Model(), tools=[])
        self._watch(middleware)

    def _run(self, messages: list[Any]) -> list[Any]:  # type: ignore[override]
        found: list[Any] = self._agent.invoke({"messages": messages}, self._config)["messages"]
        return found

    def _bare(self, messages: list[Any]) -> None:  # type: ignore[override]
        self._ours = False
        self._without.invoke({"messages": messages})

    def _made(self, message: Any) -> Any:  # type: ignore[override]
        from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

        given = _readable(message)
        content = given.get("content", MISSING)
        content = content if isinstance(content, (str, list)) else [{"type": "odd", "value": content}]
        extra = {key: value for key, value in given.items() if key not in ("role", "content")}
        if given.get("role") == "tool":
            return ToolMessage(content=content, tool_call_id="c", artifact=extra)
        if given.get("role") == "assistant":
            calls = [{"name": "f", "args": {"value": given.get("tool_calls")}, "id": "c"}]
            return AIMessage(content, tool_calls=calls if "tool_calls" in given else [])
        return HumanMessage(content=content, additional_kwargs=extra)


class ByPydanticAI(Runs):
    """An agent of pydantic-ai with the capability."""

    def __init__(self, engine: Engine, rng: Random, name: str) -> None:
        from pydantic_ai import Agent
        from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart
        from pydantic_ai.models.function import FunctionModel

        from lcm_plugin import Session
        from lcm_plugin.hosts.pydantic_ai import LcmCapability

        super().__init__(engine)

        def answer(messages: Any, info: Any) -> ModelResponse:
            if self._ours:
                self._seen = json.loads(ModelMessagesTypeAdapter.dump_json(messages))
                self.given = messages
            return ModelResponse([TextPart("so it is")])

        capability: Any = LcmCapability(
            f"pydantic:{name}", window=WINDOW, summary_model="none", engine=engine
        )
        self.given: list[Any] = []
        self.session = Session(f"pydantic:{name}")
        self._agent: Any = Agent(FunctionModel(answer), capabilities=[capability])
        self._without: Any = Agent(FunctionModel(answer))
        self._watch(capability)

    def _run(self, messages: list[Any]) -> list[Any]:  # type: ignore[override]
        found: list[Any] = self._agent.run_sync("go on", message_history=messages).all_messages()
        return found

    def _bare(self, messages: list[Any]) -> None:  # type: ignore[override]
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        self._ours = False
        ModelMessagesTypeAdapter.dump_json(
            self._without.run_sync("go on", message_history=messages).all_messages()
        )

    def _made(self, message: Any) -> Any:  # type: ignore[override]
        from pydantic_ai.messages import (
            ModelRequest,
            ModelResponse,
            TextPart,
            ToolCallPart,
            ToolReturnPart,
            UserPromptPart,
        )

        given = _readable(message)
        content = given.get("content", "")
        if given.get("role") == "tool":
            return ModelRequest([ToolReturnPart("f", content, tool_call_id="c")])
        if given.get("role") == "assistant":
            calls = [ToolCallPart("f", {"value": given["tool_calls"]}, "c")] if "tool_calls" in given else []
            return ModelResponse([TextPart(content) if isinstance(content, str) else TextPart("?"), *calls])
        return ModelRequest([UserPromptPart(content if isinstance(content, (str, list)) else [content])])


def _readable(message: Any) -> Mapping[Any, Any]:
    """The odd message as a dict; what is none, as the content of one."""
    try:
        return dict(message.items())
    except Exception:  # noqa: BLE001 - whatever a foreign mapping raises
        return {"role": "user", "content": message}
