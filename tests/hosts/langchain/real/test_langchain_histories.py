"""Whatever happened to a graph's state, a model sees it as a fresh thread with the same state, and all is stored once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from effort import examples
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from scripted import ScriptedModel
from talk import THREAD, answer

from lcm_plugin import LcmConfig, Session
from lcm_plugin.hosts.langchain import LcmMiddleware

LANE = Session("langchain:talk")
KINDS = [
    "turn",
    "tools",
    "edit",
    "edit an answer",
    "edit the end",
    "branch",
    "retry",
    "take back",
    "clear",
    "compact",
    "restart",
]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 50)), min_size=3, max_size=10)


@tool
def look(place: str) -> str:
    """Looks."""
    return f"seen at {place}"


class Thread:
    """A thread with a middleware, and all that was ever said in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.saver = folder, InMemorySaver()
        self.model = ScriptedModel(rule=self._rule)
        self.said: list[str] = []
        self.compacted = False
        self.open()

    def open(self) -> None:
        config = LcmConfig(
            database=str(self.folder / "lcm.db"),
            fresh_tail_count=2,
            leaf_chunk_tokens=200,
            leaf_target_tokens=60,
            leaf_min_fanout=2,
            autocompact_disabled=True,
        )
        self.middleware = LcmMiddleware(config, window=200_000, summary_model="none")
        self.agent = create_agent(
            self.model, tools=[look], middleware=[self.middleware], checkpointer=self.saver
        )

    def words(self, kind: str) -> str:
        self.said.append(f"{kind}, said as number {len(self.said)} of this talk")
        return self.said[-1]

    def _rule(self, messages: list[BaseMessage]) -> AIMessage:
        if str(messages[-1].content).startswith("tools"):
            place = f"place {len(self.said)}"
            self.said += [f"calling for {place}", f"seen at {place}"]
            return answer(self.said[-2], ("look", {"place": place}))
        return answer(self.words("answer"))

    @property
    def state(self) -> list[BaseMessage]:
        found: list[BaseMessage] = self.agent.get_state(THREAD).values.get("messages", [])
        return found

    def ask(self, kind: str, config: Any = THREAD, *before: Any) -> None:
        self.agent.invoke({"messages": [*before, HumanMessage(self.words(kind))]}, config)

    def pick(self, found: list[Any], number: int) -> Any:
        return found[number % len(found)] if found else None

    def step(self, kind: str, number: int) -> None:
        history = list(self.agent.get_state_history(THREAD))
        ended = [state.config for state in history if not state.next and state.values.get("messages")]
        waiting = [state for state in history if state.next == ("model",)]
        old = [one for one in self.state if one.type == ("ai" if kind == "edit an answer" else "human")]
        if kind == "compact":
            self.compacted |= self.middleware.engine.compact(LANE, force=True, budget=1_000).compacted
        elif kind == "restart":
            self.middleware.close()
            self.open()
            # Of a list that begins anew in another process the store does not know whose it is.
            self.ask("turn")
        elif kind.startswith("edit") and kind != "edit the end" and (one := self.pick(old, number)):
            edited = one.model_copy(update={"content": self.words("edited")})
            self.agent.update_state(THREAD, {"messages": [edited]}, as_node="model")
            self.ask("turn")
        elif kind == "edit the end" and (state := self.pick(waiting, number)):
            last = state.values["messages"][-1]
            if last.type == "human":
                edited = HumanMessage(self.words("edited"), id=last.id)
                config = self.agent.update_state(state.config, {"messages": [edited]}, as_node="__start__")
                self.agent.invoke(None, config)
        elif kind == "branch" and (config := self.pick(ended, number)):
            self.ask("branch", config)
        elif kind == "retry" and (state := self.pick(waiting, number)):
            self.agent.invoke(None, state.config)
        elif kind == "take back" and (one := self.pick(old, number)):
            taken = self.state[self.state.index(one) :]
            removed = [RemoveMessage(id=str(message.id)) for message in taken]
            self.ask("taken back", THREAD, *removed)
        elif kind == "clear":
            self.ask("a fresh start", THREAD, RemoveMessage(REMOVE_ALL_MESSAGES))
        else:
            self.ask(kind)


def shown(model: ScriptedModel) -> list[str]:
    return [str(message.content) for message in model.calls[-1] if message.type != "system"]


def check(steps: list[tuple[str, int]], folder: Path) -> None:
    thread = Thread(folder)
    thread.ask("turn")
    for kind, number in steps:
        thread.step(kind, number)
    thread.ask("and now")
    final = [str(message.content) for message in thread.state[:-1]]
    seen = shown(thread.model)
    stored = [str(message["content"]) for message in thread.middleware.engine.messages(LANE)]
    assert Counter(stored) == Counter(thread.said)
    assert thread.model.problems == []
    assert thread.middleware.engine.check(LANE).findings == ()
    thread.middleware.close()
    if thread.compacted:
        assert seen[-1] == final[-1]
        assert not [text for text in thread.said if text not in final and text in seen]
        return
    assert seen == final
    (folder / "fresh").mkdir()
    fresh = Thread(folder / "fresh")
    fresh.agent.invoke({"messages": thread.state[:-1]}, THREAD)
    assert shown(fresh.model) == seen
    fresh.middleware.close()


@settings(max_examples=examples(20, here=6), phases=[Phase.explicit, Phase.generate])
@given(steps=STEPS)
@example(steps=[("turn", 0), ("tools", 0), ("edit", 1), ("edit", 1), ("branch", 2), ("edit an answer", 1)])
def test_any_history_of_a_thread_shows_its_state(steps: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        check(steps, Path(folder))
