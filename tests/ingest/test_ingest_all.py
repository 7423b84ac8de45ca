"""Mode ``all``: a host that hands over each message once has every one of them stored."""

from __future__ import annotations

import pytest
from messages import assistant, user

from lcm_plugin import Engine, Session

pytestmark = pytest.mark.both_stores

TURN = [
    user("which pump ran dry last night, and for how long was it?"),
    assistant("pump seven, forty minutes"),
]


def test_a_turn_said_twice_is_stored_twice(engine: Engine, session: Session) -> None:
    for _ in range(2):
        assert engine.ingest(session, TURN, "all").stored == 2
    assert engine.messages(session) == TURN * 2


def test_what_was_said_before_a_reset_may_be_said_again(engine: Engine, session: Session) -> None:
    engine.ingest(session, TURN, "all")
    engine.reset_session(session)
    assert engine.ingest(session, TURN, "all").stored == 2


def test_what_belongs_to_the_host_is_kept_and_not_counted(engine: Engine, session: Session) -> None:
    bulky = user("hello", host_data={"artifact": "word " * 2_000})
    engine.ingest(session, [bulky], "all")
    assert engine.messages(session) == [bulky]
    assert engine.count_tokens(bulky) == engine.count_tokens(user("hello"))
    assert engine.assemble(session, 200).messages == [bulky]


def test_calls_of_the_responses_api_belong_to_their_outputs(engine: Engine, session: Session) -> None:
    made = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}"}
    given = {"type": "function_call_output", "call_id": "call_1", "output": "seen"}
    engine.ingest(session, [user("look"), assistant([made]), user([given]), user("and?")], "all")
    groups = [row.head.group_seq for row in engine.record.newest(session, 4)]
    assert groups == [1, 2, 2, 4]
