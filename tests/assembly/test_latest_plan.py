"""The newest plan stays in view when the turn that made it was compacted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from messages import assistant, call, result, user
from small_talk import turns

from lcm_plugin import Engine, Session

pytestmark = pytest.mark.both_stores_under_ci

SMALL: dict[str, Any] = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 400,
    "leaf_target_tokens": 60,
    "leaf_min_fanout": 2,
}
PLAN = json.dumps({"todos": [{"content": "paint the <b>ferry</b>", "status": "pending"}] * 3})


def planned(number: int, name: str = "TodoWrite", plan: str = PLAN, answer: str = "Updated.") -> list[Any]:
    return [user(f"do {number}"), call(f"p{number}", name, plan), result(f"p{number}", answer)]


def plans(engine: Engine, session: Session, budget: int = 8_000) -> list[str]:
    contents = [str(one["content"]) for one in engine.assemble(session, budget).messages]
    return [text for text in contents if text.startswith("<plan ")]


def compact(engine: Engine, session: Session) -> None:
    assert engine.compact(session, force=True, budget=8_000).compacted


@pytest.mark.parametrize("name", ["TodoWrite", "todo", "write_todos", "update_plan", "todowrite"])
def test_the_input_of_the_newest_plan_stays_when_its_turn_is_compacted(
    open_engine: Callable[..., Engine], session: Session, name: str
) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(
        session, [*planned(0, name, '{"todos": "an older plan, longer than this"}'), *planned(1, name)]
    )
    assert plans(engine, session) == []
    engine.ingest(session, [assistant("on it"), *turns(20)])
    compact(engine, session)
    (shown,) = plans(engine, session)
    assert PLAN in shown
    assert 'id="msg_5"' in shown


def test_a_result_that_says_more_than_the_call_is_the_plan(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(session, [*planned(1, "todo", '{"merge": true}', PLAN), assistant("on it"), *turns(20)])
    compact(engine, session)
    assert PLAN in plans(engine, session)[0]


def test_anthropics_blocks_are_read_too(open_engine: Callable[..., Engine], session: Session) -> None:
    engine = open_engine(**SMALL)
    used = {"type": "tool_use", "id": "a", "name": "TodoWrite", "input": {"todos": ["paint the ferry"]}}
    answered = {"type": "tool_result", "tool_use_id": "a", "content": "ok"}
    engine.ingest(session, [user("go"), assistant([used]), user([answered]), assistant("on it"), *turns(20)])
    compact(engine, session)
    assert "paint the ferry" in plans(engine, session)[0]


def test_a_plan_that_stands_raw_takes_the_place_of_the_compacted_one(
    open_engine: Callable[..., Engine], session: Session, clock: Any
) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(session, [*planned(1), assistant("on it"), *turns(20), *planned(2)])
    clock.forward(1_000)
    compact(engine, session)
    assert plans(engine, session) == []


def test_a_later_plan_changes_nothing_before_it_until_the_next_compaction(
    open_engine: Callable[..., Engine], session: Session, clock: Any
) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(session, [*planned(1), assistant("on it"), *turns(20)])
    clock.forward(1_000)
    compact(engine, session)
    clock.forward(1_000)
    engine.ingest(session, [user("next")])
    before = engine.assemble(session, 8_000).messages
    engine.ingest(session, planned(2, plan='{"todos": "the newer plan"}')[1:])
    after = engine.assemble(session, 8_000).messages
    assert after[: len(before)] == before
    engine.ingest(session, [assistant("on it"), *turns(20, start=50)])
    compact(engine, session)
    (shown,) = plans(engine, session)
    assert "the newer plan" in shown


def test_new_takes_the_plan_out_and_so_does_the_setting(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(session, [*planned(1), assistant("on it"), *turns(20)])
    compact(engine, session)
    assert plans(open_engine(**SMALL, keep_latest_of=["other_*"]), session) == []
    assert plans(open_engine(**SMALL, keep_latest_of=["Todo*"]), session) == plans(engine, session) != []
    engine.new_session(session, 0)
    engine.ingest(session, [user("something else")])
    assert plans(engine, session) == []


def test_a_long_plan_is_cut_to_what_pins_leave_and_says_where_it_is_whole(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(**SMALL)
    long = json.dumps({"todos": [f"step {number} of the harbour" for number in range(400)]})
    engine.ingest(session, [*planned(1, plan=long), assistant("on it"), *turns(20)])
    compact(engine, session)
    (shown,) = plans(engine, session)
    assert "[LCM cut msg_2:" in shown
    assert 400 < engine.count_tokens(shown) <= 800
    pin = engine.pin(session, "copper " * 400)
    (shorter,) = plans(engine, session)
    assert engine.count_tokens(shorter) <= 800 - pin.tokens
    engine.pin(session, "lantern " * 380)
    assert plans(engine, session, 4_000) == []


def test_a_plan_block_that_a_host_hands_back_is_no_message(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(session, [*planned(1), assistant("on it"), *turns(20)])
    compact(engine, session)
    stored = len(engine.messages(session))
    engine.ingest(session, [*engine.assemble(session, 8_000).messages, user("next")], "sync")
    assert len(engine.messages(session)) == stored + 1
