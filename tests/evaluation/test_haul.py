"""A haul plays generated talk in a host that is killed, and notices what is lost, doubled or out of order."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from fakes.shell import run_here

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.errors import InputError
from lcm_plugin.evaluation.haul.host import Options, play
from lcm_plugin.evaluation.haul.run import Result, _compare, haul
from lcm_plugin.evaluation.haul.talk import SHAPES, HostList, key_of, shape_of, steps

HELD = Result(
    tokens=10, messages=10, window=100, found=1, searched=1, bytes_per_token=[2.0, 2.0], memory=[100.0, 100.0]
)


class Broken(Exception):
    """The haul's own end, before it is through."""


@pytest.mark.long
def test_a_killed_host_and_a_haul_that_was_broken_off_lose_and_double_nothing(tmp_path: Path) -> None:
    def break_off(remark: str) -> None:
        if remark == "checking":
            raise Broken

    with pytest.raises(Broken):
        haul(24_000, 3, 2, seed=3, told=break_off, kept=tmp_path)
    # Of the steps the last three are forgotten, the third to last within its line.
    file = tmp_path / "progress.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-3]) + lines[-3][:20])
    done = haul(24_000, 3, 2, seed=3, kept=tmp_path)
    assert (done.lost, done.doubled, done.misplaced, done.kills) == (0, 0, 0, 2)
    assert (done.faults, done.findings) == (0, 0)
    assert done.found == done.searched > 0
    assert 0 < done.largest_context <= done.window
    assert done.messages > 30
    assert len(done.memory) == 4
    assert done.cpu_minutes > 0
    with pytest.raises(InputError, match="another run"):
        haul(24_000, 3, 2, seed=4, kept=tmp_path)


def test_talk_is_the_same_for_a_seed_and_every_message_can_be_told_apart() -> None:
    first = list(islice(steps(1, 1), 300))
    assert first == list(islice(steps(1, 1), 300))
    names = [message["id"] for step in first for message in step.messages]
    assert len(names) == len(set(names))
    assert {step.kind for step in first} == {"turn", "branch", "new", "reset"}
    assert {step.kind for step in islice(steps(1, 0), 300)} == {"turn", "new", "reset"}
    assert [shape_of(number) for number in range(3)] == list(SHAPES)


def test_a_hosts_list_begins_anew_with_a_reset_and_loses_a_turn_with_a_branch() -> None:
    said = HostList()
    for step in islice(steps(1, 1), 300):
        before = list(said.messages)
        began = said.turn_began
        said.begin(step)
        if step.kind == "branch":
            assert said.messages == before[:began]
        elif step.kind == "turn":
            assert said.messages == before
        else:
            assert said.messages == []
        said.messages += step.messages


@pytest.mark.long
def test_what_is_missing_twice_there_or_in_another_place_is_counted(tmp_path: Path) -> None:
    counts = [4, 4]
    options = Options(str(tmp_path / "a.db"), 1, 32_000, counts, [0, 0])
    assert [one.session for one in play(options)] == [0, 1] * 4
    with Engine.open(LcmConfig(database=options.database)) as engine:
        whole = Result()
        _compare(whole, engine, 1, counts)
        assert (whole.lost, whole.doubled, whole.misplaced) == (0, 0, 0)
        [*_, last] = islice(steps(1, 0), 4)
        engine.ingest(Session(key_of(0)), [dict(last.messages[0]) | {"content": "again"}], "all")
        more = Result()
        _compare(more, engine, 1, [4, 5])
        assert (more.doubled, more.misplaced) == (1, 1)
        assert more.lost == len(list(islice(steps(1, 1), 5))[-1].messages)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lost": 1}, "1 messages lost"),
        ({"doubled": 2}, "2 messages doubled"),
        ({"misplaced": 1}, "another order"),
        ({"largest_context": 101}, "a context of 101"),
        ({"faults": 1}, "faults"),
        ({"findings": 1}, "integrity"),
        ({"found": 0}, "0 of 1"),
        ({"search_p95_ms": 1e6}, "searches take"),
        ({"bytes_per_token": [2.0, 2.6]}, "bytes a token"),
        ({"memory": [100.0, 151.0]}, "memory grows"),
    ],
)
def test_each_thing_that_does_not_hold_is_named(change: dict[str, object], said: str) -> None:
    assert HELD.missed == []
    [failure] = replace(HELD, **change).missed  # type: ignore[arg-type]
    assert said in failure


@pytest.mark.long
def test_the_command_prints_what_held() -> None:
    done = run_here("eval", "haul", "--tokens", "20000", "--sessions", "2", "--kills", "1", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0, found
    assert found["missed"] == []
    assert found["command"].startswith("lcm eval haul --tokens 20000 --sessions 2 --kills 1")
