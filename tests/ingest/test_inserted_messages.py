"""Messages that a host puts in or rewords in the middle of its list take their place in the view."""

from __future__ import annotations

from itertools import count

import pytest
from databases import FreshDatabase
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from invariants import assert_sound
from messages import assistant, call, result, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.types import IngestMode, Message

pytestmark = pytest.mark.both_stores_under_ci

TALK: list[Message] = [
    user("I want to go to Bristol soon.", id="m0"),
    assistant("How many nights would you like to stay there?", id="m1"),
    user("Three nights, please, in a quiet hotel.", id="m2"),
    assistant("Done: three nights in the Quiet Inn of Bristol.", id="m3"),
    user("Thank you very much indeed.", id="m4"),
]
PUT_IN = [
    assistant("We have a quiet hotel near the harbour.", id="x0"),
    user("Near the harbour is fine with me.", id="x1"),
]
LANE = Session("agent:main:main", "run-1")


def bare(messages: list[Message]) -> list[Message]:
    return [{key: value for key, value in message.items() if key != "id"} for message in messages]


def standing(engine: Engine, session: Session) -> list[Message]:
    return [engine.record.whole(row) for row in engine.record.newest(session, 1_000, standing=True)]


def shown(engine: Engine, session: Session) -> list[object]:
    return [message["content"] for message in engine.assemble(session, 100_000).messages]


@pytest.mark.parametrize("mode", ["state", "sync", "whole"])
@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("size", [1, 2])
def test_a_message_that_is_put_in_stands_where_the_list_has_it(
    engine: Engine, session: Session, mode: IngestMode, at: int, size: int
) -> None:
    engine.ingest(session, TALK, mode)
    now = [*TALK[:at], *PUT_IN[:size], *TALK[at:]]
    report = engine.ingest(session, now, mode)
    assert (report.stored, report.withdrawn) == (size, 0)
    assert standing(engine, session) == now
    assert engine.messages(session) == now
    assert engine.ingest(session, now, mode).stored == 0
    longer = [*now, assistant("You are welcome.", id="m5"), user("And a taxi.", id="m6")]
    assert engine.ingest(session, longer, mode).stored == 2
    assert standing(engine, session) == longer
    assert not engine.check(session).findings


def test_a_whole_list_without_ids_puts_in_too(engine: Engine, session: Session) -> None:
    engine.ingest(session, bare(TALK), "whole")
    now = bare([*TALK[:3], *PUT_IN, *TALK[3:]])
    assert engine.ingest(session, now, "whole").stored == 2
    assert standing(engine, session) == now


def test_a_call_and_its_result_that_are_put_in_stay_a_pair(engine: Engine, session: Session) -> None:
    pair = [{**call("call_of_the_harbour"), "id": "c"}, {**result("call_of_the_harbour", "full"), "id": "r"}]
    engine.ingest(session, TALK, "state")
    now = [*TALK[:1], *pair, *TALK[1:]]
    engine.ingest(session, now, "state")
    sent = engine.assemble(session, 100_000).messages
    assert [message.get("tool_call_id") for message in sent[:3]] == [None, None, "call_of_the_harbour"]
    assert not engine.check(session).findings


def test_what_is_put_in_among_summarised_messages_is_shown_at_its_place(
    engine: Engine, session: Session
) -> None:
    words = "Many words about the harbour. " * 60
    talk: list[Message] = [
        message
        for n in range(40)
        for message in (
            user(f"{n}. {words}", id=f"u{n}"),
            assistant(f"Answer {n}. {words}", id=f"a{n}"),
        )
    ]
    engine.ingest(session, talk, "state")
    assert engine.compact(session, force=True, budget=8_000).compacted
    now = [*talk[:2], *PUT_IN, *talk[2:]]
    assert engine.ingest(session, now, "state").stored == 2
    assert not engine.check(session).findings
    assert shown(engine, session)[:4] == [message["content"] for message in now[:4]]
    # What was summarised behind it still is.
    assert len(shown(engine, session)) < 60
    assert engine.compact(session, force=True, budget=8_000).compacted
    assert not engine.check(session).findings


