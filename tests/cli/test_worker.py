"""``lcm worker`` works off what a host owes, and ends when told to."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from fakes.shell import program, run_program
from messages import user

from lcm_plugin import Engine, LcmConfig, Session

COMMAND = program("worker")


def owe(path: Path) -> Session:
    """A conversation over its threshold, with the debt recorded and not worked off."""
    session = Session("agent:main:main", "run-1")
    with Engine.open(LcmConfig(database=str(path))) as engine:
        engine.ingest(
            session, [user(f"bed {n}: water the amber lilies at dusk " + "slowly " * 60) for n in range(200)]
        )
        with engine.store.write() as writer:
            conversation = writer.find_conversation(session)
            assert conversation is not None
            writer.request_compaction(conversation.conversation_id, "over_threshold", 16_000, engine.clock())
    return session


def test_a_worker_works_off_a_debt_and_ends(tmp_path: Path) -> None:
    session = owe(tmp_path / "lcm.db")
    done = run_program("worker", "--until-idle", "--json", "-d", tmp_path / "lcm.db")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["compactions"] == 1
    assert report["tokens_saved"] > 0
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as engine:
        assert not engine.evaluate(session, 16_000).due
        assert len(engine.messages(session)) == 200


@pytest.mark.long
def test_a_worker_that_waits_ends_on_sigterm(tmp_path: Path) -> None:
    Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))).close()
    running = subprocess.Popen(
        [*COMMAND, "--poll", "0.1", "--metrics-port", "0", "-d", str(tmp_path / "lcm.db")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    assert running.stderr.readline().startswith("metrics: ")
    assert running.poll() is None
    running.send_signal(signal.SIGTERM)
    output, _ = running.communicate()
    assert running.returncode == 0
    assert "nothing was due" in output
