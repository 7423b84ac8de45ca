"""A long list costs little more than what is new in it, and means the same as when all of it is compared."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from databases import FreshDatabase
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import initialize, run_state_machine_as_test
from messages import assistant, call, result, user
from test_truth_machine import LANE, TruthMachine

import lcm_plugin
from lcm_plugin import Engine, LcmPlugin, Session, Turn
from lcm_plugin.ingest.host_noise import StandingTexts
from lcm_plugin.ingest.intake import Intake
from lcm_plugin.ingest.redaction import Redactor
from lcm_plugin.types import IngestMode, Message

Open = Callable[..., Engine]
PACKAGE = str(Path(lcm_plugin.__file__).parent)


def talk(count: int, named: bool = False) -> list[Message]:
    made = [
        (user if n % 2 == 0 else assistant)(f"message {n} of a long day at the harbour") for n in range(count)
    ]
    return [{**one, "id": f"m{n}"} for n, one in enumerate(made)] if named else made


@contextmanager
def calls_counted() -> Iterator[Counter[str]]:
    """How often each function of the package is called meanwhile."""
    counted: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            counted[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield counted
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("mode", ["sync", "whole", "state", "part"])
def test_a_turn_costs_the_same_however_long_the_list_is(open_engine: Open, mode: IngestMode) -> None:
    spent: dict[int, Counter[str]] = {}
    for length in (200, 1_200):
        engine, session = (
            open_engine(f"lcm{length}", autocompact_disabled=True),
            Session(f"agent:main:{length}"),
        )
        listing = talk(length, named=True)
        for _ in range(2):
            engine.ingest(session, listing, mode)
        listing += [{**user("And what comes next?"), "id": "asked"}]
        with calls_counted() as spent[length]:
            assert engine.ingest(session, listing, mode).stored == 1
        assert spent[length]["identity_of"] <= 2
        assert spent[length]["to_message"] <= 2
    # Nothing but names and places may be gathered of each message.
    assert spent[1_200].total() < spent[200].total() + 200


def test_a_list_is_known_still_after_a_compaction(open_engine: Open, session: Session) -> None:
    engine = open_engine(fresh_tail_count=8, leaf_chunk_tokens=500, leaf_target_tokens=100)
    listing = talk(300, named=True)
    for _ in range(2):
        engine.ingest(session, listing, "state")
    assert engine.compact(session, True).compacted
    listing += [{**user("And what comes next?"), "id": "asked"}]
    with calls_counted() as counted:
        assert engine.ingest(session, listing, "state").stored == 1
    assert counted["message_head"] < 100
    listing = listing[:200]
    engine.ingest(session, [*listing, {**user("Go on from here"), "id": "here"}], "state")
    shown = [message["content"] for message in engine.assemble(session, 100_000).messages]
    assert "Go on from here" in shown
    assert not any("message 250" in str(text) for text in shown)


@pytest.mark.long
def test_a_run_that_others_overtake_still_sees_its_own_question(engine: Engine, session: Session) -> None:
    plugin = LcmPlugin(engine=engine)

    def shown(listing: list[Message]) -> list[Message]:
        context = plugin.before_turn(Turn(session, listing, window=200_000))
        assert context is not None
        return context.messages

    before = talk(150)
    shown([*before, user("the beginning of it all")])
    before += [user("the beginning of it all"), assistant("so it begins, at last")]
    one, other = [*before, user("look at A")], [*before, user("look at B")]
    assert shown(one) == one
    assert shown(other) == other
    for step in range(60):
        name = f"call_of_run_b_{step}"
        other += [call(name), result(name, f"seen {step}")]
        shown(other)
        assert shown(one) == one
    one += [call("call_of_run_a_1"), result("call_of_run_a_1", "seen at A")]
    assert shown(one) == one
    assert shown(other) == other
    plugin.after_turn(Turn(session, [*other, assistant("Seen all of B, sixty times over")], window=200_000))
    assert shown(one) == one


@pytest.mark.long
def test_a_turn_with_very_many_messages_keeps_its_place(engine: Engine, session: Session) -> None:
    plugin, listing = LcmPlugin(engine=engine), [user("do all of it, please")]
    for step in range(150):
        name = f"call_of_one_turn_{step}"
        listing += [call(name), result(name, f"done {step}")]
        context = plugin.before_turn(Turn(session, listing, window=200_000))
        assert context is not None
        assert context.messages == listing
    report = engine.ingest(session, listing, "sync")
    assert report.run is not None
    assert (report.run.fork, report.run.turn, report.run.end) == (0, 1, 301)


class LongTruthMachine(TruthMachine):
    """The same lives, behind so many messages that lists are compared from near their end."""

    @initialize()
    def open_engine(self) -> None:
        super().open_engine()
        for number in range(50):
            self.host += [
                self.say(user(f"early question {number}, said once")),
                self.say(assistant(f"early answer {number}, said once")),
            ]
        self.engine.ingest(LANE, self.host, "sync")
        self.engine.ingest(LANE, self.host, "sync")


@pytest.mark.long
@pytest.mark.sqlite_only
def test_long_lists_are_the_truth_too(fresh_database: FreshDatabase) -> None:
    machine: Any = lambda: LongTruthMachine(fresh_database)  # noqa: E731
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=8,
            stateful_step_count=15,
            deadline=None,
            derandomize=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
            phases=[Phase.generate],
        ),
    )


def test_only_a_list_that_comes_again_is_kept() -> None:
    intake = Intake(Redactor(()), StandingTexts((), ()))

    def kept_after(grows: str | None, text: str) -> bool:
        before = sys.getrefcount(text)
        intake.take([user(text)], grows)
        return sys.getrefcount(text) > before

    assert not kept_after(None, " ".join(["a delta"] * 9))
    assert kept_after("a list", " ".join(["a list"] * 9))
