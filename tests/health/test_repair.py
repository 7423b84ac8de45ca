"""Doctor apply: damage is mended after a copy, and summaries that a model failed to write are written again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from messages import user

from lcm_plugin import CompletionRequest, Engine, Session

Open = Callable[..., Engine]
SETTINGS = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 400,
    "leaf_target_tokens": 96,
    "condensed_target_tokens": 128,
    "summary_max_calls_per_window": 1_000,
}


class Model:
    """A summariser that is down until it is told otherwise."""

    def __init__(self) -> None:
        self.down = True

    def __call__(self, request: CompletionRequest) -> str:
        if self.down:
            raise ConnectionError("no route to the model")
        return "They walked the garden beds from one to sixty and agreed to water the amber lilies at dusk."


def fill(engine: Engine, session: Session, count: int = 60) -> None:
    for number in range(count):
        engine.ingest(
            session, [user(f"garden bed {number}: water the amber lilies at dusk, " + "slowly " * 30)]
        )
    while engine.compact(session, force=True).compacted:
        pass


@pytest.fixture
def damaged(open_engine: Open, session: Session, tmp_path: Path) -> tuple[Engine, sqlite3.Connection]:
    engine = open_engine(**SETTINGS)
    fill(engine, session)
    damage = sqlite3.connect(tmp_path / "lcm.db", isolation_level=None)
    damage.execute("PRAGMA foreign_keys = OFF")
    return engine, damage


MENDABLE = {
    "context_dangling": "UPDATE context_items SET message_id = 999999 WHERE ordinal = "
    "(SELECT max(ordinal) FROM context_items)",
    "context_tokens": "UPDATE context_items SET tokens = tokens + 1 WHERE message_id IS NOT NULL",
    "counters": "UPDATE conversations SET raw_tokens = raw_tokens + 1",
    "message_count": "UPDATE conversations SET message_count = message_count - 1",
    "message_uncovered": "DELETE FROM context_items WHERE message_id IS NOT NULL",
    "summary_sums": "UPDATE summaries SET message_count = message_count + 1",
    "debt_stale": "UPDATE compaction_debt SET state = 'running', owner = 'gone', lease_until = 1",
}


@pytest.mark.parametrize("code", MENDABLE)
def test_what_can_be_mended_is_mended_and_nothing_else_changes(
    code: str, damaged: tuple[Engine, sqlite3.Connection], session: Session
) -> None:
    engine, damage = damaged
    texts = damage.execute("SELECT part_id, text FROM message_parts").fetchall()
    nodes = damage.execute("SELECT summary_id, content FROM summaries").fetchall()
    assert damage.execute(MENDABLE[code]).rowcount > 0
    plan = engine.plan_repairs(engine.check())
    assert code in {step.code for step in plan.steps}
    outcome = engine.repair(plan)
    assert outcome.ok, outcome
    assert Path(outcome.backup).exists()
    assert engine.check().findings == ()
    assert damage.execute("SELECT part_id, text FROM message_parts").fetchall() == texts
    assert damage.execute("SELECT summary_id, content FROM summaries").fetchall() == nodes
    assert len(engine.messages(session)) == 60


def test_what_cannot_be_mended_is_refused_and_left_alone(damaged: tuple[Engine, sqlite3.Connection]) -> None:
    engine, damage = damaged
    damage.execute("UPDATE messages SET group_seq = seq + 1 WHERE message_id = 3")
    plan = engine.plan_repairs(engine.check())
    assert plan.steps == ()
    assert [finding.code for finding in plan.refused] == ["message_order"]
    assert engine.repair(plan).backup == ""


def test_a_dry_run_writes_nothing(damaged: tuple[Engine, sqlite3.Connection], tmp_path: Path) -> None:
    engine, damage = damaged
    damage.execute("UPDATE conversations SET raw_tokens = raw_tokens + 1")
    before = (
        damage.execute("PRAGMA data_version").fetchone(),
        sorted(path.name for path in tmp_path.iterdir()),
    )
    engine.plan_repairs(engine.check())
    assert (
        damage.execute("PRAGMA data_version").fetchone(),
        sorted(p.name for p in tmp_path.iterdir()),
    ) == before


def test_summaries_of_a_failed_model_are_written_again_and_their_ancestors_too(
    open_engine: Open, session: Session, clock: Any
) -> None:
    model = Model()
    engine = open_engine(completer=model, **SETTINGS)
    fill(engine, session)
    report = engine.check()
    assert {finding.code for finding in report.findings} == {"summary_fallback"}
    assert report.ok
    still_down = engine.repair(engine.plan_repairs(report), backup=False)
    assert not still_down.ok
    assert engine.check().findings == report.findings
    model.down = False
    clock.forward(3_600_000)  # the circuit that opened on the dead model is tried again by then
    outcome = engine.repair(engine.plan_repairs(engine.check()))
    assert outcome.ok, outcome
    assert sum(result.mended for result in outcome.results) == len(report.findings)
    assert engine.check().findings == ()
    context = engine.assemble(session, 8_000)
    assert "agreed to water the amber lilies" in str(context.messages[0]["content"])
    found = engine.call_tool(session, "lcm_grep", {"pattern": "agreed to water", "scope": "summaries"})
    assert found["hits"]


def test_the_chat_command_mends_and_says_what_it_did(
    damaged: tuple[Engine, sqlite3.Connection], session: Session
) -> None:
    engine, damage = damaged
    assert engine.command(session, "/lcm doctor apply").data["outcome"] == "noop"
    damage.execute("UPDATE conversations SET raw_tokens = raw_tokens + 1")
    assert "doctor apply" in engine.command(session, "/lcm doctor").text
    result = engine.command(session, "/lcm doctor apply")
    assert result.ok
    assert "`counters`" in result.text
    assert Path(str(result.data["backup"])).exists()
    assert not engine.command(session, "/lcm doctor everything").ok