def test_a_new_can_be_undone_after_something_was_put_into_what_it_took_out(
    engine: Engine, session: Session
) -> None:
    engine.ingest(session, [{"role": "system", "content": "Be brief."}, *TALK], "append")
    engine.new_session(session, retain_depth=0)
    engine.ingest(session, PUT_IN[1:], "append")
    with engine.store.write() as writer:
        rows = writer.heads(1, limit=10)
        writer.insert_before(1, [rows[-1].message_id], rows[3].message_id)
    assert engine.undo_new(session) == 6
    assert standing(engine, session)[1:] == [*TALK[:2], PUT_IN[1], *TALK[2:]]
    assert engine.assemble(session, 9_000).messages[0]["content"] == "Be brief."
    assert not engine.check(session).findings


@pytest.mark.parametrize("with_ids", [True, False])
@pytest.mark.parametrize("at", [0, 2, 3])
def test_other_words_in_the_middle_of_a_list_are_an_edit(
    engine: Engine, session: Session, at: int, with_ids: bool
) -> None:
    talk = TALK if with_ids else bare(TALK)
    engine.ingest(session, talk, "sync")
    now = [{**m, "content": "Two nights in Bath, then."} if n == at else m for n, m in enumerate(talk)]
    report = engine.ingest(session, now, "sync")
    assert (report.stored, report.withdrawn) == (1, 1)
    assert standing(engine, session) == now
    assert engine.ingest(session, now, "sync").stored == 0
    report = engine.ingest(session, talk, "sync")
    assert (report.stored, report.brought_back) == (0, 1)
    assert standing(engine, session) == talk
    assert not engine.check(session).findings


@pytest.mark.parametrize("with_ids", [True, False])
@pytest.mark.parametrize(
    "copy",
    [
        "Three nights, please",
        "Three nights, please... [24 more characters]",
        "Three nights, please, in a [MASKED].",
        "(the user asks for a hotel)",
        "[an older message was removed]",
        "<note>the user asks for a hotel</note>",
        "Today is Monday. Three nights, please, in a quiet hotel.",
        "Three  nights,\nplease, in a quiet hotel.",
        "",
    ],
)
def test_a_hosts_copy_of_a_message_is_no_edit(
    engine: Engine, session: Session, copy: str, with_ids: bool
) -> None:
    talk = TALK if with_ids else bare(TALK)
    engine.ingest(session, talk, "sync")
    report = engine.ingest(session, [*talk[:2], {**talk[2], "content": copy}, *talk[3:]], "sync")
    assert (report.stored, report.withdrawn) == (0, 0)
    assert standing(engine, session) == talk


@pytest.mark.both_stores
def test_any_list_that_is_edited_is_shown_as_it_is(fresh_database: FreshDatabase, store_kind: str) -> None:
    steps = st.lists(
        st.tuples(st.sampled_from(["put in", "reword", "go on", "compact"]), st.floats(0, 1)),
        min_size=1,
        max_size=6,
    )

    @settings(max_examples=examples(60, 12) if store_kind == "sqlite" else 5, deadline=None)
    @given(steps=steps, mode=st.sampled_from(["state", "sync", "whole"]))
    def check(steps: list[tuple[str, float]], mode: IngestMode) -> None:
        numbers, talk = count(), list(TALK)

        def fresh(role: str) -> Message:
            number = next(numbers)
            text = f"What number {number} holds is said once and by nobody else."
            return {"role": role, "content": text, "id": f"n{number}"}

        with (
            fresh_database() as database,
            Engine.open(
                LcmConfig(database=database, fresh_tail_count=2, leaf_min_fanout=2, leaf_chunk_tokens=60)
            ) as engine,
        ):
            engine.ingest(LANE, talk, mode)
            for step, share in steps:
                at = int(share * (len(talk) - 2))
                if step == "put in":
                    talk[at:at] = [fresh("user"), fresh("assistant")]
                elif step == "reword":
                    talk[at] = {**talk[at], "content": fresh("user")["content"]}
                elif step == "go on":
                    talk += [fresh("assistant"), fresh("user")]
                else:
                    engine.compact(LANE, force=True, budget=1_000)
                engine.ingest(LANE, talk, mode)
                assert standing(engine, LANE) == talk
            assert not engine.check().findings
            assert_sound(database)

    check()
