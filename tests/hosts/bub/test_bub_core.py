"""The plugin behind the host's hooks, on a real database: what it serves, and what happens when it fails."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lcm_plugin import LcmConfig
from lcm_plugin.hosts.bub.core import Core
from lcm_plugin.hosts.bub.settings import as_environment, config_of
from lcm_plugin.hosts.bub.tape import asked_name, bare, named
from lcm_plugin.types import Session, Turn

from test_bub_tape import turn as taped  # isort: skip

LANE = Session("agent:work-1:cli:local")


class Ticks:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


@pytest.fixture
def core(tmp_path: Path, ticks: Ticks) -> Iterator[Core]:
    made = Core(LcmConfig(database=str(tmp_path / "lcm.db"), busy_timeout_ms=50), monotonic=ticks)
    yield made
    made.close()


def append(*messages: dict[str, Any]) -> Turn:
    return Turn(LANE, list(messages), mode="append")


def asked(run: str, text: str) -> dict[str, Any]:
    return named({"role": "user", "content": text}, asked_name(run, 0))


def stored(core: Core) -> list[str]:
    engine = core.engine()
    assert engine is not None
    return [message["content"] for message in engine.messages(LANE)]


def test_making_a_core_opens_nothing(tmp_path: Path) -> None:
    core = Core(LcmConfig(database=str(tmp_path / "lcm.db")))
    assert len(core.tools()) == 4
    core.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_hook_stored_is_not_stored_again_from_the_tape(core: Core) -> None:
    core.before_turn(append(asked("r1", "hello")))
    core.follow(LANE, taped("r1", "hello", "hi"))
    core.follow(LANE, taped("r1", "hello", "hi"))
    assert stored(core) == ["hello", "hi"]


def test_a_context_ends_with_the_question(core: Core) -> None:
    core.follow(LANE, taped("r1", "hello", "hi"))
    context = core.before_turn(append(asked("r2", "and?")))
    assert context is not None
    assert [message["content"] for message in bare(context.messages)] == ["hello", "hi", "and?"]
    assert all(set(message) == {"role", "content"} for message in bare(context.messages))


def test_a_handoff_takes_what_was_said_out_of_the_context_and_a_reset_archives(core: Core) -> None:
    core.follow(LANE, taped("r1", "hello", "hi"))
    core.handoff(LANE)
    context = core.before_turn(append(asked("r2", "and?")))
    assert context is not None
    assert [message["content"] for message in context.messages] == ["and?"]
    core.reset(LANE)
    assert stored(core) == []


def test_a_database_that_cannot_be_opened_is_told_once(
    ticks: Ticks, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    core = Core(LcmConfig(database="/proc/no/lcm.db"), monotonic=ticks)
    for _ in range(3):
        assert not core.serves(LANE)
        assert core.before_turn(append(asked("r1", "hello"))) is None
        assert core.note(LANE) == ""
        assert "not working" in core.command(LANE, "/lcm")
        assert "not working" in core.call_tool(LANE, "lcm_grep", {"pattern": "x"})["error"]
        ticks.now += 31
    told = [record for record in caplog.records if record.name == "lcm_plugin.bub"]
    assert len(told) == 1
    assert "/proc/no" in told[0].getMessage()
    core.close()


def test_a_locked_database_is_left_alone_for_a_while_and_then_takes_in_everything(
    core: Core, ticks: Ticks, caplog: pytest.LogCaptureFixture
) -> None:
    core.follow(LANE, taped("r1", "hello", "hi"))
    with sqlite3.connect(core.config.database_target, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert core.before_turn(append(asked("r2", "and?"))) is None
        assert core.paused
        assert "nothing was written, try again" in core.problem
        other.execute("ROLLBACK")
    assert core.before_turn(append(asked("r3", "still there?"))) is None
    ticks.now += 31
    tape = [*taped("r1", "hello", "hi"), *taped("r2", "and?", "fine"), *taped("r3", "still there?", "yes")]
    core.follow(LANE, tape)
    assert stored(core) == ["hello", "hi", "and?", "fine", "still there?", "yes"]
    assert not core.problem
    assert len([record for record in caplog.records if record.name == "lcm_plugin.bub"]) == 1


def test_a_fault_in_one_call_is_told_once_and_stops_nothing(
    core: Core, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        odd: Any = "a mode that there is not"
        assert core.before_turn(Turn(LANE, [asked("r1", "x")], mode=odd)) is None
        assert not core.paused
        core.follow(LANE, taped("r2", "hello", "hi"))
    assert stored(core) == ["hello", "hi"]
    told = [record.getMessage() for record in caplog.records if record.name == "lcm_plugin.bub"]
    assert len(told) == 1
    assert "InputError" in told[0]


def test_a_reset_that_could_not_be_done_is_done_before_anything_is_stored(core: Core, ticks: Ticks) -> None:
    core.follow(LANE, taped("r1", "hello", "hi"))
    with sqlite3.connect(core.config.database_target, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        core.reset(LANE)
        other.execute("ROLLBACK")
    ticks.now += 31
    core.follow(LANE, taped("r2", "who are you?", "me"))
    assert stored(core) == ["who are you?", "me"]


def test_ignored_and_stateless_lanes_are_not_served(tmp_path: Path) -> None:
    config = LcmConfig(
        database=str(tmp_path / "lcm.db"),
        ignore_session_patterns=["agent:*:cli:secret"],
        stateless_session_patterns=["agent:*:cli:guest"],
    )
    core = Core(config)
    served = [core.serves(Session(f"agent:w:cli:{name}")) for name in ("secret", "guest", "local")]
    assert served == [False, False, True]
    core.close()


def test_settings_come_from_the_hosts_file_and_the_database_lies_in_its_home(tmp_path: Path) -> None:
    assert config_of(None, tmp_path).database_target == str(tmp_path / "lcm" / "lcm.db")
    named = config_of({"databasePath": "/x/y.db", "freshTailCount": 8}, tmp_path)
    assert named.database_target == "/x/y.db"
    assert named.fresh_tail_count == 8


def test_the_hosts_settings_reach_the_command_lcm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = {
        "contextThreshold": 0.5,
        "freshTailMaxTokens": None,
        "ignoreSessionPatterns": ["agent:*:cron:**"],
        "autocompactDisabled": True,
        "contextThresholdOverrides": [{"match": {"model": "gpt-5"}, "contextThreshold": 0.6}],
    }
    config = config_of(section, tmp_path)
    for name, value in as_environment(config).items():
        monkeypatch.setenv(name, value)
    assert LcmConfig().model_dump() == config.model_dump()


def test_after_three_turns_that_cannot_begin_the_user_is_told_once(tmp_path: Path, ticks: Ticks) -> None:
    core = Core(LcmConfig(database=str(tmp_path)), monotonic=ticks)
    told = []
    for _ in range(5):
        core.open(selected=True)
        told.append(core.news(LANE))
    core.close()
    assert [bool(one) for one in told] == [False, False, True, False, False]
    assert "turn failed 3 times in a row" in told[2]


def test_what_a_tape_lost_since_a_turn_is_taken_back_and_comes_back_with_it(core: Core) -> None:
    tape = [*taped("r1", "one", "first"), *taped("r2", "two", "second"), *taped("r3", "three", "third")]
    core.follow(LANE, tape[:5])
    core.turn_taped(LANE, tape[:5])
    core.follow(LANE, tape)
    core.before_turn(append(asked("r9", "of a turn that runs")))
    core.turn_taped(LANE, tape)
    engine = core.engine()
    assert engine is not None

    def shown() -> list[Any]:
        return [message["content"] for message in engine.assemble(LANE).messages]

    whole = ["one", "first", "two", "second", "three", "third", "of a turn that runs"]
    assert shown() == whole
    core.follow(LANE, [*tape[:5], *tape[10:]])
    assert shown() == ["one", "first", "three", "third", "of a turn that runs"]
    core.follow(LANE, [*tape[:5], *tape[10:]])
    core.follow(LANE, tape[:5])
    assert shown() == ["one", "first", "of a turn that runs"]
    core.follow(LANE, tape)
    assert shown() == whole
    assert stored(core) == whole
    core.reset(LANE)
    core.follow(LANE, [])
    assert shown() == []


def test_a_run_that_another_turn_does_not_see_yet_takes_nothing_back(core: Core) -> None:
    """Two turns of a session run at once, each on a fork of the tape."""
    before = taped("r1", "one", "first")
    core.follow(LANE, before)
    core.turn_taped(LANE, before)
    core.follow(LANE, [*before, *taped("r2", "two", "second")])
    core.follow(LANE, [*before, *taped("r3", "three", "third")])
    engine = core.engine()
    assert engine is not None
    assert len(engine.assemble(LANE).messages) == 5
