"""The host's whole list says what the talk is: what it took back is gone, what it brings back stands again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores_under_ci

Open = Callable[..., Engine]

HOTEL = [
    user("I need a hotel room."),
    assistant("In which town?"),
    user("Book Bristol, 3 nights."),
    assistant("Booked: Bristol, 3 nights."),
]


def shown(engine: Engine, session: Session) -> list[object]:
    """What stands, in order; a model's context ends before the last reply."""
    rows = engine.record.newest(session, 1_000)
    standing = [engine.record.whole(row) for row in rows if not row.head.hidden]
    context = engine.assemble(session, 100_000).messages
    if not any("<summary" in str(message["content"]) for message in context):
        assert context == standing or context == standing[:-1]
        return texts(standing)
    return texts(context)


def texts(messages: list[Message]) -> list[object]:
    return [message["content"] for message in messages]


def long_talk(turns: int) -> list[Message]:
    return [
        message
        for number in range(turns)
        for message in (
            user(f"Question number {number} of a long day at the harbour"),
            assistant(f"Answer number {number}, in full words and at some length"),
        )
    ]


def test_the_last_exchange_is_taken_back(engine: Engine, session: Session) -> None:
    engine.ingest(session, HOTEL, "sync")
    now = [*HOTEL[:2], user("Grand, 2 nights.")]
    report = engine.ingest(session, now, "sync")
    assert (report.stored, report.withdrawn) == (1, 2)
    assert shown(engine, session) == texts(now)
    assert texts(engine.messages(session)) == [*texts(HOTEL), "Grand, 2 nights."]
    assert engine.check().findings == ()


def test_what_was_taken_back_comes_back_once(engine: Engine, session: Session) -> None:
    engine.ingest(session, HOTEL, "sync")
    engine.ingest(session, [*HOTEL[:2], user("Grand, 2 nights.")], "sync")
    report = engine.ingest(session, [*HOTEL, user("And breakfast.")], "sync")
    assert (report.stored, report.withdrawn, report.brought_back) == (1, 1, 2)
    assert shown(engine, session) == [*texts(HOTEL), "And breakfast."]
    assert len(engine.messages(session)) == 6


def test_a_list_that_only_brings_back_is_followed(engine: Engine, session: Session) -> None:
    engine.ingest(session, HOTEL, "sync")
    engine.ingest(session, [*HOTEL[:2], user("Grand, 2 nights."), assistant("Booked.")], "sync")
    engine.ingest(session, HOTEL, "sync")
    assert shown(engine, session) == texts(HOTEL)


def test_branches_can_be_changed_back_and_forth(engine: Engine, session: Session) -> None:
    one = [*HOTEL[:2], user("Grand, 2 nights."), assistant("Booked: Grand, 2 nights.")]
    for number, listing in enumerate((HOTEL, one, HOTEL, one, HOTEL)):
        engine.ingest(session, [*listing, user(f"More {number}.")], "sync")
        assert shown(engine, session) == [*texts(listing), f"More {number}."]
    assert len(engine.messages(session)) == len({str(message) for message in engine.messages(session)})


@pytest.mark.parametrize("at", [0, 2])
def test_an_edited_message_withdraws_the_old_version(engine: Engine, session: Session, at: int) -> None:
    engine.ingest(session, HOTEL, "sync")
    edited = [*HOTEL[:at], user("Something else altogether.")]
    engine.ingest(session, edited, "sync")
    assert shown(engine, session) == texts(edited)
    engine.ingest(session, [*edited, assistant("As you like.")], "sync")
    assert shown(engine, session) == [*texts(edited), "As you like."]


def test_an_answer_made_again_withdraws_the_one_before(engine: Engine, session: Session) -> None:
    engine.ingest(session, HOTEL, "sync")
    for index in (3, 1):
        again = [*HOTEL[:index], assistant(f"Another answer at {index}.")]
        engine.ingest(session, again, "sync")
        assert shown(engine, session) == texts(again)
    assert len(engine.messages(session)) == 6


def test_clear_chat_takes_back_all(engine: Engine, session: Session) -> None:
    engine.ingest(session, HOTEL, "sync")
    engine.ingest(session, [], "sync")
    assert shown(engine, session) == texts(HOTEL)
    engine.ingest(session, [user("What is the weather?")], "sync")
    assert shown(engine, session) == ["What is the weather?"]
    engine.ingest(session, [user("What is the weather?"), assistant("Fine.")], "sync")
    assert shown(engine, session) == ["What is the weather?", "Fine."]
    assert len(engine.messages(session)) == 6


