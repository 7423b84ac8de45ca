"""Lists whose messages have the host's own ids: what another text under an id means, and what ids prove."""

from __future__ import annotations

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores_under_ci


def named(*messages: Message) -> list[Message]:
    """The messages with ids by their places."""
    return [{**message, "id": f"m{number}"} for number, message in enumerate(messages)]


TALK = named(user("Rooms?"), assistant("Where?"), user("Bristol."), assistant("Booked."), user("Thanks."))


def shown(engine: Engine, session: Session) -> list[object]:
    return [message["content"] for message in engine.assemble(session, 100_000).messages]


def flaws(engine: Engine, session: Session) -> list[object]:
    """What the check finds in the database; hooks that failed elsewhere are no matter of it."""
    return [found for found in engine.check(session).findings if found.code != "hook_failing"]


def edited(talk: list[Message], at: int, text: str) -> list[Message]:
    return [{**message, "content": text} if n == at else message for n, message in enumerate(talk)]


@pytest.mark.parametrize("at", range(5))
def test_an_edited_message_stands_where_the_old_version_stood(
    engine: Engine, session: Session, at: int
) -> None:
    engine.ingest(session, TALK, "state")
    now = edited(TALK, at, "Said otherwise.")
    report = engine.ingest(session, now, "state")
    assert (report.stored, report.withdrawn) == (1, 1)
    assert shown(engine, session) == [message["content"] for message in now]
    assert engine.ingest(session, now, "state").stored == 0
    # Where nothing comes after it, an edit is a branch, and the old version keeps its place.
    assert engine.messages(session) == ([*now, TALK[at]] if at < 4 else [*TALK, now[4]])
    assert not flaws(engine, session)


def test_versions_are_changed_back_and_forth_without_copies(engine: Engine, session: Session) -> None:
    other = edited(TALK, 1, "Which town?")
    for listing in (TALK, other, TALK, other, TALK):
        engine.ingest(session, listing, "state")
        assert shown(engine, session) == [message["content"] for message in listing]
    assert len(engine.messages(session)) == 5 + 1
    assert not flaws(engine, session)


def test_two_edits_are_both_shown(engine: Engine, session: Session) -> None:
    engine.ingest(session, TALK, "state")
    now = edited(edited(TALK, 1, "Which town?"), 3, "Done.")
    engine.ingest(session, now, "state")
    assert shown(engine, session) == [message["content"] for message in now]
    longer = [*now, {**assistant("You are welcome."), "id": "m5"}, {**user("Bye."), "id": "m6"}]
    assert engine.ingest(session, longer, "state").stored == 2
    assert shown(engine, session) == [message["content"] for message in longer]


def test_edited_arguments_of_a_call_are_shown(engine: Engine, session: Session) -> None:
    talk = named(user("Look."), call("call_of_the_shed", text=None), result("call_of_the_shed", "dark"))
    engine.ingest(session, talk[:2], "state")
    calls = [{**talk[1]["tool_calls"][0], "function": {"name": "look", "arguments": '{"place":"shed"}'}}]
    talk[1] = {**talk[1], "tool_calls": calls}
    engine.ingest(session, talk, "state")
    assert [m.get("tool_calls") for m in engine.assemble(session, 9_000).messages] == [None, calls, None]


@pytest.mark.parametrize("mode", ["state", "sync"])
def test_a_mark_for_a_providers_cache_changes_nothing(engine: Engine, session: Session, mode: str) -> None:
    engine.ingest(session, TALK, mode)  # type: ignore[arg-type]
    block = {"type": "text", "text": "Thanks.", "cache_control": {"type": "ephemeral"}}
    marked = [*TALK[:4], {**TALK[4], "content": [block]}]
    assert engine.ingest(session, marked, mode).stored == 0  # type: ignore[arg-type]


