"""The host's tape as messages: what a hook saw and what the tape holds get the same ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_plugin.hosts.bub.tape import (
    asked_name,
    bare,
    calling,
    is_handoff,
    named,
    runs_newest_first,
    since_last_anchor,
    unseen,
)
from lcm_plugin.messages.identity import host_id_of

CALLS = [{"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]


@dataclass(frozen=True)
class Entry:
    """An entry as the host's store returns it."""

    kind: str
    payload: dict[str, Any]
    meta: dict[str, Any] = field(default_factory=dict)
    date: str = "2026-01-02T03:04:05+00:00"


def turn(run: str, asked: str, answer: str) -> list[Entry]:
    meta = {"run_id": run}
    return [
        Entry("event", {"name": "loop.step.start", "data": {}}),
        Entry("system", {"content": "be kind"}, meta),
        Entry("message", {"role": "user", "content": asked}, meta),
        Entry("message", {"role": "assistant", "content": answer}, meta),
        Entry("event", {"name": "run", "data": {"status": "ok"}}, meta),
    ]


def tool_round(run: str, results: list[Any]) -> list[Entry]:
    meta = {"run_id": run}
    return [
        Entry("message", {"role": "user", "content": "look"}, meta),
        Entry("tool_call", {"calls": CALLS}, meta),
        Entry("tool_result", {"results": results}, meta),
    ]


def texts(tape: list[Entry], known: set[str] | None = None) -> list[str]:
    return [message["content"] for message in unseen(tape, lambda ids: (known or set()) & set(ids))]


def test_a_tape_becomes_messages_in_order() -> None:
    tape = [*turn("r1", "hello", "hi"), *tool_round("r2", ["seen"]), *turn("r3", "and?", "done")]
    messages = bare(unseen(tape, lambda ids: set()))
    assert [message["role"] for message in messages] == [
        "user", "assistant", "user", "assistant", "tool", "user", "assistant",
    ]  # fmt: skip
    assert messages[3] == {"role": "assistant", "content": "", "tool_calls": CALLS}
    assert messages[4] == {"role": "tool", "content": "seen", "tool_call_id": "call_1", "name": "bash"}


def test_what_a_hook_saw_has_the_id_of_its_record() -> None:
    (run,) = runs_newest_first(tool_round("r2", ["seen"]))
    assert host_id_of(run.asked[0]) == host_id_of(named({"role": "user"}, asked_name("r2", 0)))
    assert host_id_of(run.answered[0]) == host_id_of(named(calling(CALLS, None), "r2"))


def test_all_ids_of_a_tape_differ() -> None:
    tape = [*turn("r1", "go on", "yes"), *turn("r2", "go on", "yes"), *tool_round("r3", ["a", "a"])]
    ids = [host_id_of(message) for message in unseen(tape, lambda ids: set())]
    assert len(set(ids)) == len(ids) == 8


def test_only_what_is_not_stored_is_returned() -> None:
    tape = [*turn("r1", "hello", "hi"), *turn("r2", "and?", "done")]
    assert texts(tape, {"user:r1/0", "assistant:r1"}) == ["and?", "done"]
    assert texts(tape, {"user:r1/0", "assistant:r1", "user:r2/0"}) == ["done"]


def test_a_question_tried_again_is_known_by_its_answer() -> None:
    assert texts(turn("r2", "and?", "done"), {"assistant:r2"}) == []


@pytest.mark.parametrize(
    ("result", "text"), [({"a": "ä"}, '{"a": "ä"}'), ([1, None], "[1, null]"), ("x", "x")]
)
def test_a_result_is_written_as_the_host_writes_it(result: Any, text: str) -> None:
    assert texts(tool_round("r1", [result]))[-1] == text


def test_more_results_than_calls_and_odd_entries_are_taken_as_they_come() -> None:
    meta = {"run_id": "r1"}
    tape = [
        Entry("message", {"content": "nobody said this"}, meta),
        Entry("tool_call", {"calls": "none"}, meta),
        Entry("tool_result", {"results": ["lost"]}, meta),
        Entry("tool_result", {"results": None}, meta),
    ]
    messages = bare(unseen(tape, lambda ids: set()))
    assert messages == [
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "tool", "content": "lost"},
    ]


def test_entries_without_a_run_are_known_by_their_time() -> None:
    tape = [
        Entry("message", {"role": "user", "content": "one"}, date="2026-01-01T00:00:00+00:00"),
        Entry("message", {"role": "user", "content": "two"}, date="2026-01-01T00:00:01+00:00"),
    ]
    assert texts(tape) == ["one", "two"]
    assert texts(tape, {"user:2026-01-01T00:00:00+00:00/0"}) == ["two"]


def test_handoffs_are_told_from_the_hosts_own_anchors() -> None:
    anchors = ["session/start", "auto_handoff/context_overflow", "phase-2"]
    assert [is_handoff(Entry("anchor", {"name": name})) for name in anchors] == [False, False, True]
    assert not is_handoff(Entry("event", {"name": "handoff"}))


def test_the_hosts_own_context_begins_after_the_last_anchor() -> None:
    anchor = Entry("anchor", {"name": "phase-2"})
    first, second = turn("r1", "a", "b"), turn("r2", "c", "d")
    assert since_last_anchor([*first, anchor, *second]) == second
    assert since_last_anchor([*first, anchor]) == []
    assert since_last_anchor(first) == first


@given(stored=st.integers(0, 60), count=st.integers(0, 60))
@settings(max_examples=examples(60), deadline=None)
def test_whatever_the_store_has_of_a_tape_the_rest_follows_in_order(stored: int, count: int) -> None:
    tape = [entry for n in range(count) for entry in turn(f"r{n}", f"asked {n}", f"answer {n}")]
    every = unseen(tape, lambda ids: set())
    known = {host_id_of(message) or "" for message in every[:stored]}
    asked: list[int] = []

    def look(ids: list[str]) -> set[str]:
        asked.append(len(ids))
        return known & set(ids)

    assert unseen(tape, look) == every[stored:]
    if stored >= len(every):
        assert len(asked) <= 1
