"""One pass: what is paid for once is published, at once or later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from clock import Clock
from databases import RawDatabase
from small_talk import Model
from waiting import eventually

from lcm_plugin import CompletionRequest, Engine, Session
from lcm_plugin.types import Reason

pytestmark = pytest.mark.both_stores

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
    open_engine: Callable[..., Engine],
    raw_database: Callable[..., RawDatabase],
    clock: Clock,
    said_meanwhile: int,
) -> None:
    other, model = raw_database(), Model()

    def completer(request: CompletionRequest) -> str:
        if not model.calls:
            other.hold()
        return model(request)

    engine = open_engine(
        completer=completer,
        busy_timeout_ms=20,
        fresh_tail_count=2,
        leaf_chunk_tokens=4_000,
        leaf_min_fanout=4,
        incremental_max_depth=0,
    )
    engine.ingest(SESSION, turns(0, 6))
    assert not engine.compact(SESSION, force=True).compacted
    other.let_go()
    assert len(model.calls) == 1
    clock.now += 600_000
    engine.ingest(SESSION, turns(6, 6 + said_meanwhile))
    second = engine.compact(SESSION, force=True)
    assert second.compacted
    assert len(second.summaries) == len(model.calls)


def test_a_verdict_that_could_not_be_written_gives_the_lease_back_when_it_can(
    open_engine: Callable[..., Engine], raw_database: Callable[..., RawDatabase], clock: Clock
) -> None:
    other, model = raw_database(), Model()

    def completer(request: CompletionRequest) -> str:
        if not model.calls:
            other.hold()
        return model(request)

    engine = open_engine(completer=completer, busy_timeout_ms=20, fresh_tail_count=2, leaf_chunk_tokens=1_000)
    engine.ingest(SESSION, turns(0, 12))
    assert engine.compact(SESSION).reason is Reason.DEFERRED
    assert engine.compact(SESSION).reason is not Reason.DONE
    other.let_go()
    eventually(lambda: engine.compact(SESSION).reason is not Reason.LOCKED)
    clock.now += 6_000
    assert engine.compact(SESSION).compacted
