"""One pass: what is paid for once is published, at once or later."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from small_talk import Clock, Model

from lcm_plugin import CompletionRequest, Engine, LcmConfig, Session
from lcm_plugin.types import Reason

SESSION = Session("agent:main:passes", "run-1")
WORDS = "The gardener counted the barrels while the sailor wrote each number down. "


def turns(first: int, last: int) -> list[dict[str, Any]]:
    return [
        {"role": role, "content": f"{number} {role}: {WORDS * 12}"}
        for number in range(first, last)
        for role in ("user", "assistant")
    ]


@pytest.mark.parametrize("said_meanwhile", [0, 6], ids=["the-same-chunk", "a-chunk-that-has-grown"])
def test_a_summary_whose_publication_failed_is_published_later_without_a_second_model_call(
    tmp_path: Path, clock: Clock, said_meanwhile: int
) -> None:
    path = tmp_path / "lcm.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    model = Model()

    def completer(request: CompletionRequest) -> str:
        if not model.calls:
            other.execute("BEGIN IMMEDIATE")
        return model(request)

    config = LcmConfig(
        database=str(path),
        busy_timeout_ms=20,
        fresh_tail_count=2,
        leaf_chunk_tokens=4_000,
        leaf_min_fanout=4,
        incremental_max_depth=0,
    )
    with Engine.open(config, completer, clock=clock) as engine:
        engine.ingest(SESSION, turns(0, 6))
        assert not engine.compact(SESSION, force=True).compacted
        other.execute("ROLLBACK")
        other.close()
        assert len(model.calls) == 1
        clock.now += 600_000
        engine.ingest(SESSION, turns(6, 6 + said_meanwhile))
        second = engine.compact(SESSION, force=True)
        assert second.compacted
        assert len(second.summaries) == len(model.calls)


def test_a_verdict_that_could_not_be_written_gives_the_lease_back_when_it_can(
    tmp_path: Path, clock: Clock
) -> None:
    path = tmp_path / "lcm.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    model = Model()

    def completer(request: CompletionRequest) -> str:
        if not model.calls:
            other.execute("BEGIN IMMEDIATE")
        return model(request)

    config = LcmConfig(database=str(path), busy_timeout_ms=20, fresh_tail_count=2, leaf_chunk_tokens=1_000)
    with Engine.open(config, completer, clock=clock) as engine:
        engine.ingest(SESSION, turns(0, 12))
        assert engine.compact(SESSION).reason is Reason.DEFERRED
        assert engine.compact(SESSION).reason is not Reason.DONE
        other.execute("ROLLBACK")
        other.close()
        end = time.monotonic() + 10
        while time.monotonic() < end and engine.compact(SESSION).reason is Reason.LOCKED:
            time.sleep(0.05)
        clock.now += 6_000
        assert engine.compact(SESSION).compacted
