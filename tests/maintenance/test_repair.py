"""Doctor apply: damage is mended after a copy, and summaries that a model failed to write are written again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from databases import RawDatabase
from messages import user

from lcm_plugin import CompletionRequest, Engine, Session
from lcm_plugin.store.records import FileRecord
from lcm_plugin.store.transfer import table_hashes

pytestmark = pytest.mark.both_stores_under_ci

Open = Callable[..., Engine]
Damaged = tuple[Engine, RawDatabase]
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


def has_copies(engine: Engine) -> bool:
    """Whether the package itself can copy the database; a server's is copied with the server's tools."""
    return "://" not in engine.store.location


@pytest.fixture
def damaged(open_engine: Open, raw_database: Callable[..., RawDatabase], session: Session) -> Damaged:
    engine = open_engine(**SETTINGS)
    fill(engine, session)
    return engine, raw_database()


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


TEXTS = "SELECT message_id, ordinal, text FROM message_parts ORDER BY message_id, ordinal"
NODES = "SELECT summary_id, content FROM summaries ORDER BY summary_id"


@pytest.mark.parametrize("code", MENDABLE)
def test_what_can_be_mended_is_mended_and_nothing_else_changes(
    code: str, damaged: Damaged, session: Session
) -> None:
    engine, damage = damaged
    texts, nodes = damage.rows(TEXTS), damage.rows(NODES)
    assert damage.change(MENDABLE[code]) > 0
    plan = engine.plan_repairs(engine.check())
    assert code in {step.code for step in plan.steps}
    outcome = engine.repair(plan, backup=has_copies(engine))
    assert outcome.ok, outcome
    assert Path(outcome.backup).is_file() is has_copies(engine)
    assert engine.check().findings == ()
    assert (damage.rows(TEXTS), damage.rows(NODES)) == (texts, nodes)
    assert len(engine.messages(session)) == 60


def test_what_cannot_be_mended_is_refused_and_left_alone(damaged: Damaged) -> None:
    engine, damage = damaged
    damage.change("UPDATE messages SET group_seq = seq + 1 WHERE message_id = 3")
    plan = engine.plan_repairs(engine.check())
    assert plan.steps == ()
    assert [finding.code for finding in plan.refused] == ["message_order"]
    assert engine.repair(plan).backup == ""


def test_a_dry_run_writes_nothing(damaged: Damaged, tmp_path: Path) -> None:
    engine, damage = damaged
    damage.change("UPDATE conversations SET raw_tokens = raw_tokens + 1")

    def seen() -> object:
        with engine.store.read() as reader:
            return table_hashes(reader), sorted(path.name for path in tmp_path.iterdir())

    before = seen()
    engine.plan_repairs(engine.check())
    assert seen() == before


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
    outcome = engine.repair(engine.plan_repairs(engine.check()), backup=has_copies(engine))
    assert outcome.ok, outcome
    assert sum(result.mended for result in outcome.results) == len(report.findings)
    assert engine.check().findings == ()
    context = engine.assemble(session, 8_000)
    assert "agreed to water the amber lilies" in str(context.messages[0]["content"])
    found = engine.call_tool(session, "lcm_grep", {"pattern": "agreed to water", "scope": "summaries"})
    assert found["hits"]


def test_the_chat_command_mends_and_says_what_it_did(damaged: Damaged, session: Session) -> None:
    engine, damage = damaged
    assert engine.command(session, "/lcm doctor apply").data["outcome"] == "noop"
    damage.change("UPDATE conversations SET raw_tokens = raw_tokens + 1")
    assert "doctor apply" in engine.command(session, "/lcm doctor").text
    result = engine.command(session, "/lcm doctor apply")
    assert result.ok
    assert "done, counters: count the context again; 1 mended" in result.text
    assert (result.data["backup"] != "") is has_copies(engine)
    assert not engine.command(session, "/lcm doctor everything").ok


def test_what_a_turn_stores_while_its_conversation_is_mended_is_counted(
    damaged: Damaged, open_engine: Open, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, damage = damaged
    host = open_engine(**SETTINGS)
    damage.change("UPDATE conversations SET raw_tokens = raw_tokens + 1")
    plan, holds = engine.plan_repairs(engine.check()), host.payloads.holds
    mending = threading.Thread(target=engine.repair, args=(plan,), kwargs={"backup": False})
    about_to_write, write = threading.Event(), engine.store.write

    def writing(*given: Any, **more: Any) -> Any:
        about_to_write.set()
        return write(*given, **more)

    def mended_within_the_turn(records: Sequence[FileRecord]) -> bool:
        mending.start()
        assert about_to_write.wait(60)
        return holds(records)

    monkeypatch.setattr(engine.store, "write", writing)

    monkeypatch.setattr(host.payloads, "holds", mended_within_the_turn)
    host.ingest(session, [user("one more bed")])
    mending.join(60)
    assert engine.check().findings == ()
