"""A tail is found once for all the looks of a turn, and never an old one."""

from __future__ import annotations

from typing import Any

from messages import assistant, user

from lcm_plugin import Engine, Session
from lcm_plugin.compaction.tails import RecentTails
from lcm_plugin.store.base import Reader
from lcm_plugin.tail import Tail, fresh_tail


def tails_of(engine: Engine, session: Session, tails: RecentTails) -> tuple[Tail, Tail]:
    """The remembered tail and the one that the rule finds now."""
    with engine.store.read() as reader:
        conversation = reader.find_conversation(session)
        assert conversation is not None
        found = fresh_tail(reader, conversation.conversation_id, count=4, max_tokens=None)
        return tails.of(reader, conversation, 4, None), found


def test_a_second_look_reads_nothing(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("Where is the key?"), assistant("Under the mat.")])
    tails = RecentTails()
    first, _ = tails_of(engine, session, tails)

    class Unreadable:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"the store was asked for {name}")

    reader: Reader = Unreadable()  # type: ignore[assignment]
    with engine.store.read() as real:
        conversation = real.find_conversation(session)
    assert conversation is not None
    assert tails.of(reader, conversation, 4, None) == first


def test_a_new_message_a_compaction_and_a_new_session_are_noticed(engine: Engine, session: Session) -> None:
    tails = RecentTails()
    for number in range(30):
        engine.ingest(session, [user(f"Question {number}: " + "which valve? " * 60), assistant("The third.")])
        remembered, found = tails_of(engine, session, tails)
        assert remembered == found
    engine.compact(session, force=True, budget=4_000)
    remembered, found = tails_of(engine, session, tails)
    assert remembered == found
    engine.new_session(session, retain_depth=0)
    remembered, found = tails_of(engine, session, tails)
    assert remembered == found == Tail()
