"""Trigger, keep and policy in LangChain's words; another summariser beside ours; the tool by which an agent compacts."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from fakes.speech import turn
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from scripted import ScriptedModel
from talk import answer, ask

from lcm_plugin import LcmConfig, Session
from lcm_plugin.hosts.langchain import LcmMiddleware

SESSION = Session("langchain:talk")
WINDOW = 10_000


def ours(folder: Path, **options: Any) -> LcmMiddleware:
    config = LcmConfig(database=str(folder / "lcm.db"), **options.pop("settings", {}))
    return LcmMiddleware(config, **{"window": WINDOW, "summary_model": "none", **options})


def noting(messages: list[BaseMessage]) -> AIMessage:
    return answer("noted")


def talk(middleware: LcmMiddleware, turns: int, tokens: int = 100) -> None:
    agent = create_agent(ScriptedModel(rule=noting), middleware=[middleware], checkpointer=InMemorySaver())
    for number in range(turns):
        ask(agent, turn(number, tokens))
        assert middleware.engine.wait_idle(60)


@pytest.mark.parametrize(
    ("trigger", "settings"),
    [
        (("fraction", 0.8), {"context_threshold": 0.8, "hard_threshold": 0.95}),
        (("fraction", 1.0), {"context_threshold": 1.0, "hard_threshold": 1.0}),
        (("tokens", 4_000), {"context_threshold": 0.4}),
        (("messages", 50), {"max_active_messages": 50, "context_threshold": 0.75}),
        ({"tokens": 4_000}, {"context_threshold": 0.4}),
        (
            [("fraction", 0.5), ("tokens", 4_000), {"messages": 30}],
            {"context_threshold": 0.4, "max_active_messages": 30},
        ),
    ],
)
def test_a_trigger_is_read_as_langchain_reads_it(
    tmp_path: Path, trigger: Any, settings: dict[str, Any]
) -> None:
    config = ours(tmp_path, trigger=trigger).engine.config
    assert {name: getattr(config, name) for name in settings} == settings
    assert config.context_policy == "faithful"
    assert config.database == str(tmp_path / "lcm.db")


@pytest.mark.parametrize(
    ("keep", "settings"),
    [
        (("messages", 20), {"fresh_tail_count": 20, "fresh_tail_max_tokens": None}),
        (("tokens", 3_000), {"fresh_tail_count": 100_000, "fresh_tail_max_tokens": 3_000}),
        (("fraction", 0.3), {"fresh_tail_count": 100_000, "fresh_tail_max_tokens": 3_000}),
    ],
)
def test_what_is_kept_is_read_as_langchain_reads_it(
    tmp_path: Path, keep: Any, settings: dict[str, Any]
) -> None:
    config = ours(tmp_path, keep=keep).engine.config
    assert {name: getattr(config, name) for name in settings} == settings
    assert config.context_policy == "balanced"


def test_a_policy_that_is_named_holds_beside_a_trigger(tmp_path: Path) -> None:
    assert (
        ours(tmp_path, trigger=("fraction", 0.6), policy="economy").engine.config.context_policy == "economy"
    )
    named = ours(tmp_path, trigger=("fraction", 0.6), settings={"context_policy": "balanced"})
    assert named.engine.config.context_policy == "balanced"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"trigger": ("fraction", 80)}, "trigger must be"),
        ({"trigger": "80%"}, "trigger must be"),
        ({"trigger": {"tokens": 4_000, "messages": 10}}, "all hold are not supported"),
        ({"trigger": ("tokens", 4_000), "window": None}, "needs the model's size"),
        ({"keep": ("messages", 0)}, "keep must be"),
        ({"policy": "thrifty"}, "contextPolicy"),
    ],
)
def test_an_option_that_cannot_be_is_a_sentence(
    tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(Exception, match=sentence):
        ours(tmp_path, **options)


def test_options_beside_an_engine_are_refused(tmp_path: Path) -> None:
    first = ours(tmp_path)
    with pytest.raises(ValueError, match="give them to its LcmConfig"):
        LcmMiddleware(engine=first.engine, keep=("messages", 4))
    first.close()


def test_nothing_is_summarised_before_the_trigger_and_what_is_kept_stays(tmp_path: Path) -> None:
    late = ours(tmp_path, trigger=("messages", 1_000), keep=("messages", 6))
    talk(late, 24)
    assert all(item.kind == "message" for item in late.engine.context_items(SESSION))
    late.close()
    (tmp_path / "lcm.db").unlink()
    early = ours(tmp_path, trigger=("messages", 20), keep=("messages", 6))
    talk(early, 24)
    items = early.engine.context_items(SESSION)
    assert items[0].kind == "summary"
    assert [item.kind for item in items[-6:]] == ["message"] * 6
    early.close()


def test_a_summariser_beside_ours_is_a_warning_when_the_agent_is_built(tmp_path: Path) -> None:
    model = ScriptedModel(rule=noting)
    theirs = SummarizationMiddleware(model, trigger=("messages", 30))
    with pytest.warns(UserWarning, match="SummarizationMiddleware summarises beside LcmMiddleware"):
        create_agent(model, middleware=[theirs, ours(tmp_path)])
    with pytest.warns(UserWarning, match="summarises beside LcmMiddleware"):
        create_deep_agent(model=model, middleware=[ours(tmp_path)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        create_agent(model, middleware=[ours(tmp_path)])
        create_agent(model, middleware=[theirs, ours(tmp_path, settings={"capture_only": True})])
        create_deep_agent(model=model, middleware=[ours(tmp_path, name="SummarizationMiddleware")])


def test_the_agent_compacts_when_it_wants_to(tmp_path: Path) -> None:
    def rule(messages: list[BaseMessage]) -> AIMessage:
        if str(messages[-1].content).startswith("We are done"):
            return answer("", ("compact_conversation", {"focus": "ladders"}))
        return answer("noted")

    model = ScriptedModel(rule=rule)
    late = {"trigger": ("messages", 1_000), "keep": ("messages", 4), "settings": {"leaf_min_fanout": 2}}
    middleware = ours(tmp_path, compact_tool=True, **late)
    agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
    for number in range(16):
        ask(agent, turn(number, 150))
    assert all(item.kind == "message" for item in middleware.engine.context_items(SESSION))
    state = ask(agent, "We are done with the counting.")
    [told] = [message for message in state if isinstance(message, ToolMessage)]
    assert told.content.startswith("Compacted: ")
    assert "<summary" in str(model.calls[-1][0].content)
    assert len(model.calls[-1]) < len(state)
    assert model.problems == []
    assert "compact_conversation" in model.bound
    assert "compact_conversation" not in [tool.name for tool in ours(tmp_path).tools]
    middleware.close()
