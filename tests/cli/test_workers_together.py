"""Three ``lcm worker`` on one PostgreSQL database: each job is done once, whoever dies or is told to stop."""

from __future__ import annotations

import os
import re
import signal
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.processes import Running, piped
from fakes.shell import program
from invariants import assert_sound
from messages import user
from waiting import eventually

from lcm_plugin import Engine, LcmConfig, Session

COMMAND = program("worker", "--poll", "0.2")[1:]
COMPACTED = re.compile(r"conversation (\d+): done, [\d,]+ to [\d,]+ tokens in \d+ pass")
CHECKED = re.compile(r"conversation (\d+): scan(?:_and_plan)? done, ")
SETTINGS = {"fresh_tail_count": 4, "leaf_chunk_tokens": 1_000, "leaf_target_tokens": 96}


class Workers:
    """Worker processes on one database, with what each has printed."""

    def __init__(self, url: str, folder: Path) -> None:
        self._command = [*COMMAND, "--database", url]
        self._folder = folder
        self._env = {**os.environ, **{f"LCM_{name.upper()}": str(value) for name, value in SETTINGS.items()}}
        self.running: list[Running] = []

    def start(self, *words: str, **env: str) -> Running:
        """One more of them."""
        output = self._output(len(self.running))
        output.touch()
        process = Running(*self._command, *words, env=self._env | env, stdout=output, stderr=output)
        self.running.append(process)
        return process

    def printed(self, number: int) -> str:
        return self._output(number).read_text()

    def found(self, pattern: re.Pattern[str]) -> list[str]:
        """What all of them together have printed."""
        return [one for number in range(len(self.running)) for one in pattern.findall(self.printed(number))]

    def stop(self) -> None:
        """SIGTERM to all that run, and what they end with."""
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait() == 0

    def _output(self, number: int) -> Path:
        return self._folder / f"worker-{number}.txt"


@pytest.fixture
def url(postgres_server: str) -> str:
    return f"{postgres_server}{'&' if '?' in postgres_server else '?'}schema=workers_{uuid.uuid4().hex[:8]}"


@pytest.fixture
def workers(url: str, tmp_path: Path) -> Iterator[Workers]:
    started = Workers(url, tmp_path)
    yield started
    for process in started.running:
        process.kill()


def owe(engine: Engine, count: int, *, checks: bool) -> list[str]:
    """Conversations that are over their threshold and to be checked, by number."""
    numbers = []
    for lane in range(count):
        session = Session(f"agent:main:{lane}", "run-1")
        engine.ingest(
            session, [user(f"bed {n}: water the lilies at dusk " + "slowly " * 60) for n in range(30)]
        )
        with engine.store.write() as writer:
            conversation = writer.find_conversation(session)
            assert conversation is not None
            here = conversation.conversation_id
            writer.request_compaction(here, "over_threshold", 2_000, engine.clock())
            if checks:
                writer.request_integrity(
                    here, "scan_and_plan" if lane % 2 else "scan", "manual", engine.clock()
                )
        numbers.append(str(here))
    return numbers


def test_three_workers_share_what_is_owed_and_do_each_job_once(url: str, workers: Workers) -> None:
    with Engine.open(LcmConfig(database=url, **SETTINGS)) as engine:
        for _ in range(3):
            workers.start("--metrics-port", "0")
        eventually(lambda: all("metrics: " in workers.printed(number) for number in range(3)))
        numbers = owe(engine, 18, checks=True)
        eventually(lambda: len(workers.found(CHECKED)) >= 18 and len(workers.found(COMPACTED)) >= 18)
        scraped = []
        for number in range(3):
            (address,) = re.findall(r"metrics: (\S+)", workers.printed(number))
            with urllib.request.urlopen(address) as answer:
                scraped.append(answer.read().decode())
        workers.stop()
        assert sorted(workers.found(COMPACTED), key=int) == numbers
        assert sorted(workers.found(CHECKED), key=int) == numbers
        counted = [
            float(n)
            for text in scraped
            for n in re.findall(r"^lcm_compaction_runs_total.* (\S+)$", text, re.M)
        ]
        assert sum(counted) == 18
        took_part = [number for number in range(3) if COMPACTED.search(workers.printed(number))]
        assert len(took_part) > 1
        assert len(engine.integrity_jobs.finished()) == 18
    assert_sound(url)


def test_what_a_killed_worker_held_is_done_by_another_at_once(url: str, workers: Workers) -> None:
    with Engine.open(LcmConfig(database=url, **SETTINGS)) as engine:
        (number,) = owe(engine, 1, checks=False)
        with piped("-c", _LEASE_HOLDER, url, number) as (_, printed):
            assert printed.readline() == "held\n"
        workers.start()
        eventually(lambda: workers.found(COMPACTED) == [number])
        workers.stop()
        assert "1 compaction (" in workers.printed(0)
    assert_sound(url)


def test_a_check_of_a_killed_worker_is_done_by_another_at_once(url: str, workers: Workers) -> None:
    with Engine.open(LcmConfig(database=url, **SETTINGS)) as engine:
        (number,) = owe(engine, 1, checks=True)
        with piped("-c", _HOLDER, url, number) as (_, printed):
            assert printed.readline() == "held\n"
            workers.start()
            eventually(lambda: workers.found(COMPACTED) == [number])
            time.sleep(0.5)
            assert workers.found(CHECKED) == []
        eventually(lambda: workers.found(CHECKED) == [number])
        workers.stop()


def test_a_worker_ends_after_the_job_at_hand_and_leaves_the_rest_owed(url: str, workers: Workers) -> None:
    with Engine.open(LcmConfig(database=url, **SETTINGS)) as engine:
        numbers = owe(engine, 40, checks=False)
        workers.start()
        eventually(lambda: workers.found(COMPACTED))
        workers.stop()
        with engine.store.read() as reader:
            owed = [str(debt.conversation_id) for debt in reader.due_debts(engine.clock())]
        assert owed
        assert sorted([*workers.found(COMPACTED), *owed], key=int) == numbers
    assert_sound(url)


# The lease lasts far longer than anything here is waited for.
_LEASE_HOLDER = """
import sys, time
from lcm_plugin import Engine, LcmConfig
from lcm_plugin.compaction import leases

leases.LEASE_MS = 3_600_000
with Engine.open(LcmConfig(database=sys.argv[1])) as engine:
    assert leases.CompactionLease.of(engine.store, int(sys.argv[2]), engine.clock)
    print("held", flush=True)
    time.sleep(1_000)
"""
_HOLDER = """
import sys, time
from lcm_plugin import Engine, LcmConfig
from lcm_plugin.store.leases import new_holder

with Engine.open(LcmConfig(database=sys.argv[1])) as engine:
    with engine.store.write() as writer:
        assert writer.claim_integrity(int(sys.argv[2]), new_holder(), engine.clock(), 900_000)
    print("held", flush=True)
    time.sleep(1_000)
"""
