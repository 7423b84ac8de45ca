"""The canaries of `lcm eval` through a real agent: its own state, its tools, and a model that answers by script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from effort import canaries
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from scripted import ScriptedModel
from talk import THREAD, answer, ask, middleware_in

from lcm_plugin import Session
from lcm_plugin.evaluation.canaries.asking import counts, measure, missed
from lcm_plugin.evaluation.canaries.planting import SYSTEM, Call, Exchange, script
from lcm_plugin.events import Event

NAMES = ("read", "search", "shell", "query")


class Agent:
    """A LangChain agent as a host of canaries."""

    def __init__(self, folder: Path) -> None:
        self.passes = 0
        self._calls: list[Call] = []
        self._waiting: list[Call] = []
        self._answer = ""
        self._middleware = middleware_in(folder)
        self._middleware.engine.subscribe(self._count)
        self.model = ScriptedModel(rule=self._rule)
        self._agent = create_agent(
            self.model,
            tools=self._tools(),
            middleware=[self._middleware],
            system_prompt=SYSTEM,
            checkpointer=InMemorySaver(),
        )

    def say(self, exchange: Exchange) -> None:
        """One turn; what is taken back leaves the agent's state, as `RemoveMessage` does it."""
        before = len(self._state())
        self._turn(exchange.user, list(exchange.calls), exchange.answer)
        if exchange.taken_back:
            gone = [RemoveMessage(id=str(one.id)) for one in self._state()[before:]]
            self._agent.update_state(THREAD, {"messages": gone})

    def ask(self, question: str) -> str:
        """The text of the request that the question led to."""
        self._turn(question, [], "I will look.")
        return "\n".join(str(one.content) for one in self.model.calls[-1][:-1])

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return self._middleware.engine.call_tool(Session("langchain:talk"), name, arguments)

    def close(self) -> None:
        self._middleware.close()

    def _turn(self, text: str, calls: list[Call], final: str) -> None:
        self._calls, self._waiting, self._answer = list(calls), list(calls), final
        ask(self._agent, text)
        self._middleware.engine.wait_idle(60)

    def _state(self) -> list[BaseMessage]:
        found: list[BaseMessage] = self._agent.get_state(THREAD).values.get("messages", [])
        return found

    def _rule(self, messages: list[BaseMessage]) -> AIMessage:
        if not self._waiting:
            return answer(self._answer)
        call = self._waiting.pop(0)
        return answer("", (call.name, call.arguments))

    def _result(self) -> str:
        return self._calls.pop(0).result

    def _tools(self) -> list[BaseTool]:
        @tool
        def update_plan(plan: list[dict[str, Any]]) -> str:
            """Writes the plan."""
            return self._result()

        def made(name: str) -> BaseTool:
            @tool(name)
            def look(path: str, query: str) -> str:
                """Looks something up."""
                return self._result()

            return look

        return [update_plan, *map(made, NAMES)]

    def _count(self, event: Event) -> None:
        self.passes += event.name == "compaction.pass"


def test_what_was_planted_reaches_the_model_word_for_word_after_compactions(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    planted, after = canaries()
    agent = Agent(tmp_path)
    try:
        sightings = measure(agent, script(1, planted), (after,))
    finally:
        agent.close()
    assert missed(sightings) == []
    figure(f"canaries: {counts(sightings)}")
    assert agent.model.problems == []
