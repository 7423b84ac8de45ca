"""Where a list can be read in two ways, a user's message is never taken for an old one."""

from __future__ import annotations

from typing import Any

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores_under_ci


def run(request: str, call_id: str = "exec:0") -> list[Message]:
    return [user(request), call(call_id), result(call_id, "ok"), assistant("ok")]


def stored(engine: Engine, session: Session) -> list[Any]:
    return [message["content"] for message in engine.messages(session) if message["role"] == "user"]


def test_a_new_request_that_is_worked_off_just_like_the_old_one_is_new(
    engine: Engine, session: Session
) -> None:
    """The host dropped the old turn's tool rows, and a model's call ids begin anew each turn."""
    first, second = run("how full is the disk?"), run("and how full is it now?")
    engine.ingest(session, first, "sync")
    assert engine.ingest(session, [first[0], first[-1], *second], "sync").stored == 4
    assert engine.messages(session) == [*first, *second]


def test_many_recurring_calls_do_not_outweigh_the_one_turn_that_the_host_kept(
    engine: Engine, session: Session
) -> None:
    long_run = [message for _ in range(4) for message in run("go on")[1:3]]
    first = [user("how full is the disk?"), *long_run, assistant("full")]
    second = [user("and how full is the other one?"), assistant("yes")]
    third = [user("then look at the third disk"), *long_run, assistant("ok")]
    for turn in (first, second):
        engine.ingest(session, turn)
    assert engine.ingest(session, [*second, *third], "sync").stored == len(third)
    assert engine.messages(session) == [*first, *second, *third]


def test_a_new_request_at_the_head_of_a_fresh_list_is_new(engine: Engine, session: Session) -> None:
    engine.ingest(session, run("how full is the disk?"), "sync")
    engine.ingest(session, run("and how full is it now?"), "sync")
    assert stored(engine, session) == ["how full is the disk?", "and how full is it now?"]


@pytest.mark.parametrize(
    "note",
    [
        user("Summary of the conversation so far: the user asked about the disk."),
        user("[Relevant memories: the disk is small]"),
    ],
)
def test_what_a_host_puts_before_its_tail_makes_the_tail_no_new_one(
    engine: Engine, session: Session, note: Message
) -> None:
    messages = [*run("how full is the disk?"), *run("and how full is the other one?")]
    engine.ingest(session, messages, "sync")
    engine.ingest(session, [note, *messages[4:], user("thanks")], "sync")
    assert stored(engine, session)[-1] == "thanks"
    assert len(engine.messages(session)) == 9


def test_a_note_put_before_a_stored_call_repeats_nothing(engine: Engine, session: Session) -> None:
    messages = run("how full is the disk?")
    engine.ingest(session, messages[:3], "sync")
    noted = [messages[0], user("<memory>the disk is small</memory>"), *messages[1:]]
    assert engine.ingest(session, noted, "sync").stored == 1
    assert engine.messages(session) == messages


def test_a_rewritten_request_with_unmistakable_calls_behind_it_is_an_old_one(
    engine: Engine, session: Session
) -> None:
    messages = [user("hello"), assistant("hi"), *run("how full is the disk?", "call_a8f2c09d71")]
    engine.ingest(session, messages, "sync")
    rewritten = [*messages[:2], user("(the user asked for disk space)"), *messages[3:]]
    assert engine.ingest(session, rewritten, "sync").stored == 0


def test_calls_that_our_context_numbered_come_back_as_what_they_were(
    engine: Engine, session: Session
) -> None:
    """A context holds every call id once, so the second ``exec:0`` is shown under another name."""
    messages = [*run("how full is the disk?"), *run("and how full is it now?"), user("and tomorrow?")]
    engine.ingest(session, messages[:-1], "sync")
    engine.ingest(session, messages[-1:], "append")
    shown = engine.assemble(session, 10_000).messages
    assert "exec:0-2" in str(shown)
    assert engine.ingest(session, [*shown, assistant("perhaps")], "sync").stored == 1
    assert engine.messages(session) == [*messages, assistant("perhaps")]


def test_a_decorated_message_is_known_though_its_words_are_said_again(
    engine: Engine, session: Session
) -> None:
    first = [*run("how full is the disk?"), *run("go on")[:-1], assistant("It is at 91 %, with logs on top.")]
    engine.ingest(session, first, "sync")
    decorated = user("go on\n\n[Your active task list:\n- step 3]")
    second = [*run("go on")[:-1], assistant("Now I have removed the oldest logs.")]
    assert engine.ingest(session, [decorated, first[-1], *second], "sync").stored == 4
    assert engine.messages(session) == [*first, *second]


@pytest.mark.parametrize(
    "theirs",
    [
        ["ask one", "ask two", "ask three", "ask four", "to one", "to three", "to two", "to four"],
        ["ask one", "ask two", "ask four", "ask three", "to one", "to three", "to two", "to four"],
    ],
)
def test_turns_that_go_on_at_the_same_time_and_that_the_host_has_in_another_order_are_the_same(
    engine: Engine, session: Session, theirs: list[str]
) -> None:
    def talk(texts: list[str]) -> list[Message]:
        return [user(f"{text} of the disks") if text.startswith("ask") else assistant(text) for text in texts]

    ours = ["ask one", "ask two", "to one", "ask three", "ask four", "to three", "to two", "to four"]
    begun, new = [user("hello"), assistant("hello, what is it?")], user("and now?")
    engine.ingest(session, [*begun, *talk(ours)])
    assert engine.ingest(session, [*begun, *talk(theirs), new], "sync").stored == 1
    assert engine.messages(session) == [*begun, *talk(ours), new]
