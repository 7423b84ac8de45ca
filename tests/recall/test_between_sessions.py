"""What was said in other sessions is found where the own one holds nothing of it, as far as the rules allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from messages import assistant, user

from lcm_plugin import Engine, Session

pytestmark = pytest.mark.both_stores_under_ci

OLD = Session("agent:main:telegram:41", "run-1")
NEW = Session("agent:main:telegram:42", "run-2")
FOREIGN = Session("agent:other:main", "run-3")
FACT = "The billing gateway listens on port 8443."


def ask(engine: Engine, session: Session = NEW, **arguments: Any) -> dict[str, Any]:
    return engine.call_tool(session, "lcm_grep", {"pattern": "billing gateway port", **arguments})


def keys(answer: dict[str, Any]) -> list[str]:
    return [hit["session_key"] for hit in answer["hits"]]


def fill(engine: Engine) -> None:
    engine.ingest(OLD, [user(FACT), assistant("Noted.")])
    engine.ingest(FOREIGN, [user(FACT)])


@pytest.mark.parametrize("begun", [False, True])
def test_a_new_session_finds_what_another_one_of_its_agent_holds(engine: Engine, begun: bool) -> None:
    fill(engine)
    if begun:
        engine.ingest(NEW, [user("Hello, about the gateway"), assistant("Yes?")])
    answer = ask(engine)
    assert keys(answer)[0] == OLD.key
    assert FOREIGN.key not in keys(answer)
    assert any("others were searched too" in notice for notice in answer["notices"])
    read = engine.call_tool(NEW, "lcm_describe", {"id": answer["hits"][0]["id"], "all_conversations": True})
    assert read["content"] == FACT


def test_a_session_that_holds_it_is_searched_alone(engine: Engine) -> None:
    fill(engine)
    engine.ingest(NEW, [user("our billing gateway has another port, 9000")])
    answer = ask(engine)
    assert "session_key" not in answer["hits"][0]
    assert len(answer["hits"]) == 1
    assert "notices" not in answer


@pytest.mark.parametrize("mode", ["full_text", "regex"])
def test_what_nobody_said_is_found_nowhere_and_says_nothing_of_others(engine: Engine, mode: str) -> None:
    fill(engine)
    assert ask(engine, pattern="heliotrope", mode=mode) == {"hits": [], "total": 0, "total_is_exact": True}


def test_a_reset_an_ignored_session_and_the_setting_bound_it(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine()
    fill(engine)
    assert keys(ask(open_engine(recall_scope="session"))) == []
    assert set(keys(ask(open_engine(recall_scope="all")))) == {OLD.key, FOREIGN.key}
    assert keys(ask(open_engine(ignore_session_patterns=["agent:main:telegram:41"]))) == []
    assert keys(ask(open_engine(ignore_session_patterns=["agent:main:telegram:42"]))) == []
    assert keys(ask(open_engine(), Session("plain"))) == []
    engine = open_engine()
    assert keys(ask(engine)) == [OLD.key]
    engine.reset_session(OLD)
    assert keys(ask(engine)) == []
    assert keys(ask(engine, all_conversations=True)) == [OLD.key]


def test_a_call_that_names_its_conversation_stays_there(engine: Engine) -> None:
    fill(engine)
    engine.ingest(NEW, [user("Hello")])
    assert keys(ask(engine, conversation_id=3)) == []


def test_pages_go_on_over_the_same_sessions(engine: Engine) -> None:
    engine.ingest(OLD, [user(f"{FACT} Note {n}.") for n in range(25)])
    seen: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        answer = ask(engine, **cursor)
        seen += [hit["id"] for hit in answer["hits"]]
        if "next_cursor" not in answer:
            break
        cursor = {"cursor": answer["next_cursor"]}
    assert len(seen) == len(set(seen)) == 25
    # Another session's cursor opens nothing that its own rules keep closed.
    assert ask(engine, Session("plain"), cursor=cursor["cursor"])["hits"] == []


def test_a_question_is_answered_from_other_sessions_too(engine: Engine) -> None:
    fill(engine)
    asked = {"prompt": "On which port does the billing gateway listen?"}
    assert "8443" in engine.call_tool(NEW, "lcm_expand_query", asked)["answer"]
    assert engine.call_tool(Session("agent:third:main"), "lcm_expand_query", asked)["answer"] == ""
