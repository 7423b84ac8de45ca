"""Integrity jobs that a worker does, and the small check after compactions that asks for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from databases import RawDatabase
from fakes.shell import run_here
from messages import user
from old_schema import take_back

from lcm_plugin import CompletionRequest, Engine, LcmConfig, Session
from lcm_plugin.events import Event
from lcm_plugin.maintenance.jobs import LEASE_MS
from lcm_plugin.store.leases import new_holder
from lcm_plugin.store.protocol import Store

pytestmark = pytest.mark.both_stores

Open = Callable[..., Engine]
Named = Callable[[str], str]
SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 400,
    "leaf_target_tokens": 96,
    "summary_max_calls_per_window": 1_000,
}


@pytest.fixture
def store(engine: Engine) -> Store:
    return engine.store


def conversation(store: Store, key: str) -> int:
    with store.write() as writer:
        return writer.open_conversation(Session(key), 1).conversation_id


def test_a_job_is_taken_once_and_again_when_its_holder_died(store: Store) -> None:
    here = conversation(store, "taken")
    with store.write() as writer:
        writer.request_integrity(here, "scan", "manual", 5)
        job = writer.claim_integrity(here, "one", 10, 100)
        assert job is not None
        assert (job.mode, job.reason, job.requested_at, job.state) == ("scan", "manual", 5, "running")
        assert writer.claim_integrity(here, "two", 50, 100) is None
        assert [one.conversation_id for one in writer.due_integrity_jobs(50)] == []
        again = writer.claim_integrity(here, "two", 200, 100)
        assert again is not None
        assert not writer.settle_integrity(job, "one", "done", 210, "{}")
        assert writer.settle_integrity(again, "two", "done", 220, '{"ok": true}')
        assert writer.due_integrity_jobs(10_000) == []
        (done,) = [one for one in writer.finished_integrity_jobs() if one.conversation_id == here]
    assert (done.state, done.finished_at, done.result, done.owner) == ("done", 220, '{"ok": true}', None)


def test_a_held_job_is_renewed_by_its_holder_alone(store: Store) -> None:
    here = conversation(store, "renewed")
    with store.write() as writer:
        writer.request_integrity(here, "scan", "manual", 5)
        assert not writer.renew_integrity(here, "one", 10, 100)
        assert writer.held_integrity_jobs() == []
        assert writer.claim_integrity(here, "one", 10, 100) is not None
        assert writer.renew_integrity(here, "one", 90, 100)
        assert not writer.renew_integrity(here, "two", 90, 1_000)
        assert writer.claim_integrity(here, "two", 150, 100) is None
        (held,) = writer.held_integrity_jobs()
        assert (held.conversation_id, held.owner, held.lease_until) == (here, "one", 190)
        writer.release_integrity(here, "two")
        assert len(writer.held_integrity_jobs()) == 1
        writer.release_integrity(here, "one")
        assert writer.held_integrity_jobs() == []
        assert writer.claim_integrity(here, "two", 160, 100) is not None


def test_a_worker_takes_what_a_dead_process_of_this_machine_holds(open_engine: Open) -> None:
    engine = open_engine(**SETTINGS)
    session = Session("agent:main:dead", "run-1")
    engine.ingest(session, [user(f"bed {n}: water the lilies at dusk " + "slowly " * 60) for n in range(40)])
    here = conversation(engine.store, session.key)
    dead = new_holder().replace(f"|{os.getpid()}|", f"|{_number_of_the_dead()}|")
    with engine.store.write() as writer:
        writer.request_integrity(here, "scan", "manual", 5)
        assert writer.claim_integrity(here, dead, engine.clock(), 900_000) is not None
        writer.request_compaction(here, "over_threshold", 2_000, engine.clock())
        assert writer.claim_debt(here, dead, engine.clock(), 900_000) is not None
        assert [debt.owner for debt in writer.held_debts()] == [dead]
    report = engine.work(threading.Event(), until_idle=True)
    assert (report.integrity_checks, report.compactions > 0) == (1, True)
    with engine.store.read() as reader:
        assert reader.held_debts() == []


def _number_of_the_dead() -> int:
    """The number of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_what_waits_keeps_its_time_and_the_more_thorough_mode(store: Store) -> None:
    here = conversation(store, "waits")
    with store.write() as writer:
        writer.request_integrity(here, "scan_and_plan", "sample", 5)
        writer.request_integrity(here, "scan", "manual", 9)
        job = writer.integrity_job(here)
        assert job is not None
        assert (job.requested_at, job.mode, job.reason) == (5, "scan_and_plan", "manual")


def test_what_is_asked_for_while_it_is_done_is_done_again(store: Store) -> None:
    here = conversation(store, "again")
    with store.write() as writer:
        writer.request_integrity(here, "scan", "manual", 5)
        job = writer.claim_integrity(here, "one", 10, 100)
        assert job is not None
        writer.request_integrity(here, "scan_and_plan", "manual", 20)
        assert writer.settle_integrity(job, "one", "done", 30, "{}")
        left = writer.integrity_job(here)
    assert left is not None
    assert (left.state, left.mode) == ("pending", "scan_and_plan")


