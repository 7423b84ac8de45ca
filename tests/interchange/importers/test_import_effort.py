"""Reading takes work in proportion to what is read, and memory for a part of it, whatever the format."""

from __future__ import annotations

import sqlite3
import sys
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import any_talk
import pytest
from any_talk import WRITERS, Kind
from session_logs import CodexLog, Log

from lcm_plugin import Engine
from lcm_plugin.interchange.importers.importing import find_sources, load, look_over

_VM_STEPS = 10
# A conversation is one JSON value here, and its newest message says which branch is live.
WHOLE = {"librechat", "claude-ai", "chatgpt", "sharegpt"}


@contextmanager
def counted_work(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How often a function was called or left, and how many steps SQLite took, by tens."""
    work = [0]
    connect = sqlite3.connect

    def one_more(*_: Any) -> None:
        work[0] += 1

    def counted(*arguments: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **named)
        connection.set_progress_handler(one_more, _VM_STEPS)
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", counted)
        before = sys.getprofile()
        sys.setprofile(one_more)
        try:
            yield work
        finally:
            sys.setprofile(before)


def work_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    (source,), _ = find_sources([str(path)])
    with counted_work(monkeypatch) as work:
        look_over(source)
    return work[0]


@pytest.mark.parametrize("name", list(WRITERS))
def test_four_times_the_talk_takes_four_times_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write, _ = WRITERS[name]
    turn: list[Kind] = ["user", "call", "answer"]
    works = []
    for turns in (40, 160):
        folder = tmp_path / str(turns)
        folder.mkdir()
        works.append(work_of(write(folder, f"ses_{turns}", turn * turns), monkeypatch))
    small, large = works
    assert small > 40
    assert large < 4.5 * small


def rolled_back(log: CodexLog, number: int) -> None:
    log.item("user", f"turn {number}")
    log.roll_back()


def rewound(log: Log, number: int) -> None:
    log.add({"id": f"m{number}", "type": "user", "content": f"turn {number}"})
    log.add({"id": f"a{number}", "type": "gemini", "content": "Done."})
    if number % 2:
        log.add({"$rewindTo": f"m{number}"})


def test_taking_back_many_turns_takes_work_for_each_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    works: dict[str, list[int]] = {"codex": [], "gemini": []}
    for turns in (100, 400):
        codex = CodexLog(tmp_path / str(turns) / "rollout-2026-11-02T00-00-00-019a-t.jsonl")
        codex.meta("019a-t")
        gemini = Log(tmp_path / str(turns) / "session-1.jsonl")
        gemini.add({"sessionId": "g1", "projectHash": "h"})
        for number in range(turns):
            rolled_back(codex, number)
            rewound(gemini, number)
        works["codex"].append(work_of(codex.path, monkeypatch))
        works["gemini"].append(work_of(gemini.path, monkeypatch))
    for few, many in works.values():
        assert many < 4.5 * few


def test_a_second_import_asks_as_little_about_each_of_many_branches(
    tmp_path: Path, open_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    works = []
    for turns in (40, 160):
        log = CodexLog(tmp_path / str(turns) / "rollout-2026-11-02T00-00-00-019a-t.jsonl")
        log.meta("019a-t")
        for number in range(turns):
            log.item("user", f"turn {number}")
            for answer in range(20):
                log.item("assistant", f"answer {answer} in turn {number}")
            log.roll_back()
        (source,), _ = find_sources([str(log.path)])
        with counted_work(monkeypatch) as work:
            engine = open_engine(f"turns-{turns}")
            load(engine, source)
            engine.wait_idle()
            work[0] = 0
            assert load(engine, source).total("new") == 0
            works.append(work[0])
    few, many = works
    assert many < 5.5 * few


@pytest.mark.parametrize("name", [name for name in WRITERS if name not in WHOLE])
def test_a_session_is_not_held_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write, _ = WRITERS[name]
    monkeypatch.setattr(any_talk, "words", lambda number: f"{number} " + "the tide tables " * 2_500)
    talk: list[Kind] = ["user", "answer"]
    path = write(tmp_path, "ses_1", talk * 150)
    (source,), _ = find_sources([str(path)])
    tracemalloc.start()
    try:
        deque(source.records(), maxlen=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 2
