"""A result is found under its tool's name, also when its call came in an earlier turn."""

from __future__ import annotations

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session

pytestmark = pytest.mark.both_stores_under_ci


def found(engine: Engine, session: Session, tool: str) -> list[str]:
    answer = engine.call_tool(session, "lcm_grep", {"pattern": "beacon", "tool_name": tool})
    return sorted(hit["id"] for hit in answer["hits"])


def test_a_result_that_comes_later_has_its_calls_name(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("Look for it."), call("c1", name="search")])
    engine.ingest(session, [result("c1", "the beacon is lit")])
    assert found(engine, session, "search") == ["msg_3"]


def test_an_id_that_recurs_means_its_newest_call(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("one"), call("c1", name="search"), result("c1", "first beacon")])
    engine.ingest(session, [assistant("done"), user("two"), call("c1", name="read")])
    engine.ingest(session, [result("c1", "second beacon")])
    assert found(engine, session, "search") == ["msg_3"]
    assert found(engine, session, "read") == ["msg_7"]


def test_a_result_without_a_call_stays_without_a_name(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("one"), result("lost", "a beacon of nobody")])
    assert found(engine, session, "search") == []
    assert engine.messages(session) == [user("one"), result("lost", "a beacon of nobody")]
