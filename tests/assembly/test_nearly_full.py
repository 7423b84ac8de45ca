"""The model is warned when what nothing can compact comes near the end of the room, and a person sees it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from effort import examples
from fakes.validity import problems_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.events import Event
from lcm_plugin.messages.markup import is_notice, nearly_full_line
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
    assert messages[-1]["content"][0]["content"].endswith(nearly_full_line("msg_3", ["this turn"]))


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


def test_a_request_that_leaves_little_room_has_a_notice_before_it_for_its_whole_turn(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine()
    engine.ingest(session, [user("hello"), assistant("hi"), user("read this " * 5_200)])
    first = engine.assemble(session, BUDGET, recall=False)
    assert warned_at(first.messages) == [2]
    assert is_notice(first.messages[2]["content"])
    assert "most of all this turn." in first.messages[2]["content"]
    assert first.crowded is not None
    assert first.crowded.turn > 10_000
    engine.ingest(session, steps(0, 1, 100))
    second = engine.assemble(session, BUDGET, recall=False)
    assert second.messages[: len(first.messages)] == first.messages
    assert second.prefix_epoch == first.prefix_epoch
    engine.ingest(session, [assistant("done"), user("thanks")])
    after = engine.assemble(session, BUDGET, recall=False)
    assert warned_at(after.messages) == []
    assert after.crowded is None
    assert after.prefix_epoch != second.prefix_epoch


def test_the_hosts_prompt_and_pins_count_as_what_stays(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine()
    engine.ingest(session, [user("hello")])
    assert warned_at(engine.assemble(session, 40_000, overhead_tokens=33_000).messages) == []
    context = engine.assemble(session, 40_000, overhead_tokens=35_000)
    assert warned_at(context.messages) == [0]
    assert "most of all the system prompt and tools." in context.messages[0]["content"]
    engine.pin(session, "the gate is kept shut " * 350)
    pinned = engine.assemble(session, 40_000, overhead_tokens=33_000)
    assert warned_at(pinned.messages) == [1]
    assert pinned.crowded is not None
    assert pinned.crowded.standing > 1_500


def test_a_prompt_of_the_hosts_that_changes_a_little_moves_no_warning(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine()
    engine.ingest(session, [user("look"), *steps(0, 11)])
    lists = [engine.assemble(session, 16_000, overhead_tokens=4_000 + n).messages for n in range(60)]
    assert len(warned_at(lists[0])) == 1
    assert all(one == lists[0] for one in lists)


def test_a_host_that_hands_the_notice_back_stores_nothing_of_it_and_finds_nothing(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine()
    said = [user("hello"), assistant("hi"), user("read this " * 5_200)]
    engine.ingest(session, said)
    kept = shown(engine, session)
    assert warned_at(kept) == [2]
    engine.ingest(session, [*kept, assistant("read"), user("thanks")], "sync")
    assert engine.messages(session) == [*said, assistant("read"), user("thanks")]
    assert engine.call_tool(session, "lcm_grep", {"pattern": "nearly full"})["hits"] == []


def test_a_person_sees_it_in_an_event_once_a_turn_in_the_status_and_from_the_doctor(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine, seen = open_engine(), list[Event]()
    engine.subscribe(lambda event: seen.append(event) if event.name == "assembly.nearly_full" else None)
    engine.ingest(session, [user("look through all of it")])
    for n in range(13):
        engine.ingest(session, steps(n, n + 1))
        shown(engine, session)
    [event] = seen
    assert event.session_key == session.key
    assert event.fields["budget"] == BUDGET
    assert str(event.fields["parts"]).startswith("this turn 10")
    engine.ingest(session, [assistant("done")])
    status = engine.command(session, "status")
    assert "- nearly full: the newest call's context" in status.text
    assert status.data["session"]["nearly_full"].endswith(" of 12,000 tokens (this turn 10,719)")
    [found] = engine.check(session).findings
    assert found.code == "context_nearly_full"
    assert engine.check(session).ok
    engine.ingest(session, [user("thanks")])
    shown(engine, session, 4 * BUDGET)
    engine.ingest(session, [assistant("welcome")])
    assert "nearly full:" not in engine.command(session, "status").text
    assert engine.check(session).findings == ()
    assert len(seen) == 1


def test_within_a_turn_no_call_moves_what_was_sent_and_the_warning_stays(
    open_engine: Callable[..., Engine],
) -> None:
    engine, numbers = open_engine(), iter(range(1_000_000))

    @settings(
        max_examples=examples(60),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(
        st.lists(st.integers(1, 1_200), min_size=1, max_size=16),
        st.integers(1, 9_000),
        st.integers(4_000, 14_000),
        st.integers(0, 9_000),
    )
    def holds(results: list[int], request: int, budget: int, overhead: int) -> None:
        lane = Session(f"growing-{next(numbers)}")
        engine.ingest(lane, [user("before"), assistant("yes"), user("word " * request)])
        contexts = [engine.assemble(lane, budget, overhead_tokens=overhead, recall=False)]
        for n, words in enumerate(results):
            engine.ingest(lane, steps(n, n + 1, words))
            contexts.append(engine.assemble(lane, budget, overhead_tokens=overhead, recall=False))
        for before, after in pairwise(contexts):
            assert after.over_budget or after.tokens <= max(0, budget - overhead)
            assert problems_of(after.messages) == []
            assert len(warned_at(after.messages)) == (after.crowded is not None)
            if before.prefix_epoch == after.prefix_epoch:
                assert after.messages[: len(before.messages)] == before.messages
                if before.crowded is not None:
                    assert warned_at(after.messages) == warned_at(before.messages)

    holds()
