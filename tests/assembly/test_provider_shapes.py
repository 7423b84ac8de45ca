"""What litellm makes of our contexts for other providers: accepted, and nothing lost on the way."""

from __future__ import annotations

import copy
import itertools
import json
import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from assembly.histories import Cut, compact
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.messages.validate import validate

Message = dict[str, Any]
Transform = Callable[[list[Message]], list[Message]]


@pytest.fixture(scope="module")
def transforms() -> dict[str, Transform]:
    """litellm's own functions, by provider; nothing of it touches the network."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("litellm")
        from litellm.litellm_core_utils.prompt_templates.factory import (
            _bedrock_converse_messages_pt,
            anthropic_messages_pt,
        )
        from litellm.llms.vertex_ai.gemini.transformation import _gemini_convert_messages_with_history
    return {
        "anthropic": lambda m: anthropic_messages_pt(m, "claude-sonnet-4-5", "anthropic"),
        "gemini": lambda m: _gemini_convert_messages_with_history(m, "gemini-2.5-pro"),
        "bedrock": lambda m: _bedrock_converse_messages_pt(m, "anthropic.claude-sonnet-4", "bedrock"),
    }


def tell(engine: Engine, session: Session, *messages: Message) -> None:
    for message in messages:
        engine.ingest(session, [message])


@pytest.fixture
def rough(engine: Engine, session: Session) -> list[Message]:
    """A context from a history in which much went wrong."""
    pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="
    both = call("p1", arguments='{"n": 1}')
    both["tool_calls"] += call("p2", arguments='{"n": 2}')["tool_calls"]
    tell(
        engine, session,
        user("first"), call("c:1", "look", '{"q": "one"}'), result("c:1", "answer one"), assistant("so"),
        user("second"), both, result("p2", "answer two"), result("p1", " "),
        call("c:1", "look", '{"q": ', text=""), result("c:1", "answer three"),
        user([{"type": "text", "text": "a picture"}, {"type": "image_url", "image_url": {"url": pixel}}]),
        call("lost", "look"), user("third"), call("late", "look", '{"q": "late"}'), user("fourth"),
        result("late", "answer late"), assistant("", refusal="I will not"), result("ghost", "boo"),
        user("fifth"), {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": ""}},
        {"role": "function", "name": "old", "content": "answer old"}, user("sixth"),
    )  # fmt: skip
    assert compact(engine, session, Cut(0, 0.16))
    shown = engine.assemble(session, 50_000).messages
    assert validate(shown) == []
    return shown


def said(messages: list[Message]) -> str:
    """All that is in messages, as text."""
    return json.dumps(messages, ensure_ascii=False, default=str)


@pytest.mark.long
@pytest.mark.parametrize("provider", ["anthropic", "gemini", "bedrock"])
def test_nothing_is_lost_on_the_way_to_a_provider(
    transforms: dict[str, Transform], rough: list[Message], provider: str
) -> None:
    theirs = transforms[provider](copy.deepcopy(rough))
    text = said(theirs)
    for words in ("second", "third", "fourth", "fifth", "sixth", "a picture", "I will not", "(empty)"):
        assert words in text
    for answer in ("answer two", "answer three", "answer late", "answer old", "no result of this call"):
        assert text.count(answer) == 1
    made = sum(len(message.get("tool_calls") or ()) for message in rough)
    kinds = {"anthropic": '"tool_use"', "gemini": '"function_call"', "bedrock": '"toolUse"'}
    answered = {"anthropic": '"tool_result"', "gemini": '"function_response"', "bedrock": '"toolResult"'}
    assert text.count(kinds[provider]) == text.count(answered[provider]) == made
    roles = [message["role"] for message in theirs]
    assert roles[0] == "user"
    assert roles[-1] == "user"
    if provider != "gemini":  # which takes two user messages in a row
        assert all(one != other for one, other in itertools.pairwise(roles))


@pytest.mark.long
@pytest.mark.parametrize("provider", ["anthropic", "gemini"])
def test_the_rules_accept_what_litellm_makes_of_a_context(
    transforms: dict[str, Transform], rough: list[Message], provider: str
) -> None:
    assert validate(transforms[provider](copy.deepcopy(rough))) == []


@pytest.mark.long
@pytest.mark.parametrize("provider", ["anthropic", "gemini"])
def test_the_rules_see_a_fault_in_either_shape(
    transforms: dict[str, Transform], rough: list[Message], provider: str
) -> None:
    theirs = transforms[provider](copy.deepcopy(rough))
    without_calls = [message for message in theirs if message["role"] == "user"]
    assert any("does not directly follow its call" in fault for fault in validate(without_calls))


def test_anthropic_ids_that_become_equal_are_kept_apart(
    engine: Engine, session: Session, transforms: dict[str, Transform]
) -> None:
    tell(
        engine,
        session,
        user("q"),
        call("a:1"),
        result("a:1", "x"),
        call("a_1"),
        result("a_1", "y"),
        user("?"),
    )
    theirs = transforms["anthropic"](engine.assemble(session, 9_000).messages)
    used = [block["id"] for message in theirs for block in message["content"] if block["type"] == "tool_use"]
    assert len(set(used)) == 2


def test_reasoning_reaches_the_model_that_wrote_it_unchanged(
    engine: Engine, session: Session, transforms: dict[str, Transform]
) -> None:
    block = {"type": "thinking", "thinking": "because", "signature": "c2ln" * 200}
    asked = call("c1") | {
        "model": "claude-sonnet-4-5",
        "thinking_blocks": [block],
        "reasoning_content": "because",
    }
    tell(engine, session, user("q"), asked, result("c1", "r"))
    mine = engine.assemble(session, 9_000, model="anthropic/claude-sonnet-4-5").messages
    assert transforms["anthropic"](copy.deepcopy(mine))[1]["content"][0] == block
    other = engine.assemble(session, 9_000, model="gpt-5").messages
    assert "because" not in said(other)


def test_call_only_messages_keep_their_reasoning_for_deepseek_and_kimi(
    engine: Engine, session: Session
) -> None:
    asked = call("functions.look:0") | {"reasoning_content": "I must look", "model": "kimi-k2"}
    tell(engine, session, user("q"), asked, result("functions.look:0", "r"))
    assert engine.assemble(session, 9_000, model="moonshot/kimi-k2").messages[1] == asked
