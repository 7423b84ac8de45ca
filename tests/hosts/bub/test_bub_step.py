"""One model call of the host: what is new in its list, and what came back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lcm_plugin.hosts.bub.step import answer_of, begin_step, step_of
from lcm_plugin.hosts.bub.tape import bare
from lcm_plugin.messages.identity import host_id_of

SYSTEM = {"role": "system", "content": "be kind"}


def state(**more: Any) -> dict[str, Any]:
    return {"session_id": "cli:local", "_runtime_workspace": "/w", **more}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def ids(messages: list[dict[str, Any]]) -> list[str | None]:
    return [host_id_of(message) for message in messages]


def test_new_is_what_the_host_added_to_the_context() -> None:
    step = begin_step(state())
    assert step is not None
    step.shown = [user("go on"), {"role": "assistant", "content": "yes"}]
    step.ask([SYSTEM, *step.shown, user("go on")], "r1")
    assert bare(step.asked) == [user("go on")]
    assert ids(step.asked) == ["user:r1/0"]


def test_a_call_that_failed_keeps_its_ids_when_it_is_tried_again() -> None:
    step = begin_step(state())
    assert step is not None
    step.ask([user("one")], "r1")
    step.failed()
    step.ask([user("one"), user("two")], "r2")
    assert ids(step.asked) == ["user:r1/0", "user:r2/1"]
    step.answered()
    step.ask([user("one")], "r3")
    assert ids(step.asked) == ["user:r3/0"]


def test_another_question_after_a_failure_is_a_new_one() -> None:
    step = begin_step(state())
    assert step is not None
    step.ask([user("one")], "r1")
    step.failed()
    step.ask([user("another")], "r2")
    assert ids(step.asked) == ["user:r2/0"]


def test_a_turn_has_one_step_and_a_copy_of_its_state_another() -> None:
    turn = state()
    step = begin_step(turn)
    assert begin_step(turn) is step
    assert step_of(turn) is step
    child = {**turn, "session_id": "temp/1"}
    assert step_of(child) is None
    assert begin_step(child) is not step
    assert step_of(turn) is step
    assert begin_step({}) is None


def test_an_answer_is_what_the_host_will_record() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]
    calling = answer_of(SimpleNamespace(text=None, tool_calls=calls), "r1")
    assert bare([calling]) == [{"role": "assistant", "content": "", "tool_calls": calls}]
    said = answer_of(SimpleNamespace(text="hi", tool_calls=[]), "r1")
    assert bare([said]) == [{"role": "assistant", "content": "hi"}]
    assert ids([calling, said]) == ["assistant:r1"] * 2
