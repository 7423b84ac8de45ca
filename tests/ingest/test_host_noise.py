"""Host notes and control messages: named by settings, and never any real work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.ingest.host_noise import StandingTexts
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores_under_ci

POLL = "[heartbeat poll]"
CONTROLS = {"control_message_patterns": [r"\[heartbeat poll\]", r"tick \d+"]}
NOTES = {"host_note_patterns": [r"(?s)\[Your active task list.*?\]", r"<runtime>.*</runtime>"]}


def shown(engine: Engine, session: Session) -> list[Any]:
    return [message["content"] for message in engine.assemble(session, 32_000).messages]


@pytest.mark.parametrize("settings", [{}, CONTROLS])
def test_a_new_question_behind_fifty_polls_is_stored(
    open_engine: Callable[..., Engine], session: Session, settings: dict[str, Any]
) -> None:
    """A5."""
    engine = open_engine(**settings)
    for _ in range(50):
        engine.ingest(session, [user(POLL)])
    engine.ingest(session, [user(POLL), user("new question")])
    assert len(engine.messages(session)) == 52
    assert engine.messages(session)[-1] == user("new question")
    assert "new question" in str(shown(engine, session))


def test_polls_about_which_nothing_was_done_leave_the_context_and_stay_stored(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(**CONTROLS)
    engine.ingest(session, [user("hello"), assistant("hi")])
    engine.ingest(session, [user(POLL) for _ in range(30)])
    engine.ingest(session, [user("tick 7"), assistant("HEARTBEAT_OK"), user("what now?")])
    assert shown(engine, session) == ["hello", "hi", "what now?"]
    assert len(engine.messages(session)) == 35


def test_the_newest_poll_stays_until_something_follows(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(**CONTROLS)
    engine.ingest(session, [user("hello"), assistant("hi"), user(POLL)])
    assert shown(engine, session)[-1] == POLL
    engine.ingest(session, [assistant("I looked after the mail meanwhile."), user("thanks")])
    assert shown(engine, session)[-3:] == [POLL, "I looked after the mail meanwhile.", "thanks"]


def test_work_done_for_a_poll_stays(open_engine: Callable[..., Engine], session: Session) -> None:
    """A19."""
    engine = open_engine(prune_heartbeat_ok=True, **CONTROLS)
    work = [user(POLL), call("c1"), result("c1", "3 new mails"), assistant("HEARTBEAT_OK")]
    engine.ingest(session, [*work, user("thanks")])
    assert engine.assemble(session, 32_000).messages == [*work, user("thanks")]


def test_a_text_that_only_mentions_a_poll_or_a_token_is_real(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(prune_heartbeat_ok=True, **CONTROLS)
    talk = [
        user("What does [heartbeat poll] mean?"),
        assistant("The host asks; HEARTBEAT_OK says that there is nothing."),
        user("and tick 7?"),
        assistant("The same."),
        user("ok"),
    ]
    engine.ingest(session, talk)
    assert engine.assemble(session, 32_000).messages == talk


def test_a_message_of_nothing_but_notes_is_not_stored(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    """L8."""
    engine = open_engine(**NOTES)
    note = user("<runtime>queue=3 secret=7</runtime>")
    blocks = user([{"type": "text", "text": "<runtime>again</runtime>"}])
    report = engine.ingest(session, [note, blocks, user("real"), assistant("<runtime>mine</runtime>")])
    assert (report.stored, report.skipped) == (2, 2)
    assert engine.messages(session) == [user("real"), assistant("<runtime>mine</runtime>")]
    assert engine.ingest(session, [note]).reason == "only host notes were handed over"


def test_a_tool_result_is_never_a_note(open_engine: Callable[..., Engine], session: Session) -> None:
    engine = open_engine(**NOTES)
    turn = [user("look"), call("c1"), result("c1", "<runtime>x</runtime>"), assistant("done")]
    engine.ingest(session, turn)
    assert engine.messages(session) == turn


def test_the_same_message_with_another_note_is_not_stored_again(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    """A7, for a note in the middle of the text too; the first version is kept."""
    engine = open_engine(**NOTES)

    def history(version: int) -> list[Message]:
        note = f"[Your active task list v{version}]"
        return [user(f"do x {note} and y"), assistant("x is done"), user(f"do z\n\n{note}")]

    engine.ingest(session, history(1), "sync")
    for version in range(2, 5):
        assert engine.ingest(session, history(version), "sync").stored == 0
    assert engine.messages(session) == history(1)


TEXTS = st.text(alphabet="ab [heartbeat poll]tick 7\n\ud83d", max_size=30) | st.sampled_from([POLL, "tick 3"])
MESSAGES = st.one_of(
    st.builds(user, TEXTS),
    st.builds(assistant, TEXTS | st.just("HEARTBEAT_OK")),
    st.just(call("c1")),
    st.builds(result, st.just("c1"), TEXTS),
)


@hypothesis_settings(deadline=None)
@given(st.lists(MESSAGES, max_size=12))
def test_only_whole_polls_and_bare_answers_are_ever_idle(messages: list[Message]) -> None:
    rules = StandingTexts([], CONTROLS["control_message_patterns"])
    idle = rules.idle_rows(messages)
    assert len(messages) - 1 not in idle or messages[-1]["role"] == "assistant"
    for index in idle:
        message = messages[index]
        text = str(message["content"]).strip()
        if message["role"] == "assistant":
            assert "tool_calls" not in message
            assert text == "HEARTBEAT_OK"
            assert index - 1 in idle
        else:
            assert message["role"] == "user"
            assert text == POLL or text.startswith("tick ")
            assert messages[index + 1]["role"] == "user" or index + 1 in idle
