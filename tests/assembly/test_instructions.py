"""Every instruction that a host has in force arrives, in its order, whatever becomes of the talk around it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from assembly.histories import Cut, compact, cuts
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messages import assistant, call, result, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.interchange.transfer.jsonl_read import load_jsonl
from lcm_plugin.interchange.transfer.jsonl_write import write_jsonl
from lcm_plugin.interchange.transfer.payloads import PayloadPlace
from lcm_plugin.messages.markup import is_notice, summary_id_of
from lcm_plugin.messages.validate import validate
from lcm_plugin.types import Context

pytestmark = pytest.mark.both_stores_under_ci

Message = dict[str, Any]
lanes = itertools.count()


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def developer(text: str) -> Message:
    return {"role": "developer", "content": text}


P, M = system("You are P."), system("Rules of M.")


def instructions_of(context: Context) -> list[Message]:
    return [message for message in context.messages if message["role"] in ("system", "developer")]


def talk(turns: int, start: int = 0) -> list[Message]:
    return [
        message
        for n in range(start, start + turns)
        for message in (user(f"question {n}"), assistant(f"answer {n}"))
    ]


@pytest.mark.parametrize("mode", ["sync", "append"])
@pytest.mark.parametrize("run", [[P, M], [P, developer("Be brief.")], [developer("a"), P, M]])
def test_the_whole_leading_run_stands_at_the_front(
    engine: Engine, session: Session, mode: Any, run: list[Message]
) -> None:
    engine.ingest(session, [*run, user("hi")], mode)
    context = engine.assemble(session, 8_000)
    assert context.messages == [*run, user("hi")]
    assert context.notices == ()


@pytest.mark.parametrize("mode", ["sync", "append"])
def test_another_leading_run_takes_the_place_of_the_last(engine: Engine, session: Session, mode: Any) -> None:
    today = system("Today is Tuesday.")
    said = [user("hi"), assistant("hello")]
    engine.ingest(session, [P, M, *said], mode)
    added = [user("and now?")]
    engine.ingest(session, [M, today, *said, *added] if mode == "sync" else [M, today, *added], mode)
    assert engine.assemble(session, 8_000).messages == [M, today, *said, *added]
    engine.ingest(session, [P, M, *said, *added] if mode == "sync" else [P, M, user("back")], mode)
    assert instructions_of(engine.assemble(session, 8_000)) == [P, M]
    assert len([m for m in engine.messages(session) if m["role"] == "system"]) == 3


def test_instructions_handed_over_one_by_one_are_one_run(engine: Engine, session: Session) -> None:
    for message in (P, M, user("hi")):
        engine.ingest(session, [message])
    assert engine.assemble(session, 8_000).messages == [P, M, user("hi")]


def test_a_list_without_instructions_changes_none(engine: Engine, session: Session) -> None:
    engine.ingest(session, [P, M, user("hi"), assistant("hello")], "sync")
    engine.ingest(session, [user("hi"), assistant("hello"), user("more")], "sync")
    assert instructions_of(engine.assemble(session, 8_000)) == [P, M]


def test_a_later_instruction_stays_where_it_is_and_moves_when_it_is_compacted(
    engine: Engine, session: Session
) -> None:
    later = system("From now on, answer in French.")
    engine.ingest(session, [P, *talk(2), later, *talk(4, 2), user("now")], "sync")
    context = engine.assemble(session, 8_000)
    assert context.messages == [P, *talk(2), later, *talk(4, 2), user("now")]
    assert compact(engine, session, Cut(0, 0.6))
    context = engine.assemble(session, 8_000)
    assert context.messages[:2] == [P, later]
    assert instructions_of(context) == [P, later]
    assert summary_id_of(context.messages[2]["content"])


def test_an_instruction_said_again_and_again_is_shown_once_in_the_layer(
    engine: Engine, session: Session
) -> None:
    nudge = system("Keep going.")
    for n in range(4):
        engine.ingest(session, [*talk(1, n), user("go"), nudge])
    engine.ingest(session, [*talk(3, 10), user("now")])
    assert compact(engine, session, Cut(0, 0.7))
    assert instructions_of(engine.assemble(session, 8_000)).count(nudge) == 1


def test_an_instruction_between_a_call_and_its_result_stands_behind_them(
    engine: Engine, session: Session
) -> None:
    engine.ingest(session, [user("q"), call("c"), system("hurry"), result("c", "r")])
    assert engine.assemble(session, 8_000).messages == [
        user("q"),
        call("c"),
        result("c", "r"),
        system("hurry"),
    ]


def test_instructions_before_the_window_of_a_long_talk_stand_in_the_layer(
    engine: Engine, session: Session
) -> None:
    engine.ingest(session, [P, *talk(3), system("Speak softly."), *talk(600, 3), user("now")])
    context = engine.assemble(session, 3_000)
    assert instructions_of(context) == [P, system("Speak softly.")]
    assert context.messages[-1] == user("now")


def test_what_does_not_fit_is_named_oldest_first(engine: Engine, session: Session) -> None:
    long = [system(f"rule {n} " + "word " * 150) for n in range(8)]
    for n, rule in enumerate(long):
        engine.ingest(session, [*talk(1, n), user("go"), rule])
    engine.ingest(session, [*talk(2, 20), user("now")])
    compact(engine, session, Cut(0, 0.9))
    context = engine.assemble(session, 600)
    shown = instructions_of(context)
    missing = [message for message in long if message not in shown]
    assert shown == long[len(missing) :]
    [named] = [notice for notice in context.notices if "system messages" in notice]
    found = [word.strip(".,") for word in named.split() if word.startswith("msg_")]
    assert found == sorted(found, key=lambda ref: int(ref[4:]))
    assert len(found) == len(missing) > 0


def test_instructions_survive_new_and_another_process(engine: Engine, session: Session) -> None:
    later = developer("Use metres.")
    engine.ingest(session, [P, M, *talk(3), later, *talk(3, 3)], "sync")
    engine.new_session(session, 0)
    engine.ingest(session, [user("fresh")])
    with Engine.open(engine.config) as other:
        assert instructions_of(other.assemble(session, 8_000)) == [P, M, later]


def test_instructions_go_along_with_an_export(engine: Engine, session: Session, tmp_path: Any) -> None:
    later = system("Use metres.")
    engine.ingest(session, [P, M, *talk(3), later, *talk(3, 3), user("now")], "sync")
    assert compact(engine, session, Cut(0, 0.9))
    lines: list[bytes] = []
    with engine.store.read() as reader:
        ids = [row.conversation_id for row in reader.conversations()]
        place = PayloadPlace(tmp_path / "left")
        write_jsonl(reader, place, lines.append, conversations=ids, whole=True, now=7)
    with Engine.open(LcmConfig(database=str(tmp_path / "other.db"))) as other:
        load_jsonl(lines, other.store, PayloadPlace(tmp_path / "right"))
        assert instructions_of(other.assemble(session, 8_000)) == [P, M, later]


instructions = st.builds(
    lambda role, n: {"role": role, "content": f"instruction {n}"},
    st.sampled_from(["system", "developer"]),
    st.integers(0, 9),
)
steps = st.one_of(
    st.tuples(st.just("turn"), st.integers(1, 3)),
    st.tuples(st.just("later"), instructions),
    st.tuples(st.just("run"), st.lists(instructions, min_size=1, max_size=3, unique_by=str)),
    st.tuples(st.just("compact"), cuts),
    st.tuples(st.just("new"), st.integers(-1, 2)),
    st.tuples(st.just("restart"), st.none()),
)
EXAMPLES = {"sqlite": examples(40, 10), "postgres": examples(6, 3)}


def test_no_instruction_is_ever_missing(engine: Engine, store_kind: str) -> None:
    @settings(max_examples=EXAMPLES[store_kind], deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(steps, min_size=1, max_size=12))
    def holds(history: Sequence[tuple[str, Any]]) -> None:
        session = Session(f"agent:main:rules{next(lanes)}")
        leading: list[Message] = []
        later: list[Message] = []
        opened: list[Engine] = [engine]
        said = itertools.count()
        for kind, value in history:
            here = opened[-1]
            if kind == "turn":
                here.ingest(session, talk(value, next(said) * 10))
            elif kind == "later":
                here.ingest(session, [user(f"then {next(said)}"), value])
                later.append(value)
            elif kind == "run":
                here.ingest(session, [*value, user(f"with rules {next(said)}")])
                leading = value
            elif kind == "compact":
                compact(here, session, value)
            elif kind == "new":
                here.new_session(session, value)
            else:
                opened.append(Engine.open(engine.config))
        opened[-1].ingest(session, [user("and now?")])
        context = opened[-1].assemble(session, 50_000)
        for other in opened[1:]:
            other.close()
        assert validate(context.messages) == []
        shown = instructions_of(context)
        assert shown[: len(leading)] == leading
        assert all(one in shown for one in later if one not in leading)
        assert context.notices == ()
        assert not any(is_notice(str(message["content"])) for message in shown)

    holds()


def test_an_instruction_of_the_talk_outlives_a_run_that_says_the_same(
    engine: Engine, session: Session
) -> None:
    engine.ingest(session, [user("then"), M])
    engine.ingest(session, [M, user("with rules")])
    engine.ingest(session, [P, user("with others")])
    shown = engine.assemble(session, 8_000).messages
    assert shown == [P, user("then"), M, user("with rules"), user("with others")]
