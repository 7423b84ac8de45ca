"""The session's four methods, as the runner and a person use them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from agents import Agent, Runner
from agents.memory import Session as SessionProtocol
from scripted import ScriptedModel, called, problems_in, said, thought

from lcm_plugin.errors import LcmError
from lcm_plugin.hosts.openai_agents import LcmSession

Make = Callable[..., LcmSession]
ASKED = {"role": "user", "content": "what is in the shed?"}
ANSWERED = said("A spade.", 1).model_dump(exclude_unset=True)
THOUGHT = thought(2).model_dump(exclude_unset=True)
CALLS = [called("look", {"place": "shed"}, 2, place).model_dump(exclude_unset=True) for place in range(2)]
OUTPUTS = [
    {"type": "function_call_output", "call_id": call["call_id"], "output": "a spade"} for call in CALLS
]


def run(coroutine: object) -> object:
    return asyncio.run(coroutine)  # type: ignore[arg-type]


def test_it_is_a_session(session_of: Make) -> None:
    session = session_of()
    assert isinstance(session, SessionProtocol)
    assert session.session_id == "one"
    assert run(session.get_items()) == []
    assert run(session.pop_item()) is None


def test_the_last_reply_is_part_of_the_history(session_of: Make) -> None:
    session = session_of()
    run(session.add_items([ASKED, ANSWERED]))
    assert run(session.get_items()) == [ASKED, ANSWERED]


def test_the_same_turn_twice_is_stored_twice(session_of: Make) -> None:
    session = session_of()
    for _ in range(2):
        run(session.add_items([ASKED, THOUGHT, *CALLS, *OUTPUTS, ANSWERED]))
    assert len(run(session.get_items(limit=100))) == 14  # type: ignore[arg-type]


def test_limit_gives_the_newest_items_as_they_came_in(session_of: Make) -> None:
    session = session_of()
    items = [ASKED, THOUGHT, *CALLS, *OUTPUTS, ANSWERED]
    run(session.add_items(items))
    for limit in range(1, 9):
        assert run(session.get_items(limit=limit)) == items[-limit:]
    session.session_settings = {"limit": 2}
    assert run(session.get_items()) == items[-2:]


def test_popping_gives_item_after_item_back_and_keeps_the_record(session_of: Make) -> None:
    session = session_of()
    items = [ASKED, THOUGHT, *CALLS, *OUTPUTS, ANSWERED]
    run(session.add_items(items))
    for left in range(len(items) - 1, -1, -1):
        assert run(session.pop_item()) == items[left]
        assert run(session.get_items(limit=100)) == items[:left]
        assert problems_in([*run(session.get_items()), ASKED]) == []  # type: ignore[misc]
    assert run(session.pop_item()) is None
    assert run(session.record()) == items
    assert session.engine.check().findings == ()


def test_what_is_added_after_a_pop_follows_what_is_left(session_of: Make) -> None:
    session = session_of()
    run(session.add_items([ASKED, THOUGHT, *CALLS]))
    run(session.pop_item())
    run(session.add_items([OUTPUTS[0], ANSWERED]))
    assert run(session.get_items()) == [ASKED, THOUGHT, CALLS[0], OUTPUTS[0], ANSWERED]
    assert problems_in([*run(session.get_items()), ASKED]) == []  # type: ignore[misc]


def test_an_empty_reply_can_be_popped(session_of: Make) -> None:
    session = session_of()
    blank = said("", 4).model_dump(exclude_unset=True)
    run(session.add_items([ASKED, blank]))
    assert run(session.get_items()) == [ASKED]
    assert run(session.pop_item()) == blank
    assert run(session.pop_item()) == ASKED
    assert run(session.record()) == [ASKED, blank]


def test_popped_words_can_still_be_found(session_of: Make) -> None:
    session = session_of()
    run(session.add_items([{"role": "user", "content": "the password is amber-lantern"}]))
    run(session.pop_item())
    assert session.call_tool("lcm_grep", {"pattern": "amber-lantern"})["total"] == 1


def test_clearing_archives_and_begins_anew(session_of: Make) -> None:
    session = session_of()
    run(session.add_items([ASKED, ANSWERED]))
    run(session.clear_session())
    assert run(session.get_items()) == []
    assert run(session.get_items(limit=5)) == []
    run(session.add_items([ASKED, ANSWERED]))
    assert run(session.get_items()) == [ASKED, ANSWERED]
    conversations = list(session.engine.library.conversations())
    assert [conversation.message_count for conversation in conversations] == [2, 2]


def test_sessions_on_one_engine_do_not_mix(session_of: Make) -> None:
    one, other = session_of("one"), session_of("other")
    run(one.add_items([ASKED]))
    assert run(other.get_items()) == []


def test_bad_arguments_are_named(session_of: Make) -> None:
    with pytest.raises(ValueError, match="needs an id"):
        LcmSession("")
    with pytest.raises(ValueError, match="overhead_tokens"):
        LcmSession("x", overhead_tokens=-1)
    with pytest.raises(LcmError, match="budget"):
        session_of("small", window=-5).engine.assemble(session_of("small").core_session, -5)


def test_the_model_is_told_its_own_last_answer(session_of: Make) -> None:
    session = session_of()
    model = ScriptedModel(lambda items, number: [thought(number), said(f"answer {number}", number)])
    agent = Agent(name="gardener", model=model)
    for number in range(3):
        Runner.run_sync(agent, f"question {number}", session=session)
    assert [item.get("content") for item in model.inputs[-1] if item.get("role") == "user"] == [
        "question 0",
        "question 1",
        "question 2",
    ]
    assert len(model.inputs[-1]) == 7
    assert model.problems == []
    assert len(run(session.record())) == 9  # type: ignore[arg-type]
