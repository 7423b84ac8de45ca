"""Section A of the fault catalogue: stored at once, once, whatever a host does with its list."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.errors import InputError

pytestmark = pytest.mark.both_stores_under_ci

Open = Callable[..., Engine]


def texts(engine: Engine, session: Session) -> list[object]:
    return [message.get("content") for message in engine.messages(session)]


def turn(number: int) -> list[dict]:
    return [
        user(f"question {number}"),
        call(f"call_{number}", text=None),
        result(f"call_{number}", f"found {number}"),
        assistant(f"answer {number}"),
    ]


def history(turns: int) -> list[dict]:
    return [message for number in range(turns) for message in turn(number)]


@pytest.mark.parametrize("mode", ["append", "sync"])
def test_what_comes_in_comes_back(engine: Engine, session: Session, mode: str) -> None:
    messages = history(3)
    assert engine.ingest(session, messages, mode).stored == 12
    assert json.dumps(engine.messages(session)) == json.dumps(messages)


def test_a1_a_replayed_history_adds_only_what_is_new(open_engine: Open, session: Session) -> None:
    messages = [user(f"m{n}") for n in range(10)]
    open_engine().ingest(session, messages, "sync")
    second = open_engine()
    report = second.ingest(session, [*messages, user("m10")], "sync")
    assert (report.stored, report.skipped) == (1, 10)
    assert texts(second, session) == [f"m{n}" for n in range(11)]


def test_a2_a_replay_with_host_ids_adds_nothing_even_with_other_times(
    engine: Engine, session: Session
) -> None:
    first = [
        user("hello", id="h1", timestamp=1_700_000_000),
        assistant("hi", id="h2", timestamp=1_700_000_001),
    ]
    again = [{**message, "timestamp": message["timestamp"] + 999} for message in first]
    engine.ingest(session, first, "sync")
    assert engine.ingest(session, again, "sync").stored == 0
    assert engine.ingest(session, again, "append").stored == 0


def test_a2_a_replay_of_an_archived_conversation_stays_out(engine: Engine, session: Session) -> None:
    old = history(3)
    engine.ingest(session, old, "sync")
    engine.reset_session(session)
    engine.ingest(session, [*old, user("after the reset")], "sync")
    assert texts(engine, session) == ["after the reset"]


def test_a3_honest_repeats_are_all_stored(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("hello"), user("first")], "sync")
    engine.ingest(session, [user("hello"), user("first"), user("hello"), user("second")], "sync")
    assert texts(engine, session) == ["hello", "first", "hello", "second"]


def test_the_same_word_said_twice_in_deltas_is_stored_twice(engine: Engine, session: Session) -> None:
    for _ in range(3):
        engine.ingest(session, [user("ok")])
        engine.ingest(session, [assistant("ok")])
    assert texts(engine, session) == ["ok"] * 6


@pytest.mark.parametrize("mode", ["append", "sync"])
def test_a4_many_equal_tool_results_in_a_second_are_all_stored(
    engine: Engine, session: Session, mode: str
) -> None:
    status = json.dumps({"status": "ok"})
    messages = [result(f"id_{n}", status) for n in range(20)]
    assert engine.ingest(session, messages, mode).stored == 20


@pytest.mark.parametrize("mode", ["append", "sync"])
def test_a5_standing_control_rows_do_not_hide_a_new_question(
    engine: Engine, session: Session, mode: str
) -> None:
    for _ in range(50):
        engine.ingest(session, [user("[poll]")])
    engine.ingest(session, [user("[poll]"), user("new question")], mode)
    assert texts(engine, session)[-1] == "new question"


@pytest.mark.parametrize("mode", ["append", "sync"])
def test_a6_a_turn_handed_over_twice_is_stored_once(engine: Engine, session: Session, mode: str) -> None:
    messages = [user("what is the status?"), call("c1"), result("c1", "green")]
    engine.ingest(session, messages, mode)
    assert engine.ingest(session, json.loads(json.dumps(messages)), mode).stored == 0


def test_a_user_message_handed_over_again_with_its_answer_is_stored_once(
    engine: Engine, session: Session
) -> None:
    engine.ingest(session, [user("what is the status?")])
    engine.ingest(session, [user("what is the status?"), assistant("green")])
    assert texts(engine, session) == ["what is the status?", "green"]


def test_a7_a_note_appended_to_an_old_message_makes_it_no_new_one(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("do x")], "sync")
    for version in range(3):
        decorated = user(f"do x\n\n[Your active task list\n- step {version}]")
        assert engine.ingest(session, [decorated], "sync").stored == 0
    assert texts(engine, session) == ["do x"]


def test_a_longer_user_message_that_begins_like_an_old_one_is_new(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("ok")], "sync")
    engine.ingest(session, [user("ok"), user("ok, now deploy")], "sync")
    assert texts(engine, session) == ["ok", "ok, now deploy"]


def test_a8_a_rebuilt_system_prompt_adds_at_most_itself(engine: Engine, session: Session) -> None:
    rest = history(7)
    engine.ingest(session, [{"role": "system", "content": "model a"}, *rest], "sync")
    report = engine.ingest(session, [{"role": "system", "content": "model b"}, *rest], "sync")
    assert report.stored <= 1


def test_a9_rows_that_the_host_dropped_do_not_break_the_alignment(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("u"), call("c"), result("c", "t"), assistant("a")], "sync")
    engine.ingest(session, [user("u"), assistant("a"), user("u2")], "sync")
    assert texts(engine, session) == ["u", None, "t", "a", "u2"]


def test_a10_a_note_that_vanished_does_not_break_the_alignment(engine: Engine, session: Session) -> None:
    messages = history(2)
    engine.ingest(session, [*messages, user("model was just switched")], "sync")
    assert engine.ingest(session, [*messages, user("u2")], "sync").stored == 1
    assert texts(engine, session)[-1] == "u2"


def test_a11_a_result_with_a_wrapped_note_is_the_same_result(engine: Engine, session: Session) -> None:
    head = history(2)
    noted = result("c9", "out\n<mid-turn>stop when done</mid-turn>")
    engine.ingest(session, [*head, user("go"), call("c9"), noted], "sync")
    again = [*head, user("go"), call("c9"), result("c9", "out"), assistant("done")]
    assert engine.ingest(session, again, "sync").stored == 1


@pytest.mark.parametrize("mode", ["append", "sync"])
def test_a12_tool_ids_that_recur_lose_no_result(engine: Engine, session: Session, mode: str) -> None:
    messages = [call("exec:1"), result("exec:1", "a"), call("exec:1"), result("exec:1", "b")]
    if mode == "append":
        for start in (0, 2):
            engine.ingest(session, messages[start : start + 2])
    else:
        engine.ingest(session, messages[:2], "sync")
        engine.ingest(session, messages, "sync")
    assert texts(engine, session) == [None, "a", None, "b"]


def test_polling_with_a_recurring_id_and_the_same_answer_is_stored_each_time(
    engine: Engine, session: Session
) -> None:
    for _ in range(4):
        engine.ingest(session, [call("exec:1"), result("exec:1", "still running")])
    assert len(engine.messages(session)) == 8


def test_a13_the_same_words_from_two_people_are_two_messages(engine: Engine, session: Session) -> None:
    words = "approve the release plan"
    messages = [user(words, name="ada"), user(words, name="grace")]
    engine.ingest(session, messages, "sync")
    assert engine.messages(session) == messages


def test_a15_our_summaries_in_a_hosts_list_are_not_messages(open_engine: Open, session: Session) -> None:
    engine = open_engine(fresh_tail_count=4, leaf_chunk_tokens=400, leaf_target_tokens=100)
    engine.ingest(session, [user(f"message {n} " + "word " * 40) for n in range(40)], "sync")
    assert engine.compact(session, force=True).compacted
    context = engine.assemble(session, 8_000).messages
    assert any("<summary" in str(message["content"]) for message in context)
    assert engine.ingest(session, [*context, user("next")], "sync").stored == 1
    assert len(engine.messages(session)) == 41


def test_a16_a_delivery_mirror_of_a_reasoned_reply_is_stored_once(engine: Engine, session: Session) -> None:
    reply = assistant("The answer is 4.", reasoning_content="2 + 2")
    engine.ingest(session, [user("2+2?"), reply, assistant("The answer is 4.", model="mirror")])
    assert engine.messages(session) == [user("2+2?"), reply]


def test_a20_an_aborted_reply_is_stored_and_never_assembled(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("go"), assistant("", stop_reason="error"), user("again")])
    assert len(engine.messages(session)) == 3
    assert [m["content"] for m in engine.assemble(session, 8_000).messages] == ["go", "again"]


@pytest.mark.parametrize(
    "poison", ["a\ud83d", "a\x00b", "\udfff\x00", "<|endoftext|>", "\u202eabc", "\x1b[31m"]
)
def test_a21_a22_poisoned_text_is_stored_and_comes_back(
    engine: Engine, session: Session, poison: str
) -> None:
    messages = [user(poison), result("t", poison), user("after")]
    engine.ingest(session, messages)
    assert engine.messages(session) == messages
    assert engine.assemble(session, 8_000).messages


def test_a23_list_content_is_stored_and_assembled(engine: Engine, session: Session) -> None:
    content = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://x.test/i.png"}},
    ]
    engine.ingest(session, [user(content)])
    assert engine.messages(session) == [user(content)]
    assert engine.assemble(session, 8_000).messages == [user(content)]


def test_a24_the_redacted_copy_of_a_message_with_the_same_id_is_the_same(
    engine: Engine, session: Session
) -> None:
    engine.ingest(session, [user("q"), assistant("key sk-123456", id="resp_1")], "sync")
    assert engine.ingest(session, [user("q"), assistant("key [REDACTED]", id="resp_1")], "sync").stored == 0


def test_a25_text_that_quotes_our_marks_is_ordinary_text(engine: Engine, session: Session) -> None:
    quotes = [
        'what does "[LCM Tool Output: file_x" mean?',
        'it said <summary id="sum_0123456789abcdef" depth="0">, why?',
        "[LCM cut msg_1: 5 of 9 tokens left out here; read all with lcm_describe]",
    ]
    for _ in range(2):
        engine.ingest(session, [user(quote) for quote in quotes])
    assert texts(engine, session) == [*quotes, *quotes]


def test_a26_a_stale_list_adds_nothing(engine: Engine, session: Session) -> None:
    full = history(10)
    engine.ingest(session, full, "sync")
    for end in (len(full) - 1, len(full) // 2, 4):
        assert engine.ingest(session, full[:end], "sync").stored == 0
    assert len(engine.messages(session)) == len(full)


def test_an_id_of_the_host_decides_over_equal_words(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("ok", id=1), user("ok", id=2)], "sync")
    engine.ingest(session, [user("ok", id=1), user("ok", id=2), user("ok", id=3)], "sync")
    assert [message["id"] for message in engine.messages(session)] == [1, 2, 3]


def test_two_threads_that_hand_over_the_same_list_store_it_once(engine: Engine, session: Session) -> None:
    messages = history(20)
    start = threading.Barrier(4)

    def hand_over() -> None:
        start.wait()
        engine.ingest(session, messages, "sync")

    threads = [threading.Thread(target=hand_over) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert engine.messages(session) == messages


def test_two_engines_on_one_file_follow_each_other(open_engine: Open, session: Session) -> None:
    one, two = open_engine(), open_engine()
    messages = history(6)
    for number in range(1, 7):
        (one if number % 2 else two).ingest(session, messages[: number * 4], "sync")
    assert two.messages(session) == messages


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"content": "x"}, "message 1: a message needs a role"),
        ("text", "message 1: a message must be a dict"),
    ],
)
def test_what_is_no_message_is_named_and_nothing_is_stored(
    engine: Engine, session: Session, bad: object, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        engine.ingest(session, [user("fine"), bad])
    assert engine.messages(session) == []


def test_an_unknown_mode_is_named(engine: Engine, session: Session) -> None:
    with pytest.raises(InputError, match="append, sync, whole, state, part, all"):
        engine.ingest(session, [user("x")], "merge")


@pytest.mark.parametrize("length", [2, 4, 50, 300])
def test_a_list_that_is_stale_by_far_adds_nothing(engine: Engine, session: Session, length: int) -> None:
    """It shares nothing with the newest rows, and only an index over all of them knows it."""
    full = [
        message
        for number in range(200)
        for message in (
            user(f"question number {number} of the day"),
            assistant(f"answer {number}, in full words and at some length"),
        )
    ]
    engine.ingest(session, full, "sync")
    assert engine.ingest(session, full[:length], "sync").stored == 0
    resumed = [*full[:length], user("a question that nobody asked before")]
    assert engine.ingest(session, resumed, "sync").stored == 1


def test_an_old_question_asked_again_in_a_fresh_list_is_new(engine: Engine, session: Session) -> None:
    full = [
        message
        for number in range(100)
        for message in (
            user(f"question number {number} of the day"),
            assistant(f"answer {number}, in full words and at some length"),
        )
    ]
    engine.ingest(session, full, "sync")
    assert engine.ingest(session, [full[0]], "sync").stored == 1
    assert engine.ingest(session, [full[0], assistant("this time another answer")], "sync").stored == 1
