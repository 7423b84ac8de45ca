"""Any message that was stored can be shown, and no message stops a context."""

from __future__ import annotations

import json
from typing import Any

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.assembly.check import without_faults
from lcm_plugin.messages.blocks import text_of
from lcm_plugin.messages.validate import validate
from lcm_plugin.types import Message

DEEP: Any = "deep"
for _ in range(95):
    DEEP = [DEEP]
ODD: dict[str, list[Message]] = {
    "no blocks beside a call": [user("q"), {**call("c1"), "content": []}, result("c1", "r")],
    "a blank block beside a call": [
        user("q"), {**call("c1"), "content": [{"type": "text", "text": ""}]}, result("c1", "r"),
    ],
    "a result of no blocks": [user("q"), call("c1"), result("c1", [])],
    "a result of blank blocks": [user("q"), call("c1"), result("c1", [{"type": "text", "text": " "}, None])],
    "arguments nested without end": [user("q"), call("c1", arguments="[" * 3_000), result("c1", "r")],
    "arguments nested deep": [user("q"), call("c1", arguments="[" * 900 + "]" * 900), result("c1", "r")],
    "arguments with NaN": [user("q"), call("c1", arguments='{"a": NaN}'), result("c1", "r")],
    "arguments with half a letter": [user("q"), call("c1", arguments='{"a": "\\ud83d"}'), result("c1", "r")],
    "half a letter": [user("q \ud83d"), assistant("a \udc00"), {**call("c1\ud83d"), "k\ud83d": 1}],
    "NaN": [user([{"type": "text", "text": "q", "score": float("nan"), "most": float("inf")}])],
    "numbers as content": [user(5), assistant({"a": 1}), user([1, None, "words", {"type": "text", "text": 2}])],
    "an unknown role": [user("q"), {"role": "critic", "content": "hm"}],
    "calls that are none": [user("q"), {"role": "assistant", "content": "a", "tool_calls": 5}],
    "a call with odd members": [
        user("q"),
        {"role": "assistant", "content": None, "tool_calls": [{"id": 7, "name": "look", "args": {"a": 1}}, 3, {}]},
        {"role": "tool", "tool_call_id": 7, "content": {"type": "text", "text": "r"}, "name": 3},
    ],
    "blocks without a type": [user([{"odd": 1}, {"type": None, "x": 2}])],
    "a block call without input": [
        user("q"), assistant([{"type": "tool_use", "id": "c1"}]), user([{"type": "tool_result", "tool_use_id": "c1"}]),
    ],
    "a name with a model's own marks": [user("q"), call("c1", "look<|channel|>commentary"), result("c1", "r")],
    "a name without end": [user("q"), call("c1", "look " * 900), result("c1", "r")],
    "a name that is none": [user("q"), call("c1", "{}"), result("c1", "r")],
    "a block call with an odd name": [
        user("q"),
        {"role": "model", "parts": [{"functionCall": {"name": "look here!", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look here!", "response": {"a": 1}}}]},
    ],
    "reasoning from a user": [user([{"type": "thinking", "thinking": "hm"}]), user("q")],
    "nesting": [user([{"type": "text", "text": "q", "extra": DEEP}])],
}  # fmt: skip


def sent(messages: list[Message]) -> bytes:
    return json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.both_stores_under_ci
@pytest.mark.parametrize("name", ODD)
def test_an_odd_message_is_kept_as_it_came_and_shown_as_providers_take_it(
    engine: Engine, session: Session, name: str
) -> None:
    given = ODD[name]
    engine.ingest(session, [*given, user("the newest words")])
    assert json.dumps(engine.messages(session)[: len(given)]) == json.dumps(given)
    for budget in (64, 600, 50_000):
        context = engine.assemble(session, budget)
        assert validate(context.messages) == []
        assert "the newest words" in sent(context.messages).decode()
        assert "no result of this call" not in sent(context.messages).decode() or name == "half a letter"
        assert context.tokens == engine.count_tokens(context.messages)
    engine.compact(session, force=True)
    assert validate(engine.assemble(session, 50_000).messages) == []
    assert engine.check(session).ok
    assert engine.ingest(session, [*given, user("the newest words")], "sync").stored == 0


def test_an_empty_result_says_so(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("q"), call("c1"), result("c1", []), user("next")])
    assert engine.assemble(session, 9_000).messages[2] == result("c1", "(empty)")


def test_a_message_that_breaks_whatever_looks_at_it_is_named(
    engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lcm_plugin.assembly import render

    def broken(message: Message) -> Message:
        if text_of(message) == "bad":
            raise RecursionError
        return message

    monkeypatch.setattr(render, "presentable", broken)
    engine.ingest(session, [user("q"), assistant("bad"), user("next")])
    shown = engine.assemble(session, 9_000).messages
    assert [message["role"] for message in shown] == ["user", "assistant", "user"]
    assert shown[1]["content"].startswith("[LCM: msg_")


@pytest.mark.parametrize(
    "messages",
    [
        [user("q"), call("c1"), user("next")],
        [user("q"), result("c1", "r"), user("next")],
        [user("q"), call("c1"), result("c1", "r"), call("c1"), result("c1", "r"), user("next")],
        [{"role": "system", "content": "rules"}, assistant("first"), user("next")],
        [
            user("q"),
            user(""),
            user([{"type": "tool_result", "tool_use_id": "c", "content": ""}]),
            user("next"),
        ],
        [user("q"), call("c1", arguments="{"), result("c1", "r"), assistant("end"), user("next")],
        [user("next"), assistant("last")],
    ],
)
def test_a_list_that_breaks_a_rule_loses_the_exchange_that_breaks_it(messages: list[Message]) -> None:
    assert validate(messages) != []
    kept = without_faults(messages)
    assert validate(kept) == []
    assert user("next") in kept
    assert [message for message in kept if message["role"] == "system"] == messages[:1] * (
        messages[0]["role"] == "system"
    )


def test_a_broken_context_is_mended_and_an_event_names_the_rule(
    engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lcm_plugin.assembly import output

    events: list[Any] = []
    engine.events.subscribe(events.append)
    monkeypatch.setattr(output, "NO_RESULT", " ")
    engine.ingest(session, [user("q"), call("c1"), user("next")])
    context = engine.assemble(session, 9_000)
    assert validate(context.messages) == []
    assert context.messages[-1] == user("next")
    (event,) = [event for event in events if event.name == "assembly.mended"]
    assert "empty content" in event.fields["rules"][0]