def test_a_host_that_starts_anew_takes_nothing_back(open_engine: Open, session: Session) -> None:
    """Its list is empty because the process is new, or because it is another run; the store remembers."""
    engine = open_engine()
    engine.ingest(session, HOTEL, "sync")
    engine.ingest(Session(session.key, "run-2"), [user("What is the weather?")], "sync")
    assert len(shown(engine, session)) == 5
    open_engine().ingest(session, [user("Hello again.")], "sync")
    assert len(shown(engine, session)) == 6


def test_a_host_that_compacts_its_own_list_takes_nothing_back(engine: Engine, session: Session) -> None:
    talk = long_talk(10)
    engine.ingest(session, talk, "sync")
    account = user("Summary of the conversation so far: ten questions about the harbour.")
    for rest in (talk[-4:], []):
        report = engine.ingest(session, [account, *rest, user(f"Next after {len(rest)}.")], "sync")
        assert report.withdrawn == 0
    assert all(text in shown(engine, session) for text in texts(talk))


@pytest.mark.parametrize("keep", [1, 2, 3, 7])
def test_a_list_that_is_shorter_at_the_front_takes_nothing_back(
    engine: Engine, session: Session, keep: int
) -> None:
    talk = long_talk(10)
    engine.ingest(session, talk, "sync")
    engine.ingest(session, [*talk[-keep:], user("And now?")], "sync")
    assert shown(engine, session) == [*texts(talk), "And now?"]


@pytest.mark.parametrize("end", [1, 2, 5, 18])
def test_a_shorter_list_that_is_whole_takes_the_rest_back(engine: Engine, session: Session, end: int) -> None:
    talk = long_talk(10)
    engine.ingest(session, talk, "sync")
    report = engine.ingest(session, talk[:end], "whole")
    assert (report.stored, report.withdrawn) == (0, 20 - end)
    assert shown(engine, session) == texts(talk[:end])
    on = [*talk[:end], user("On from here, with something new.")]
    assert engine.ingest(session, on, "sync").stored == 1
    assert shown(engine, session) == texts(on)
    assert engine.ingest(session, talk, "whole").brought_back == 20 - end
    assert shown(engine, session) == texts(talk)
    assert len(engine.messages(session)) == 21
    assert engine.check().findings == ()


@pytest.mark.parametrize("end", [2, 5, 19])
def test_a_stale_list_takes_nothing_back(engine: Engine, session: Session, end: int) -> None:
    talk = long_talk(10)
    engine.ingest(session, talk, "sync")
    report = engine.ingest(session, talk[:end], "sync")
    assert (report.stored, report.withdrawn) == (0, 0)
    assert shown(engine, session) == texts(talk)


@pytest.mark.long
def test_a_long_way_back(engine: Engine, session: Session) -> None:
    talk = long_talk(300)
    engine.ingest(session, talk, "sync")
    back = [*talk[:6], user("A question that nobody asked before")]
    report = engine.ingest(session, back, "sync")
    assert (report.stored, report.withdrawn) == (1, 594)
    assert shown(engine, session) == texts(back)
    engine.ingest(session, [*back, assistant("An answer that is new as well")], "sync")
    assert engine.ingest(session, [*talk, user("On from the end")], "sync").stored == 1
    assert shown(engine, session)[-3:] == [*texts(talk[-2:]), "On from the end"]
    assert len(engine.messages(session)) == 603


def test_withdrawn_words_do_not_come_back_in_a_summary(open_engine: Open, session: Session) -> None:
    engine = open_engine(fresh_tail_count=2, leaf_chunk_tokens=200, leaf_target_tokens=60, leaf_min_fanout=2)
    talk = [user("The harbour talk begins."), assistant("It does, with many words to come."), *long_talk(2)]
    engine.ingest(
        session, [*talk, user("The password is swordfish."), assistant("Noted: swordfish.")], "sync"
    )
    for number in range(8):
        talk += [user(f"Later question {number}. " + "Words. " * 30), assistant(f"Later answer {number}.")]
        engine.ingest(session, talk, "sync")
        engine.compact(session, force=True, budget=600)
    assert any(item.kind == "summary" for item in engine.context_items(session))
    assert "swordfish" not in str(shown(engine, session))
    assert engine.check().findings == ()


def test_two_questions_at_the_same_time_withdraw_nothing_of_each_other(
    engine: Engine, session: Session
) -> None:
    one = [*HOTEL, user("Question A?")]
    two = [*HOTEL, user("Question B?")]
    for listing in (one, two):
        engine.ingest(session, listing, "sync")
    one += [call("call_for_run_a_1", text=None), result("call_for_run_a_1", "A's result")]
    two += [call("call_for_run_b_1", text=None), result("call_for_run_b_1", "B's result")]
    for listing in (one, two, one, two):
        engine.ingest(session, listing, "sync")
    one += [assistant("Answer A.")]
    two += [assistant("Answer B.")]
    for listing in (two, one, two, one):
        engine.ingest(session, listing, "sync")
    assert len(engine.messages(session)) == 12
    contents = [
        engine.record.whole(row)["content"]
        for row in engine.record.newest(session, 20)
        if not row.head.hidden
    ]
    assert all(text in contents for text in ("Question A?", "Question B?", "Answer A.", "Answer B."))


