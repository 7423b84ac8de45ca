"""A provider that refuses a context as too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from small_talk import Model, turns

from lcm_plugin import Engine, Session
from lcm_plugin.compaction.overflow import overflow_reported
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import Reason, Turn, Usage

pytestmark = pytest.mark.both_stores

Open = Callable[..., Engine]
SMALL: dict[str, Any] = {"fresh_tail_count": 6, "leaf_target_tokens": 150, "condensed_target_tokens": 200}


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130112 tokens.",
        "prompt is too long: 210532 tokens > 200000 maximum",
        "The input token count (1203331) exceeds the maximum number of tokens allowed (1048576).",
        "litellm.ContextWindowExceededError: too many tokens",
        "Input is too long for requested model.",
    ],
)
def test_errors_about_the_length_are_overflows(text: str) -> None:
    assert overflow_reported({"overflow": text})


@pytest.mark.parametrize(
    "text",
    [
        "400 invalid tool arguments: the string is not JSON",
        "Rate limit reached for tokens per minute",
        "maximum number of tools exceeded",
        "401 unauthorized",
        "",
    ],
)
def test_b16_other_errors_are_not(text: str) -> None:
    assert not overflow_reported({"overflow": text})
    assert not overflow_reported({})
    assert overflow_reported({"overflow": True})


def test_an_overflow_compacts_at_once_and_the_next_context_is_smaller(
    open_engine: Open, session: Session
) -> None:
    engine = open_engine(Model(), **SMALL)
    plugin = LcmPlugin(engine=engine)
    engine.ingest(session, turns(24))
    before = plugin.before_turn(Turn(session, [], mode="append", window=4_000, model="m"))
    assert before is not None
    after = plugin.before_turn(
        Turn(session, [], mode="append", window=4_000, model="m", metadata={"overflow": True})
    )
    assert after is not None
    assert after.tokens < 0.9 * before.tokens
    assert engine.calibration.factor("m") > 1


def test_d8_there_are_three_tries_and_then_a_clear_verdict(open_engine: Open, session: Session) -> None:
    model = Model()
    engine = open_engine(model, **SMALL)
    engine.ingest(session, turns(40))
    for _ in range(3):
        engine.recover_overflow(session, 3_000)
    calls = len(model.calls)
    fourth = engine.recover_overflow(session, 3_000)
    assert (fourth.compacted, fourth.reason) == (False, Reason.BUDGET_UNREACHABLE)
    assert "3 times" in fourth.detail
    assert len(model.calls) == calls
    engine.note_usage(Turn(session, [], usage=Usage(prompt_tokens=2_000)))
    assert engine.recover_overflow(session, 3_000).reason is not Reason.BUDGET_UNREACHABLE


def test_an_overflow_bypasses_the_spend_guard_a_bounded_number_of_times(
    open_engine: Open, session: Session
) -> None:
    model = Model()
    engine = open_engine(model, **SMALL, summary_max_calls_per_window=1)
    engine.ingest(session, turns(60))
    engine.compact(session, budget=6_000)
    spent = len(model.calls)
    assert spent == 1
    engine.ingest(session, turns(30, start=100))
    assert engine.recover_overflow(session, 3_000).compacted
    assert spent < len(model.calls) <= spent + 8
