"""``/new``: what it keeps and drops by retain depth, that it can be undone, and what comes after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fakes.validity import problems_of
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.errors import InputError
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores

SMALL = {
    "fresh_tail_count": 2,
    "leaf_chunk_tokens": 150,
    "leaf_target_tokens": 40,
    "condensed_target_tokens": 48,
    "leaf_min_fanout": 2,
    "condensed_min_fanout": 2,
    "incremental_max_depth": -1,
}


def talk(turns: int, start: int = 0) -> list[Message]:
    """Turns with words of their own."""
    return [
        message
        for number in range(start, start + turns)
        for message in (
            user(f"Question {number}: how does part {number} of the pump station {number} work, and why?"),
            assistant(f"Part {number} opens valve {number} when the pressure at sensor {number} falls."),
        )
    ]


@pytest.fixture
def deep(open_engine: Callable[..., Engine], session: Session) -> Engine:
    """An engine whose session has raw messages and summaries of several depths."""
    engine = open_engine(**SMALL)
    for start in range(0, 60, 10):
        engine.ingest(session, talk(10, start))
        engine.compact(session, force=True, budget=900)
    engine.ingest(session, talk(2, 60))
    depths = {item.depth for item in engine.context_items(session)}
    assert {-1, 0} < depths
    return engine


@pytest.mark.long
@pytest.mark.parametrize("depth", [-1, 0, 1, 2, 3])
def test_the_retain_depth_is_honoured_exactly(deep: Engine, session: Session, depth: int) -> None:
    before, rows = deep.context_items(session), deep.messages(session)
    preview = deep.preview_new(session, depth)
    pruned = deep.new_session(session, depth)
    after = deep.context_items(session)
    expected = before if depth == -1 else [item for item in before if item.depth >= depth and item.depth >= 0]
    assert preview == pruned
    assert after == expected
    assert pruned.kept_tokens == sum(item.tokens for item in after)
    assert pruned.dropped_tokens == sum(item.tokens for item in before) - pruned.kept_tokens
    assert pruned.kept_summaries + pruned.kept_messages == len(after)
    assert pruned.dropped_summaries + pruned.dropped_messages == len(before) - len(after)
    assert deep.messages(session) == rows


def test_the_default_depth_is_the_setting(open_engine: Callable[..., Engine], session: Session) -> None:
    engine = open_engine(new_session_retain_depth=-1)
    engine.ingest(session, talk(2))
    assert engine.new_session(session).kept_messages == 4


@pytest.mark.long
def test_what_is_kept_is_history_and_not_a_users_words(deep: Engine, session: Session) -> None:
    deep.new_session(session, 0)
    deep.ingest(session, [user("something new")])
    context = deep.assemble(session, 8_000).messages
    assert context[-1] == user("something new")
    assert all("<summary" in message["content"] for message in context[:-1])


@pytest.mark.long
def test_undo_brings_everything_back_in_place(deep: Engine, session: Session) -> None:
    before = deep.context_items(session)
    pruned = deep.new_session(session, 1)
    deep.ingest(session, [user("in between"), assistant("yes")])
    assert deep.undo_new(session) == pruned.dropped_messages + pruned.dropped_summaries
    after = deep.context_items(session)
    assert after[: len(before)] == before
    assert len(after) == len(before) + 2
    assert deep.undo_new(session) == 0


def test_stacked_news_are_undone_one_by_one(engine: Engine, session: Session) -> None:
    for number in range(4):
        engine.ingest(session, talk(1, number))
        engine.new_session(session, 0)
    for number in range(4):
        assert engine.undo_new(session) == 2
        assert len(engine.context_items(session)) == 2 * (number + 1)
    assert engine.undo_new(session) == 0
    assert [item.id for item in engine.context_items(session)] == [f"msg_{n}" for n in range(1, 9)]


def test_a_compaction_in_between_makes_undo_too_late(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(session, talk(4))
    engine.new_session(session, 0)
    engine.ingest(session, talk(12, 4))
    assert engine.compact(session, force=True).compacted
    assert engine.undo_new(session) == 0


def test_undo_is_too_late_after_a_reset(engine: Engine, session: Session) -> None:
    engine.ingest(session, talk(2))
    engine.new_session(session, 0)
    engine.reset_session(session)
    assert engine.undo_new(session) == 0
    assert engine.context_items(session) == []


def test_rapid_news_with_first_words_only_keep_the_lane_alive(engine: Engine, session: Session) -> None:
    """G6, as deltas and as whole lists that begin anew each time."""
    lists = Session("agent:main:lists", "run-1")
    for _ in range(3):
        for lane, mode in ((session, "append"), (lists, "sync")):
            engine.new_session(lane, 0)
            assert engine.ingest(lane, [user("ping")], mode).stored == 1
            assert len(engine.context_items(lane)) == 1
    assert engine.messages(session) == engine.messages(lists) == [user("ping")] * 3


def test_small_talk_repeated_after_new_is_stored_again(engine: Engine, session: Session) -> None:
    first = [user("ping"), assistant("pong")]
    engine.ingest(session, first, "sync")
    engine.new_session(session, 0)
    engine.ingest(session, [user("ping")], "sync")
    engine.ingest(session, first, "sync")
    assert engine.messages(session) == first * 2


@pytest.mark.parametrize("kept", [1, 3, 6])
def test_a_host_that_keeps_its_list_after_new_stores_nothing_twice(
    engine: Engine, session: Session, kept: int
) -> None:
    history = talk(3)
    engine.ingest(session, history, "sync")
    engine.new_session(session, 0)
    again = [*history[-2 * kept :], *talk(1, 9)]
    assert engine.ingest(session, again, "sync").stored == 2
    assert engine.messages(session) == [*history, *talk(1, 9)]
    assert len(engine.context_items(session)) == 2


def test_a_list_that_begins_anew_grows_turn_by_turn(engine: Engine, session: Session) -> None:
    prompt: Message = {"role": "system", "content": "You are helpful."}
    engine.ingest(session, [prompt, *talk(3)], "sync")
    engine.new_session(session, 0)
    for turns in range(1, 5):
        assert engine.ingest(session, [prompt, *talk(turns)], "sync").stored == 2
    assert engine.messages(session) == [prompt, *talk(3), *talk(4)]


def test_calls_and_results_split_by_a_new_stay_valid(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("look"), call("c1")])
    engine.new_session(session, 0)
    engine.ingest(session, [result("c1", "found"), assistant("done"), user("and now?")])
    context = engine.assemble(session, 8_000).messages
    assert context[-1] == user("and now?")
    assert problems_of(context) == []


def test_a_session_without_a_conversation_keeps_and_drops_nothing(engine: Engine) -> None:
    nobody = Session("agent:main:nobody")
    assert engine.new_session(nobody).dropped_messages == 0
    assert engine.undo_new(nobody) == 0
    assert engine.library.status().conversations == 0


@pytest.mark.parametrize(
    ("depth", "why"),
    [(-2, r"-1 \(keep all\) or more"), (True, "a whole number, or None, not True"), (1.5, "not 1.5")],
)
def test_an_impossible_depth_is_refused(engine: Engine, session: Session, depth: int, why: str) -> None:
    with pytest.raises(InputError, match=why):
        engine.new_session(session, depth)
