"""Removing beside hosts that write, and when it is killed: nothing else is lost, and it can be done again."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from messages import assistant, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.health.lanes import LaneKind, Selection
from lcm_plugin.health.redact_targets import MatchingTexts

SECRET = "sk-Zq81xW77aaPQ"
CHILD = Path(__file__).with_name("prune_child.py")
LIVE = Session("agent:main:live", "run-1")
ARCHIVED = Selection(older_than_ms=0, kinds=frozenset({LaneKind.ARCHIVED}))


def fill(path: Path) -> Engine:
    engine = Engine.open(
        LcmConfig(
            database=str(path),
            fresh_tail_count=2,
            leaf_chunk_tokens=300,
            leaf_min_fanout=2,
            large_file_token_threshold=1_000,
        )
    )
    for number in range(3):
        lane = Session(f"agent:main:lane{number}", "r")
        talk = [
            turn
            for n in range(40)
            for turn in (user(f"{n} of {number}: {SECRET} " + "so on " * 30), assistant(f"yes {n} " * 20))
        ]
        engine.ingest(lane, talk)
        engine.compact(lane, force=True)
        engine.reset_session(lane)
    engine.ingest(LIVE, [user("the live lane " * 20), assistant("goes on")])
    engine.call_tool(LIVE, "lcm_grep", {"pattern": "live"})
    return engine


def errors(engine: Engine) -> list[str]:
    return [finding.message for finding in engine.check().findings if finding.severity == "error"]


@pytest.mark.parametrize("what", ["prune", "redact"])
def test_a_killed_removal_leaves_a_whole_database_and_can_be_done_again(tmp_path: Path, what: str) -> None:
    engine = fill(tmp_path / "lcm.db")
    before = engine.messages(LIVE)
    engine.close()
    whole = tmp_path / "whole"
    shutil.copytree(tmp_path, whole)
    chance = random.Random(what)
    killed = 0
    for tries in range(1, 31):
        child = subprocess.Popen(
            [sys.executable, str(CHILD), str(tmp_path / "lcm.db"), what], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.0, 0.12 / tries))
        child.send_signal(signal.SIGKILL)
        done = "done" in child.communicate()[0]
        killed += not done
        with Engine.open(engine.config) as again:
            assert errors(again) == []
            assert again.messages(LIVE) == before
        if killed == 2:
            break
        if done:  # nothing would be left to interrupt
            shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    assert killed == 2
    shutil.rmtree(whole)
    with Engine.open(engine.config) as again:
        if what == "prune":
            again.retention.apply(again.retention.plan(ARCHIVED), "a person")
            assert [c.session_key for c in again.library.conversations() if c.message_count] == [LIVE.key]
        else:
            target = MatchingTexts.of_text(SECRET)
            again.redaction(again.store).apply(target, "a person")
            assert not again.redaction(again.store).look(target).anything
        assert errors(again) == []
        assert again.messages(LIVE) == before
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


def test_hosts_store_and_read_all_the_while(tmp_path: Path) -> None:
    engine = fill(tmp_path / "lcm.db")
    host = Engine.open(engine.config)
    failed: list[BaseException] = []
    over = threading.Event()
    stored = 0

    def talk() -> None:
        nonlocal stored
        try:
            while not over.is_set() and stored < 400:
                host.ingest(LIVE, [user(f"more {stored} " * 5), assistant(f"well {stored}")])
                stored += 1
                host.assemble(LIVE, 2_000)
        except BaseException as error:  # noqa: BLE001 - told to the test's own thread
            failed.append(error)

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        engine.redaction(engine.store).apply(MatchingTexts.of_text(SECRET), "a person")
        engine.retention.apply(engine.retention.plan(ARCHIVED), "a person")
    finally:
        over.set()
        thread.join()
    assert failed == []
    assert stored > 3
    assert len(engine.messages(LIVE)) == 2 + 2 * stored
    assert errors(engine) == []
    host.close()
    engine.close()


def test_bytes_that_come_again_while_they_are_removed_are_never_missing(tmp_path: Path) -> None:
    config = LcmConfig(database=str(tmp_path / "lcm.db"), large_file_token_threshold=1_000)
    long = "\n".join(f"line {n} of a long text" for n in range(500))
    with Engine.open(config) as host, Engine.open(config) as cleaner:
        over = threading.Event()

        def clean() -> None:
            while not over.is_set():
                cleaner.retention.apply(cleaner.retention.plan(ARCHIVED), "a person", give_back_space=False)

        thread = threading.Thread(target=clean)
        thread.start()
        try:
            for number in range(40):
                lane = Session(f"agent:main:lane{number % 3}")
                host.ingest(lane, [user(long), assistant(f"{number}")])
                assert host.messages(lane)[0]["content"] == long
                host.reset_session(lane)
            host.ingest(LIVE, [user(long)])
        finally:
            over.set()
            thread.join()
        assert host.messages(LIVE)[0]["content"] == long
        assert errors(host) == []
