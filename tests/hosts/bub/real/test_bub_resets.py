"""The host's reset and handoff, and what they are here."""

from __future__ import annotations

from collections.abc import Callable

from bub_talk import turn
from bub_world import BubWorld, said
from fakes.answers import is_summary_request
from fakes.model_server import Calls
from test_bub_turns import shown

Make = Callable[..., BubWorld]


def test_a_reset_archives_and_begins_an_empty_conversation(world: Make) -> None:
    home = world()
    home.server.enqueue("one", "two")
    assert home.talk("first question", ",tape.reset", "second question") == ["one", "ok", "two"]
    assert shown(home, 1) == ["second question"]
    assert said(home.stored(active=False)) == ["first question", "one"]
    assert said(home.stored()) == ["second question", "two"]


def test_a_reset_by_the_agent_ends_with_its_turn(world: Make) -> None:
    home = world()
    home.server.enqueue("one", Calls(("tape_reset", {"archive": True})), "all is forgotten", "hello")
    home.talk("first question", "forget it", "who are you?")
    assert shown(home, 3) == ["who are you?"]
    old = home.stored(active=False)
    assert [row["role"] for row in old] == ["user", "assistant", "user", "assistant", "tool", "assistant"]
    assert said(home.stored()) == ["who are you?", "hello"]
    assert home.server.invalid == []


def test_a_handoff_that_is_typed_takes_what_was_said_out_of_the_context(world: Make) -> None:
    home = world(lcm={"activeRecall": "off"})
    home.server.enqueue("one", "two", "three")
    answers = home.talk("first question", ",tape.handoff name=phase-2 summary=done", "second question")
    assert "anchor added" in answers[1]
    assert shown(home, 1) == ["second question"]
    home.talk("third question")
    assert shown(home, 2) == ["second question", "two", "third question"]
    assert said(home.stored(), "user") == ["first question", "second question", "third question"]


def test_a_handoff_can_be_undone_by_another_process(world: Make) -> None:
    home = world()
    home.talk("first question", ",tape.handoff name=phase-2")
    (undone, _) = home.talk(",lcm undo", "second question")
    assert "back in place" in undone
    assert shown(home, 1)[0] == "first question"


def test_a_handoff_by_the_agent_compacts_and_its_turn_goes_on(world: Make) -> None:
    home = world(lcm={"contextThreshold": 0.9, "freshTailCount": 4, "leafMinFanout": 4})
    lines = [turn(number, 250) for number in range(1, 5)]
    home.talk(*lines)
    assert not any(map(is_summary_request, home.server.requests))
    before = home.server.requests[-1].tokens
    home.server.enqueue(Calls(("tape_handoff", {"name": "phase-2", "summary": "four notes taken"})))
    home.talk("let us go on with something else")
    assert any(map(is_summary_request, home.server.requests))
    last = home.server.requests[-1]
    assert last.tokens < before
    assert "<summary" in str(last.messages[1]["content"])
    assert [m["role"] for m in last.messages[-3:]] == ["user", "assistant", "tool"]
    assert said(home.stored(), "user") == [*lines, "let us go on with something else"]
    assert home.server.invalid == []


def test_turns_that_were_taken_off_the_tape_are_shown_no_more_until_they_are_back(world: Make) -> None:
    home = world(lcm={"freshTailCount": 2, "leafMinFanout": 2, "leafChunkTokens": 400})
    secret = f"The password is swordfish. {turn(90, 150)}"
    later = [turn(number, 150) for number in range(3, 11)]
    said_first = ["first question", "second question", secret]
    home.scenario("edited", turns=said_first, at=2, then=later, restored=["and now?"])
    asked = [request for request in home.server.requests if not is_summary_request(request)]
    assert "swordfish" in str(asked[2].messages)
    for request in asked[3:11]:
        assert "swordfish" not in str(request.messages)
        assert "first question" in str(request.messages) or "<summary" in str(request.messages)
    assert said(home.stored(), "user") == [*said_first, *later, "and now?"]
    assert home.server.invalid == []
    assert home.problems() == []
