"""Calls and their results in a context: what reached the store in any order, a provider accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from assembly.histories import Cut, compact
from messages import assistant, call, calls, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.assembly.output import NO_RESULT
from lcm_plugin.messages.validate import validate

pytestmark = pytest.mark.both_stores_under_ci

Message = dict[str, Any]


def context(engine: Engine, session: Session, *messages: Message, budget: int = 100_000) -> list[Message]:
    """What a model is shown after these messages."""
    for message in messages:
        engine.ingest(session, [message])
    shown = engine.assemble(session, budget).messages
    assert validate(shown) == []
    return shown


def results(shown: list[Message]) -> list[Any]:
    return [message["content"] for message in shown if message["role"] == "tool"]


@pytest.mark.parametrize("budget", [60, 120, 200, 400, 800, 2_000, 10_000])
def test_parallel_results_come_all_or_none(engine: Engine, session: Session, budget: int) -> None:
    ids = [f"c{n}" for n in range(12)]
    shown = context(
        engine,
        session,
        user("go"),
        calls(*ids),
        *[result(one, f"answer {one} " + "x" * 80) for one in ids],
        user("next"),
        budget=budget,
    )
    assert len(results(shown)) in (0, 12)


def test_a_result_stored_before_its_call_is_the_one_shown(engine: Engine, session: Session) -> None:
    shown = context(engine, session, user("q"), result("c1", "42"), call("c1"), user("and?"))
    assert results(shown) == ["42"]


def test_words_beside_a_result_without_a_call_stand_behind_its_notice_from_the_first(
    engine: Engine, session: Session
) -> None:
    early = {"type": "tool_result", "tool_use_id": "c1", "content": "42"}
    alone = context(
        engine, session, {"role": "user", "content": [early, {"type": "text", "text": "what is it?"}]}
    )
    assert [("whose call is not in" in str(one), "what is it?" in str(one)) for one in alone] == [
        (True, False),
        (False, True),
    ]
    later = context(engine, session, user("still there?"), call("c1"))
    assert later[: len(alone)] == alone


def test_a_result_stored_long_before_its_call_is_found_too(engine: Engine, session: Session) -> None:
    shown = context(
        engine, session, user("q"), result("c1", "42"), user("hm"), call("c1"), assistant("so"), user("and?")
    )
    assert results(shown) == ["42"]


def test_a_displaced_result_is_delivered_once(engine: Engine, session: Session) -> None:
    shown = context(
        engine, session, user("q"), call("c1"), assistant("working…"), result("c1", "ok"), user("and?")
    )
    assert results(shown) == ["ok"]
    assert [message["role"] for message in shown] == ["user", "assistant", "tool", "assistant", "user"]


def test_a_real_result_replaces_one_that_was_made_up(engine: Engine, session: Session) -> None:
    made_up = "[lossless-claw] missing tool result in session history"
    shown = context(
        engine, session, user("q"), call("c1"), result("c1", made_up), result("c1", "ok"), user("and?")
    )
    assert results(shown) == ["ok"]


def test_a_late_result_takes_the_place_of_the_marked_one(engine: Engine, session: Session) -> None:
    before = context(engine, session, user("q"), call("c1"), user("hello?"))
    assert results(before) == [NO_RESULT]
    after = context(engine, session, result("c1", "late"), user("and?"))
    assert results(after) == ["late"]


def test_an_open_call_waits_and_its_stored_row_is_unchanged(engine: Engine, session: Session) -> None:
    asked = call("x")
    assert context(engine, session, user("q"), asked) == [user("q")]
    assert engine.messages(session) == [user("q"), asked]
    assert results(context(engine, session, result("x", "done"))) == ["done"]


def test_a_lost_parallel_result_does_not_hide_the_others(engine: Engine, session: Session) -> None:
    shown = context(engine, session, user("q"), calls("a", "b"), result("b", "real"))
    assert results(shown) == ["real", NO_RESULT]


def test_an_id_used_twice_is_unique_on_both_sides(engine: Engine, session: Session) -> None:
    shown = context(
        engine, session,
        user("q"), call("exec:1"), result("exec:1", "a"), call("exec:1"), result("exec:1", "b"), user("and?"),
    )  # fmt: skip
    made = [one["id"] for message in shown for one in message.get("tool_calls") or ()]
    assert made == ["exec:1", "exec:1-2"]
    assert [(m["tool_call_id"], m["content"]) for m in shown if m["role"] == "tool"] == [
        ("exec:1", "a"),
        ("exec:1-2", "b"),
    ]


def test_calls_of_one_id_in_two_messages_get_their_results_in_order(engine: Engine, session: Session) -> None:
    shown = context(
        engine, session, user("q"), call("x"), call("x"), result("x", "one"), result("x", "two"), user("?")
    )
    assert results(shown) == ["one", "two"]


def test_a_second_different_result_of_one_call_is_not_lost(engine: Engine, session: Session) -> None:
    shown = context(
        engine, session, user("q"), call("c"), result("c", "half"), result("c", "whole"), user("?")
    )
    assert results(shown) == ["half", "whole"]
    same = context(engine, session, call("d"), result("d", "same"), result("d", "same"), user("?"))
    assert results(same) == ["half", "whole", "same"]


def test_a_new_name_stays_within_forty_characters(engine: Engine, session: Session) -> None:
    long = "call_" + "x" * 35
    shown = context(
        engine, session, user("q"), call(long), result(long, "a"), call(long), result(long, "b"), user("?")
    )
    made = [one["id"] for message in shown for one in message.get("tool_calls") or ()]
    assert len(set(made)) == 2
    assert all(len(one) <= 40 for one in made)


def test_a_result_whose_call_was_compacted_comes_with_a_copy_of_it(engine: Engine, session: Session) -> None:
    asked = call("c1", "deploy", '{"to": "prod"}', text="I deploy now.")
    context(engine, session, user("q"), asked, user("more"), assistant("yes"), user("go on"))
    assert compact(engine, session, Cut(0, 0.5))
    shown = context(engine, session, result("c1", "deployed"), user("and?"))
    [made] = [one for message in shown for one in message.get("tool_calls") or ()]
    assert made == asked["tool_calls"][0]
    assert results(shown) == ["deployed"]
    place = shown.index({"role": "assistant", "content": None, "tool_calls": [made]})
    assert shown[place + 1] == result("c1", "deployed")


def test_a_result_whose_call_nobody_knows_is_named(engine: Engine, session: Session) -> None:
    shown = context(engine, session, user("q"), result("ghost", "boo"), user("and?"))
    assert not results(shown)
    assert "msg_2" in shown[1]["content"]
    assert shown[1]["content"].startswith("<lcm-notice>")


def test_arguments_that_are_no_json_object_become_one(engine: Engine, session: Session) -> None:
    for number, arguments in enumerate(['{"path": "a', "", "[1, 2]"]):
        context(
            engine, session, user("q"), call(f"c{number}", arguments=arguments), result(f"c{number}", "r")
        )
    shown = context(engine, session, user("?"))
    given = [one["function"]["arguments"] for message in shown for one in message.get("tool_calls") or ()]
    assert [json.loads(one) for one in given] == [
        {"unreadable_arguments": '{"path": "a'},
        {},
        {"arguments": [1, 2]},
    ]


def test_an_old_function_call_becomes_a_tool_call(engine: Engine, session: Session) -> None:
    shown = context(
        engine,
        session,
        user("q"),
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "r"},
    )
    assert shown[1]["tool_calls"][0]["id"] == shown[2]["tool_call_id"] == "call_f"


def test_calls_without_ids_are_paired_in_order(engine: Engine, session: Session) -> None:
    function = {"function": {"name": "f", "arguments": {"x": 1}}}
    shown = context(
        engine,
        session,
        user("q"),
        {"role": "assistant", "content": "", "tool_calls": [function, function]},
        {"role": "tool", "content": "one"},
        {"role": "tool", "content": "two"},
    )
    made = [one["id"] for one in shown[1]["tool_calls"]]
    assert [(m["tool_call_id"], m["content"]) for m in shown[2:]] == [(made[0], "one"), (made[1], "two")]


def test_anthropic_blocks_keep_their_shape(engine: Engine, session: Session) -> None:
    used = [{"type": "tool_use", "id": one, "name": "f", "input": {}} for one in ("t1", "t2")]
    asked = {"role": "assistant", "content": used}
    told = {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "r"},
            {"type": "text", "text": "and hurry"},
        ],
    }
    shown = context(engine, session, user("q"), asked, told)
    assert shown[1] == asked
    blocks = [block for message in shown[2:] for block in message["content"]]
    assert [block["type"] for block in blocks] == ["tool_result", "tool_result", "text"]
    assert blocks[-1] == {"type": "text", "text": "and hurry"}


def test_a_chain_stays_valid_for_twenty_turns_after_compaction(engine: Engine, session: Session) -> None:
    for number in range(6):
        context(
            engine, session, user(f"q{number}"), call(f"c{number}"), result(f"c{number}", "r"), assistant("a")
        )
    compact(engine, session, Cut(0, 0.7))
    for number in range(6, 26):
        context(engine, session, user(f"q{number}"), call(f"c{number}"), result(f"c{number}", "r" * 50))
        engine.assemble(session, 300)


def test_what_names_nothing_to_call_is_no_call(engine: Engine, session: Session) -> None:
    odd = {"role": "assistant", "content": [], "tool_call_id": "c1", "tool_calls": [{"id": "c1"}, "text"]}
    engine.ingest(session, [user("look"), odd, user("and now?")])
    assert [message["content"] for message in engine.assemble(session, 8_000).messages] == [
        "look",
        "and now?",
    ]
