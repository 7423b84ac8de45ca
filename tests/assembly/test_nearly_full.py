"""The model is warned when its running turn, which nothing can compact, comes near the end of the room."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fakes.validity import problems_of
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.messages.markup import nearly_full_line
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores_under_ci
BUDGET = 12_000
WARNING = "nearly full of what cannot be compacted"


def shown(engine: Engine, session: Session, budget: int = BUDGET) -> list[Message]:
    context = engine.assemble(session, budget, recall=False)
    assert context.tokens <= budget
    assert problems_of(context.messages) == []
    return context.messages


def warned_at(messages: list[Message]) -> list[int]:
    return [n for n, message in enumerate(messages) if WARNING in str(message["content"])]


def steps(first: int, last: int, words: int = 900) -> list[Message]:
    return [
        message
        for n in range(first, last)
        for message in (call(f"c{n}"), result(f"c{n}", f"step {n} " + "found " * words))
    ]


def test_a_turn_that_grows_is_warned_once_and_the_line_stays_where_it_is(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine()
    engine.ingest(session, [user("look through all of it")])
    seen: list[list[Message]] = []
    for n in range(12):
        engine.ingest(session, steps(n, n + 1))
        seen.append(shown(engine, session))
        if n < 10:
            assert warned_at(seen[-1]) == []
    assert seen[11][: len(seen[10])] == seen[10]
    assert warned_at(seen[10]) == [22]
    assert seen[10][22]["content"].startswith("step 10 found")
    assert engine.messages(session)[22]["content"] == f"step 10 {'found ' * 900}"


def test_a_turn_that_is_over_warns_of_nothing(open_engine: Callable[..., Engine], session: Session) -> None:
    engine = open_engine()
    engine.ingest(session, [user("look"), *steps(0, 11), assistant("done"), user("thanks")])
    assert warned_at(shown(engine, session)) == []


def test_a_result_in_a_block_takes_the_line(open_engine: Callable[..., Engine], session: Session) -> None:
    engine = open_engine()
    blocks = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t", "content": "found " * 10_400}],
    }
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]}
    engine.ingest(session, [user("look"), use, blocks])
    messages = engine.assemble(session, BUDGET, recall=False).messages
    assert messages[-1]["content"][0]["content"].endswith(nearly_full_line("msg_3"))


def test_in_a_small_room_no_line_takes_what_it_warns_of(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine()
    engine.ingest(session, [user("look"), *steps(0, 3)])
    assert warned_at(shown(engine, session, 3_000)) == []


def test_a_host_that_hands_the_warned_list_back_stores_nothing_twice(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine()
    said = [user("look through all of it"), *steps(0, 11)]
    engine.ingest(session, said)
    kept = shown(engine, session)
    assert warned_at(kept) == [22]
    engine.ingest(session, [*kept, assistant("found all"), user("thanks")], "sync")
    assert engine.messages(session) == [*said, assistant("found all"), user("thanks")]
