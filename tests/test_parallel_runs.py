"""Two runs at the same time in one session: each is shown its own running turn at the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, LcmPlugin, Session, Turn
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores_under_ci

Open = Callable[..., Engine]
BEFORE = [user("Good morning to the two of you."), assistant("Good morning.")]


def context(plugin: LcmPlugin, session: Session, listing: list[Message]) -> list[Message]:
    made = plugin.before_turn(Turn(session, listing, window=32_000))
    assert made is not None
    return made.messages


def work(run: str, number: int) -> list[Message]:
    name = f"call_of_run_{run}_{number}"
    return [call(name, text=None), result(name, f"{run} found {number}")]


def test_each_run_sees_its_own_turn_and_nothing_moves_within_it(engine: Engine, session: Session) -> None:
    plugin = LcmPlugin(engine=engine)
    runs = {name: [*BEFORE, user(f"Question of {name}?")] for name in "AB"}
    seen = {name: context(plugin, session, runs[name]) for name in "AB"}
    for number, name in enumerate("ABABBA"):
        runs[name] += work(name, number)
        now = context(plugin, session, runs[name])
        assert now == runs[name]
        assert now[: len(seen[name])] == seen[name]
        seen[name] = now
    for name in "BA":
        runs[name].append(assistant(f"Answer to {name}."))
        plugin.after_turn(Turn(session, runs[name], window=32_000))
    stored = plugin.engine.messages(session)
    assert len(stored) == len({str(message) for message in stored})
    both = [*BEFORE, *runs["A"][2:], *runs["B"][2:], user("And now together?")]
    after = context(plugin, session, both)
    assert after[-1] == both[-1]
    assert all(message in after for message in both)


def test_a_run_whose_answer_is_made_again_ends_with_its_question(engine: Engine, session: Session) -> None:
    plugin = LcmPlugin(engine=engine)
    listing = [*BEFORE, user("Question of A?")]
    context(plugin, session, listing)
    plugin.after_turn(Turn(session, [*listing, assistant("A first answer.")], window=32_000))
    assert context(plugin, session, listing) == listing
    plugin.after_turn(Turn(session, [*listing, assistant("A second answer.")], window=32_000))
    assert context(plugin, session, [*listing, assistant("A second answer."), user("Next?")]) == [
        *listing,
        assistant("A second answer."),
        user("Next?"),
    ]


def test_deltas_of_two_runs_are_answered_each_with_its_own_question(engine: Engine, session: Session) -> None:
    engine.ingest(session, BEFORE)
    runs = {name: engine.ingest(session, [user(f"Question of {name}?")]).run for name in "AB"}
    for name, run in runs.items():
        assert engine.assemble(session, 8_000, run=run).messages[-1] == user(f"Question of {name}?")