def test_a_worker_does_what_the_command_line_asked_for(
    open_engine: Open, raw_database: Callable[..., RawDatabase], database_named: Named, session: Session
) -> None:
    engine = open_engine(**SETTINGS)
    engine.ingest(session, [user(f"bed {number} " + "slowly " * 30) for number in range(20)])
    engine.close()
    path = database_named("lcm")
    raw_database().change("UPDATE conversations SET raw_tokens = raw_tokens + 1")
    asked = run_here("doctor", "--later", "scan_and_plan", "--database", path)
    assert asked.returncode == 0, asked.output
    worked = run_here("worker", "--until-idle", "--json", "--database", path)
    assert json.loads(worked.stdout)["integrity_checks"] == 1
    (told,) = json.loads(run_here("doctor", "--results", "--json", "--database", path).stdout)
    assert told["reason"] == "manual"
    assert told["mode"] == "scan_and_plan"
    assert told["result"]["findings"]["counters"] == 1
    assert "counters" in [step["code"] for step in told["result"]["plan"]]
    assert "counters" in run_here("doctor", "--results", "--database", path).output
    idle = run_here("worker", "--until-idle", "--json", "--database", path)
    assert json.loads(idle.stdout)["integrity_checks"] == 0


def test_a_worker_does_every_check_in_its_own_thread(open_engine: Open, session: Session) -> None:
    engine = open_engine(**SETTINGS)
    threads: list[str] = []
    engine.subscribe(
        lambda event: (
            threads.append(threading.current_thread().name) if event.name == "integrity.job_done" else None
        )
    )
    for number in range(6):
        lane = Session(f"{session.key}:{number}")
        engine.ingest(lane, [user("hello")])
        with engine.store.read() as reader:
            found = reader.find_conversation(lane)
        assert found is not None
        engine.integrity_jobs.request(found.conversation_id, "manual")
    report = engine.work(threading.Event(), until_idle=True)
    assert report.integrity_checks == 6
    assert threads == [threading.current_thread().name] * 6


def test_workers_share_jobs_without_doing_one_twice(open_engine: Open, clock: Any) -> None:
    engines = [open_engine(**SETTINGS) for _ in range(2)]
    for number in range(6):
        lane = Session(f"agent:main:{number}")
        engines[0].ingest(lane, [user("hello")])
        with engines[0].store.read() as reader:
            found = reader.find_conversation(lane)
        assert found is not None
        engines[0].integrity_jobs.request(found.conversation_id, "manual")
    done: list[int] = []
    threads = [
        threading.Thread(target=lambda one=one: done.append(one.integrity_jobs.work_off(lambda: False)))
        for one in engines
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(done) == 6
    assert len(engines[0].integrity_jobs.finished()) == 6
    clock.forward(LEASE_MS + 1)
    assert engines[1].integrity_jobs.work_off(lambda: False) == 0


def test_a_made_up_claim_is_noticed_after_the_compaction_and_a_whole_check_asked_for(
    open_engine: Open, session: Session
) -> None:
    def model(request: CompletionRequest) -> str:
        return (
            "They walked the garden beds. The bill HP-90417 over 8812 euros was filed at /srv/bills/may.csv."
        )

    engine = open_engine(completer=model, **SETTINGS)
    events: list[Event] = []
    engine.subscribe(events.append)
    engine.ingest(session, [user(f"garden bed {number} " + "slowly " * 30) for number in range(40)])
    assert engine.compact(session, force=True).passes > 1
    assert engine.wait_idle(60)
    # Once for all passes, so that a sweep does not read its sources a second time.
    (told,) = [event for event in events if event.name == "integrity.sampled"]
    assert "summary_unsupported" in told.fields["classes"]
    assert engine.integrity_jobs.work_off(lambda: False) == 1
    (job,) = engine.integrity_jobs.finished()
    assert (job.reason, job.mode) == ("sample", "scan_and_plan")
    assert json.loads(job.result)["findings"]["summary_unsupported"] >= 1


def test_sound_summaries_are_sampled_in_silence(open_engine: Open, session: Session) -> None:
    engine = open_engine(**SETTINGS)
    events: list[str] = []
    engine.subscribe(lambda event: events.append(event.name))
    engine.ingest(
        session,
        [user(f"garden bed {number}: order HP-{number + 4000} " + "slowly " * 30) for number in range(40)],
    )
    assert engine.compact(session, force=True).compacted
    assert engine.wait_idle(60)
    assert "compaction.pass" in events
    assert not [name for name in events if name.startswith("integrity")]
    assert engine.integrity_jobs.work_off(lambda: False) == 0


@pytest.mark.sqlite_only
def test_a_database_of_the_first_version_gets_the_table(tmp_path: Path, session: Session) -> None:
    path = tmp_path / "lcm.db"
    with Engine.open(LcmConfig(database=str(path), **SETTINGS)) as engine:
        engine.ingest(session, [user("from before")])
    take_back(path, "integrity_jobs")
    with Engine.open(LcmConfig(database=str(path), **SETTINGS)) as engine:
        assert engine.messages(session) == [user("from before")]
        engine.integrity_jobs.request(1, "manual")
        assert engine.integrity_jobs.work_off(lambda: False) == 1
        assert engine.check().ok


@pytest.mark.sqlite_only
def test_a_database_of_an_older_version_is_not_called_damaged(tmp_path: Path, session: Session) -> None:
    path = tmp_path / "lcm.db"
    with Engine.open(LcmConfig(database=str(path), **SETTINGS)) as engine:
        engine.ingest(session, [user("from before")])
    take_back(path, "integrity_jobs")
    looked = run_here("doctor", "--database", str(path))
    assert looked.returncode == 5
    assert "brings it up to date" in looked.output
    assert run_here("worker", "--until-idle", "--database", str(path)).returncode == 0
    assert run_here("doctor", "--database", str(path)).returncode == 0
