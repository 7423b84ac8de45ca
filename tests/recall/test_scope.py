"""What a caller can reach, and that everything else looks as if it did not exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from messages import user

from lcm_plugin import Engine, Session

pytestmark = pytest.mark.both_stores

MAIN = Session("agent:main:main", "run-1")
SIBLING = Session("agent:main:telegram:42", "run-2")
OTHER = Session("agent:other:main", "run-3")


def fill(engine: Engine) -> None:
    for session, text in ((MAIN, "main heron"), (SIBLING, "sibling heron"), (OTHER, "other heron")):
        engine.ingest(session, [user(text)])


def found(engine: Engine, session: Session, **arguments: Any) -> set[str]:
    answer = engine.call_tool(session, "lcm_grep", {"pattern": "heron", "context": 0, **arguments})
    return {hit["snippet"].replace("**", "") for hit in answer["hits"]}


def ids(engine: Engine, session: Session) -> list[str]:
    return [item.id for item in engine.context_items(session)]


def test_a_search_stays_in_its_session(engine: Engine) -> None:
    fill(engine)
    assert found(engine, MAIN) == {"main heron"}
    assert found(engine, MAIN, mode="regex") == {"main heron"}


@pytest.mark.parametrize(
    ("reach", "expected"),
    [
        ("session", {"main heron"}),
        ("agent", {"main heron", "sibling heron"}),
        ("all", {"main heron", "sibling heron", "other heron"}),
    ],
)
def test_all_conversations_reach_as_far_as_the_setting(
    open_engine: Callable[..., Engine], reach: str, expected: set[str]
) -> None:
    engine = open_engine(recall_scope=reach)
    fill(engine)
    assert found(engine, MAIN, all_conversations=True) == expected


def test_a_key_of_no_agent_reaches_only_its_own_lane(engine: Engine) -> None:
    fill(engine)
    plain = Session("plain")
    engine.ingest(plain, [user("plain heron")])
    assert found(engine, plain, all_conversations=True) == {"plain heron"}


def test_an_agent_id_is_no_prefix_of_another(engine: Engine) -> None:
    engine.ingest(Session("agent:main2:x"), [user("wrong heron")])
    engine.ingest(MAIN, [user("main heron")])
    assert found(engine, MAIN, all_conversations=True) == {"main heron"}


def test_what_a_reset_ended_needs_all_conversations(engine: Engine) -> None:
    engine.ingest(MAIN, [user("old heron")])
    engine.reset_session(MAIN)
    engine.ingest(MAIN, [user("new heron")])
    assert found(engine, MAIN) == {"new heron"}
    assert found(engine, MAIN, all_conversations=True) == {"old heron", "new heron"}


def test_an_ended_session_stays_in_its_family(engine: Engine) -> None:
    engine.ingest(MAIN, [user("old heron")])
    engine.end_session(MAIN, "end")
    assert found(engine, MAIN) == {"old heron"}
    engine.ingest(MAIN, [user("new heron")])
    assert found(engine, MAIN) == {"old heron", "new heron"}


def test_a_session_id_alone_is_enough(engine: Engine) -> None:
    fill(engine)
    assert found(engine, Session("", "run-1")) == {"main heron"}


@pytest.mark.parametrize("session", [Session(""), Session("", "never-seen"), Session("unknown:key")])
def test_an_unbound_session_finds_nothing(engine: Engine, session: Session) -> None:
    fill(engine)
    assert found(engine, session) == set()
    assert found(engine, session, scope="both") == set()
    assert found(engine, session, scope="files") == set()
    assert "not found" in engine.call_tool(session, "lcm_describe", {"id": "msg_1"})["error"]


def test_an_unbound_session_finds_nothing_even_with_the_widest_reach(
    open_engine: Callable[..., Engine],
) -> None:
    engine = open_engine(recall_scope="all")
    fill(engine)
    assert found(engine, Session(""), all_conversations=True) == set()


def test_an_ignored_session_finds_nothing(open_engine: Callable[..., Engine]) -> None:
    open_engine().ingest(MAIN, [user("main heron")])
    assert found(open_engine(ignore_session_patterns=["agent:main:*"]), MAIN) == set()


def test_foreign_and_unknown_ids_are_refused_in_the_same_words(engine: Engine) -> None:
    fill(engine)
    foreign = ids(engine, OTHER)[0]
    for tool, arguments in (("lcm_describe", {"id": "{}"}), ("lcm_expand", {"summary_ids": ["{}"]})):
        answers = []
        for ref in (foreign, "msg_999999"):
            filled = {key: [ref] if isinstance(value, list) else ref for key, value in arguments.items()}
            answer = engine.call_tool(MAIN, tool, filled | {"all_conversations": True})
            answers.append((answer["error"].replace(ref, "ID"), answer["error_code"]))
        assert answers[0] == answers[1]
        assert answers[0][1] == "NOT_FOUND"


def test_foreign_and_unknown_conversations_are_refused_in_the_same_words(engine: Engine) -> None:
    fill(engine)
    answers = {
        engine.call_tool(MAIN, "lcm_grep", {"pattern": "heron", "conversation_id": number})["error"].replace(
            str(number), "N"
        )
        for number in (3, 999)
    }
    assert len(answers) == 1


def test_a_named_conversation_within_reach_is_searched(engine: Engine) -> None:
    fill(engine)
    assert found(engine, MAIN, conversation_id=1) == {"main heron"}
    assert found(engine, MAIN, conversation_id=2) == {"sibling heron"}


def test_other_sessions_do_not_crowd_out_hits(engine: Engine) -> None:
    for n in range(100):
        engine.ingest(OTHER, [user(f"heron {n}")])
    engine.ingest(MAIN, [user("one heron here"), user("another heron there")])
    assert len(found(engine, MAIN, limit=10)) == 2


@pytest.mark.parametrize(
    "ref", ["file_../../etc/passwd", "/etc/passwd", "..", "sum_", "msg_", "msg_1x", "drop table"]
)
def test_what_is_no_id_is_refused(engine: Engine, ref: str) -> None:
    fill(engine)
    assert "holds no id" in engine.call_tool(MAIN, "lcm_describe", {"id": ref})["error"]
