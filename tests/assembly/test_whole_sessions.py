"""A seeded session in which calls go wrong, every context checked at several budgets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lcm_plugin import Engine, Session

pytestmark = pytest.mark.both_stores_under_ci


@pytest.fixture
def evaluation(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    import assembly_validity

    return assembly_validity


@pytest.mark.long
def test_a_tool_heavy_session_is_valid_and_within_budget_at_every_turn(evaluation: Any) -> None:
    tallies = evaluation.run([evaluation.seeded(24, 7)], [4_000, 16_000])
    for tally in tallies:
        assert tally.contexts > 24
        assert (tally.invalid, tally.over) == (0, 0)
        assert tally.compactions > 0 or tally.budget > 4_000


def test_the_evaluation_sees_what_is_wrong(
    evaluation: Any, engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = evaluation.Tally(1_000)
    engine.ingest(session, [{"role": "user", "content": "hi"}])
    real = engine.assemble
    monkeypatch.setattr(engine, "assemble", lambda *args: _spoiled(real(*args)))
    tally.take(engine, session)
    assert tally.invalid == 1


def _spoiled(context: Any) -> Any:
    context.messages.append({"role": "tool", "tool_call_id": "x", "content": "no call"})
    return context