def test_an_edit_of_a_summarised_message_reopens_the_summary(engine: Engine, session: Session) -> None:
    words = "Many words about the harbour. " * 60
    talk = named(
        *(one for n in range(40) for one in (user(f"{n}. {words}"), assistant(f"Answer {n}. {words}")))
    )
    engine.ingest(session, talk, "state")
    assert engine.compact(session, force=True, budget=8_000).compacted
    now = edited(talk, 2, "The second question, said otherwise.")
    engine.ingest(session, now, "state")
    assert shown(engine, session)[:3] == [message["content"] for message in now[:3]]
    assert not flaws(engine, session)
    # What was summarised behind the edited message still is.
    assert len(engine.messages(session)) == 81
    assert len(shown(engine, session)) < 60
    assert engine.compact(session, force=True, budget=8_000).compacted
    assert not flaws(engine, session)


@pytest.mark.parametrize("mode", ["sync", "state"])
def test_a_hosts_summary_of_one_message_takes_nothing_back(
    engine: Engine, session: Session, mode: str
) -> None:
    engine.ingest(session, TALK, mode)  # type: ignore[arg-type]
    shortened = [{**user("A summary of the talk: rooms were asked for."), "id": "sum"}, *TALK[1:]]
    assert engine.ingest(session, shortened, mode).withdrawn == 0  # type: ignore[arg-type]
    assert "Rooms?" in shown(engine, session)


def test_an_edited_call_and_its_result_stay_a_pair(engine: Engine, session: Session) -> None:
    talk = named(user("Look."), call("call_of_the_shed"), result("call_of_the_shed", "dark"), user("And?"))
    engine.ingest(session, talk, "state")
    now = edited(edited(talk, 1, "I look again."), 2, "bright")
    assert engine.ingest(session, now, "state").stored == 2
    longer = [*now, {**assistant("It is bright."), "id": "m4"}, {**user("Good."), "id": "m5"}]
    assert engine.ingest(session, longer, "state").stored == 2
    assert shown(engine, session) == [message["content"] for message in longer]
    assert not flaws(engine, session)


def test_a_branch_from_before_an_edit_shows_the_former_version(engine: Engine, session: Session) -> None:
    engine.ingest(session, TALK, "state")
    engine.ingest(session, edited(TALK, 1, "Which town?"), "state")
    back = [*TALK[:3], {**user("Or Bath."), "id": "other"}]
    assert engine.ingest(session, back, "state").brought_back == 1
    assert shown(engine, session) == [message["content"] for message in back]
    assert len(engine.messages(session)) == 7
    assert not flaws(engine, session)


def test_a_part_of_a_list_takes_nothing_back(engine: Engine, session: Session) -> None:
    for number, text in enumerate(["yes", "ok", "yes"]):
        engine.ingest(session, [{**user(text), "id": f"q{number}"}], "part")
        engine.ingest(
            session,
            [{**user(text), "id": f"q{number}"}, {**assistant("ok"), "id": f"a{number}"}],
            "part",
        )
    assert [m["content"] for m in engine.messages(session)] == ["yes", "ok", "ok", "ok", "yes", "ok"]
    assert all(row.head.withdrawn_at is None for row in engine.record.newest(session, 10))


def test_a_part_under_fresh_ids_is_stored_once_and_may_take_back(engine: Engine, session: Session) -> None:
    engine.ingest(session, TALK, "part")
    fresh = [{**message, "id": f"other-{message['id']}"} for message in TALK]
    assert engine.ingest(session, fresh, "part").stored == 0
    changed = [*fresh[:3], {**assistant("No room left."), "id": "x"}]
    report = engine.ingest(session, changed, "part")
    assert (report.stored, report.withdrawn) == (1, 2)


def test_a_known_message_in_another_order_is_no_edit_of_the_one_that_stood_there(
    engine: Engine, session: Session
) -> None:
    said = [{"role": "assistant", "content": f"answer {number}", "id": f"h{number}"} for number in range(5)]
    said[4] = {"role": "user", "content": "and now?", "id": "h4"}
    engine.ingest(session, said, "sync")
    report = engine.ingest(session, [said[2], said[0], said[4]], "sync")
    assert report.stored == 0
    assert engine.messages(session) == said
