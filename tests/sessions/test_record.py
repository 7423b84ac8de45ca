"""Looking at the newest rows, and taking messages out of the context and back."""

from __future__ import annotations

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session

pytestmark = pytest.mark.both_stores_under_ci


def contents(engine: Engine, session: Session) -> list[object]:
    return [message["content"] for message in engine.assemble(session, 8_000).messages]


def test_withdrawn_messages_leave_the_context_and_stay_in_the_record(
    engine: Engine, session: Session
) -> None:
    said = [user("one"), assistant("first"), user("two"), assistant("second"), user("three")]
    engine.ingest(session, said)
    rows = engine.record.newest(session, 3)
    assert [engine.record.whole(row) for row in rows] == said[2:]
    engine.record.withdraw(session, [row.head.message_id for row in rows[:2]])
    assert contents(engine, session) == ["one", "first", "three"]
    assert engine.messages(session) == said
    assert engine.call_tool(session, "lcm_grep", {"pattern": "second"})["total"] == 1
    assert engine.check().findings == ()


def test_restored_messages_stand_where_they_stood(engine: Engine, session: Session) -> None:
    said = [user("look"), call("a"), result("a", "seen"), user("and?")]
    engine.ingest(session, said)
    before = engine.assemble(session, 8_000)
    ids = [row.head.message_id for row in engine.record.newest(session, 3)]
    engine.record.withdraw(session, ids)
    assert contents(engine, session) == ["look"]
    engine.record.restore(session, ids)
    assert engine.assemble(session, 8_000).messages == before.messages
    assert engine.check().findings == ()


def test_the_newest_rows_can_be_paged_backwards(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user(str(number)) for number in range(7)])
    seen: list[object] = []
    before = None
    while page := engine.record.newest(session, 3, before_seq=before):
        seen = [engine.record.whole(row)["content"] for row in page] + seen
        before = page[0].head.seq
    assert seen == [str(number) for number in range(7)]


def test_a_hosts_own_ids_are_known(engine: Engine, session: Session) -> None:
    assert engine.record.known_ids(session, ["user:a"]) == set()
    engine.ingest(session, [user("hi", id="a")])
    assert engine.record.known_ids(session, ["user:a", "user:b"]) == {"user:a"}