@pytest.mark.parametrize("keep", [2, 3, 4, 5, 6])
def test_short_words_in_a_list_that_the_host_shortens_are_all_stored(
    engine: Engine, session: Session, keep: int
) -> None:
    said: list[Message] = []
    for _ in range(20):
        for message in (user("yes"), assistant("ok")):
            said.append(message)
            engine.ingest(session, said[-keep:], "sync")
    assert len(engine.messages(session)) == 40
    assert shown(engine, session) == texts(said)


@pytest.mark.parametrize("answers_too", [True, False])
def test_many_short_words_in_a_list_that_the_host_shortens(
    engine: Engine, session: Session, answers_too: bool
) -> None:
    words = ["yes", "ok", "go on", "yes", "no", "ok", "ok", "yes", "no", "no", "go on", "ok"]
    said: list[Message] = []
    for number in range(40):
        said.append(user(words[(number * 7) % 12]))
        engine.ingest(session, said[-6:], "sync")
        said.append(assistant(words[(number * 5) % 12]))
        if answers_too:
            engine.ingest(session, said[-6:], "sync")
    engine.ingest(session, said[-6:], "sync")
    assert len(engine.messages(session)) == 80


@pytest.mark.parametrize(
    "replayed",
    [
        [user("yes"), assistant("ok"), user("no")],
        [assistant("ok")],
        [assistant("ok"), user("no"), assistant("fine")],
    ],
)
def test_a_short_list_after_a_reset_is_a_replay(
    engine: Engine, session: Session, replayed: list[Message]
) -> None:
    before = [user("hi"), assistant("hello"), user("yes"), assistant("ok"), user("no"), assistant("fine")]
    end = next(n for n in range(len(before), 0, -1) if before[n - len(replayed) : n] == replayed)
    engine.ingest(session, before[:end], "sync")
    engine.reset_session(session)
    engine.ingest(session, [*replayed, user("A fresh start")], "sync")
    assert texts(engine.messages(session)) == ["A fresh start"]


def test_first_words_said_again_after_a_reset_are_new(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("hi"), assistant("hello")], "sync")
    engine.reset_session(session)
    engine.ingest(session, [user("hi"), assistant("hello")], "sync")
    assert len(engine.messages(session)) == 2


def test_an_import_and_a_parents_words_are_no_part_of_the_hosts_list(open_engine: Open) -> None:
    engine = open_engine()
    parent, child = Session("agent:main:main", "run-1"), Session("agent:main:subagent:1", "run-1")
    engine.ingest(parent, HOTEL, "sync")
    assert engine.bootstrap_session(child, parent) == 4
    engine.ingest(child, [user("Find the cheapest hotel.")], "sync")
    assert shown(engine, child) == [*texts(HOTEL), "Find the cheapest hotel."]


def test_instructions_that_came_behind_the_talk_keep_a_short_list_from_being_taken_for_a_new_one(
    engine: Engine, session: Session
) -> None:
    """A prompt is stored where it came, behind the talk that it stands before in the list."""
    talk = [
        message
        for number in range(6)
        for message in (user("yes"), assistant(f"Answer number {number}, said once and never again"))
    ]
    engine.ingest(session, talk, "append")
    for version in (0, 1, 1):
        prompt = {"role": "system", "content": f"You are helpful. Version {version}."}
        for kept in (talk, talk[-2:], talk[-2:]):
            assert engine.ingest(session, [prompt, *kept], "sync").withdrawn == 0
    assert engine.messages(session)[: len(talk)] == talk
    assert len(engine.messages(session)) == len(talk) + 2
    # The same delta again, behind a prompt that was stored meanwhile.
    assert engine.ingest(session, talk[-2:], "append").stored == 0


@pytest.mark.parametrize("role", ["system", "developer"])
def test_an_instruction_without_words_is_stored_once(engine: Engine, session: Session, role: str) -> None:
    talk: list[Message] = [user(""), user(""), {"role": role, "content": ""}]
    engine.ingest(session, talk)
    assert engine.ingest(session, talk, "sync").stored == 0
    engine.ingest(session, [*talk, user("Hello, is anybody there?")], "sync")
    assert engine.messages(session) == [*talk, user("Hello, is anybody there?")]
    assert [m["content"] for m in engine.assemble(session, 9_000).messages] == ["Hello, is anybody there?"]
