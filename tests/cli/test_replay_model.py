"""``lcm replay --summarizer MODEL``: a model behind a server on this machine writes the summaries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, Reply
from fakes.shell import Done, run_here

INCIDENT = Path(__file__).resolve().parents[2] / "examples" / "incident.jsonl"
SUMMARY = (
    "Ines asked why checkout/confirm failed since 21:31 (INC-4471); no production change without her yes. "
    "edge-1 to edge-3 answered 504 after 30 s. web-14 was rolled back to 2026.3.16 without effect, so build 5518 "
    "is a false lead. cache-3 was ruled out. pay-01 and pay-02 reported PAY-1187: the pool of 40 connections to "
    "db-orders-a:5433 was used up, and PAY-1204: one idempotency lookup took 8412 ms."
)


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(INCIDENT.read_text(encoding="utf-8").splitlines()[:120]), encoding="utf-8")
    return path


def replay(transcript: Path, server: ModelServer) -> Done:
    environment = {
        "LCM_SUMMARY_BASE_URL": server.url,
        "LCM_SUMMARY_PROVIDER": "openai",
        "LCM_SUMMARY_API_KEY": "none",
    }
    return run_here("replay", transcript, "--summarizer", "small-1", "--json", environment=environment)


@pytest.mark.long
def test_the_model_writes_the_summaries(transcript: Path, server: ModelServer) -> None:
    server.add_rule(lambda request: Reply(SUMMARY))
    done = replay(transcript, server)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {request.body["model"] for request in server.requests} == {"small-1"}
    assert report["recovered"] == 120
    assert report["fallback_summaries"] < sum(report["summaries_by_depth"].values())


@pytest.mark.long
def test_a_model_that_refuses_costs_quality_but_no_message(transcript: Path, server: ModelServer) -> None:
    server.add_rule(lambda request: Reply("I'm sorry, but I cannot help with that."))
    done = replay(transcript, server)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["recovered"] == 120
    assert report["fallback_summaries"] == sum(report["summaries_by_depth"].values()) > 0
