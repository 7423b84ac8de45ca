"""What a host keeps in a message for itself: its own id and time count, wherever they stand."""

from __future__ import annotations

from messages import user

from lcm_plugin import Engine, Session


def test_a_hosts_own_id_and_time_may_stand_in_its_data(engine: Engine, session: Session) -> None:
    first = user("hi", host_data={"id": "run-1/0", "date": "2026-01-02T03:04:05+00:00"})
    again = user("hi", host_data={"id": "run-2/0"})
    assert engine.ingest(session, [first, again]).stored == 2
    assert engine.ingest(session, [first, again]).stored == 0
    assert engine.messages(session) == [first, again]
    conversation = engine.library.conversation(session.key)
    row = next(iter(engine.library.messages(conversation.conversation_id)))
    assert row.head.created_at == 1_767_323_045_000
