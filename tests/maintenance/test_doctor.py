"""What the doctor promises: a copy first, only what the plan lists, nothing that a user wiped, clear refusals."""

# ruff: noqa: S608  (the statements are written here; nothing comes from outside)

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from databases import RawDatabase
from fakes.shell import run_here
from messages import user

from lcm_plugin import CompletionRequest, Engine, Session
from lcm_plugin.errors import StoreUnavailable
from lcm_plugin.types import RepairOutcome, RepairPlan

pytestmark = pytest.mark.both_stores_under_ci

Open = Callable[..., Engine]
Raw = Callable[..., RawDatabase]
SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 400,
    "leaf_target_tokens": 96,
    "condensed_target_tokens": 128,
    "summary_max_calls_per_window": 1_000,
}
LEAF = "(SELECT summary_id FROM summaries WHERE depth = 0 ORDER BY first_seq LIMIT 1)"


class Model:
    """Says the same of everything and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def __call__(self, request: CompletionRequest) -> str:
        self.asked.append(str(request.messages[-1]["content"]))
        self.meanwhile()
        return (
            "They walked the garden beds and agreed to water the amber lilies at dusk, slowly and with care."
        )


def fill(engine: Engine, session: Session, count: int = 40) -> list[str]:
    texts = [
        f"garden bed {number}: water the amber lilies at dusk, " + "slowly " * 30 for number in range(count)
    ]
    engine.ingest(session, [user(text) for text in texts])
    while engine.compact(session, force=True).compacted:
        pass
    return texts


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def filled(open_engine: Open, session: Session, model: Model) -> Engine:
    engine = open_engine(completer=model, **SETTINGS)
    fill(engine, session)
    return engine


@pytest.fixture
def damage(filled: Engine, raw_database: Raw) -> RawDatabase:
    return raw_database()


def mend(engine: Engine, plan: RepairPlan | None = None) -> RepairOutcome:
    """Carries out a plan, or the whole one; after a copy where the package can make one."""
    has_copies = "://" not in engine.store.location
    return engine.repair(plan or engine.plan_repairs(engine.check()), backup=has_copies)


def codes(engine: Engine) -> set[str]:
    return {finding.code for finding in engine.check().findings}


@pytest.mark.sqlite_only
def test_the_copy_is_made_first_opens_and_has_the_old_text(filled: Engine, damage: RawDatabase) -> None:
    damage.change(f"UPDATE summaries SET content = 'I cannot help with that.' WHERE summary_id = {LEAF}")
    outcome = filled.repair(filled.plan_repairs(filled.check()))
    assert outcome.ok
    copy = sqlite3.connect(outcome.backup)
    assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert copy.execute(f"SELECT content FROM summaries WHERE summary_id = {LEAF}").fetchone() == (
        "I cannot help with that.",
    )
    copy.close()
    ((content,),) = damage.rows(f"SELECT content FROM summaries WHERE summary_id = {LEAF}")
    assert "garden beds" in content


@pytest.mark.sqlite_only
def test_without_a_copy_nothing_is_changed(filled: Engine, damage: RawDatabase) -> None:
    damage.change("UPDATE conversations SET raw_tokens = raw_tokens + 1")
    plan = filled.plan_repairs(filled.check())
    taken = filled.backup()
    with pytest.raises(StoreUnavailable, match="exists already"):
        filled.repair(plan)
    assert "counters" in codes(filled)
    Path(taken).unlink()
    assert filled.repair(plan).ok


def test_a_repair_does_only_what_its_plan_lists(filled: Engine, damage: RawDatabase) -> None:
    rows = damage.rows("SELECT ordinal, message_id FROM context_items WHERE message_id IS NOT NULL")
    damage.change("UPDATE context_items SET tokens = tokens + 1 WHERE message_id IS NOT NULL")
    plan = filled.plan_repairs(filled.check())
    (step,) = [step for step in plan.steps if step.code == "context_tokens"]
    one = replace(plan, steps=(replace(step, ids=step.ids[:1]),))
    assert mend(filled, one).results[0].mended == 1
    left = {
        ref for finding in filled.check().findings if finding.code == "context_tokens" for ref in finding.ids
    }
    assert left == set(step.ids[1:])
    assert len(left) == len(rows) - 1


def test_a_marker_counts_where_an_old_tool_put_it_and_not_where_it_is_quoted(
    filled: Engine, damage: RawDatabase
) -> None:
    marker = "[Truncated from 900 tokens]"
    quoted = f"The user asked what {marker} means in a summary; the assistant explained it to them at length."
    imported = "UPDATE summaries SET prompt_version = '', content = ? WHERE summary_id = "
    damage.change(imported + LEAF, quoted)
    assert "summary_marker" not in codes(filled)
    damage.change(imported + LEAF, f"The lilies were watered.\n{marker}")
    assert "summary_marker" in codes(filled)
    damage.change("UPDATE summaries SET prompt_version = 'prompts-1' WHERE summary_id = " + LEAF)
    assert "summary_marker" not in codes(filled)


def test_the_old_text_is_not_shown_to_the_model_that_writes_again(
    filled: Engine, damage: RawDatabase, model: Model
) -> None:
    broken = "[LCM fallback summary; truncated for context management]"
    damage.change(f"UPDATE summaries SET prompt_version = '', content = '{broken}' WHERE summary_id = {LEAF}")
    model.asked.clear()
    assert mend(filled).ok
    assert len(model.asked) >= 2  # the leaf, and what was made from it
    assert not [prompt for prompt in model.asked if "fallback summary" in prompt]
    assert codes(filled) == set()


def test_a_claim_is_looked_for_down_to_the_leaves(
    open_engine: Open, raw_database: Raw, session: Session
) -> None:
    engine = open_engine(**SETTINGS)
    texts = [f"garden bed {number}: order HP-{4000 + number} " + "slowly " * 30 for number in range(40)]
    engine.ingest(session, [user(text) for text in texts])
    while engine.compact(session, force=True).compacted:
        pass
    damage = raw_database()
    top = "(SELECT summary_id FROM summaries WHERE depth = (SELECT max(depth) FROM summaries) LIMIT 1)"
    ((first, depth),) = damage.rows(f"SELECT first_seq, depth FROM summaries WHERE summary_id = {top}")
    assert depth >= 1
    below = str(damage.rows("SELECT content FROM summaries WHERE depth < ?", depth))
    only_in_a_message = next(f"HP-{4000 + n}" for n in range(first - 1, 40) if f"HP-{4000 + n}" not in below)
    said = (
        "UPDATE summaries SET content = 'The orders went out, ' || ? || ' among them.' WHERE summary_id = "
        + top
    )
    damage.change(said, only_in_a_message)
    assert "summary_unsupported" not in codes(engine)
    damage.change(said, "HP-9123")
    (finding,) = [one for one in engine.check().findings if one.code == "summary_unsupported"]
    assert "HP-9123" in finding.message


@pytest.mark.sqlite_only
def test_damage_of_base_tables_is_called_that_and_no_copy_of_it_is_made(
    open_engine: Open, session: Session, tmp_path: Path
) -> None:
    engine = open_engine(**SETTINGS)
    fill(engine, session)
    engine.close()
    path = tmp_path / "lcm.db"
    connection = sqlite3.connect(path)
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'message_parts'").fetchone()[0]
    connection.execute("UPDATE conversations SET raw_tokens = raw_tokens + 1")
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    before = path.read_bytes()
    for options in ([], ["--apply"]):
        done = run_here("doctor", *options, "--database", str(path))
        assert done.returncode in (1, 5)
    assert "lcm rescue" in run_here("doctor", "--database", str(path)).output
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir() if ".bak" in one.name] == []


def test_what_a_user_wiped_stays_wiped(open_engine: Open, raw_database: Raw, session: Session) -> None:
    engine = open_engine(**SETTINGS)
    fill(engine, session)
    engine.new_session(session, retain_depth=1)
    engine.reset_session(session)
    engine.ingest(session, [user("a new beginning")])
    damage = raw_database()
    damage.change("UPDATE conversations SET raw_tokens = raw_tokens + 1")
    result = engine.command(session, "/lcm doctor apply")
    assert result.ok, result.text
    assert engine.check().findings == ()
    assert [message["content"] for message in engine.messages(session)] == ["a new beginning"]
    assert [item.kind for item in engine.context_items(session)] == ["message"]
    causes = damage.rows("SELECT archive_cause FROM conversations WHERE NOT active")
    assert causes == [("manual-reset",)]


def test_what_deletes_or_ends_needs_a_word_of_its_own(
    open_engine: Open, session: Session, clock: Any
) -> None:
    engine = open_engine(**SETTINGS)
    cron = Session("agent:main:cron:daily", "run-9")
    engine.ingest(cron, [user("the daily report")])
    engine.ingest(Session("agent:main:cronies"), [user("friends of the family")])
    engine.ingest(Session("telegram:cron:42"), [user("a person's group about cron")])
    clock.forward(8 * 86_400_000)
    engine.ingest(session, [user("hello")])
    (finding,) = engine.check().findings
    assert (finding.code, finding.ids) == ("lane_stale", ("agent:main:cron:daily",))
    kept = engine.command(cron, "/lcm doctor apply")
    assert "apply delete" in kept.text
    assert engine.messages(cron)
    assert engine.command(cron, "/lcm doctor apply delete").ok
    assert engine.messages(cron) == []
    assert engine.check().findings == ()


def test_a_lane_being_compacted_is_not_written_again_and_the_refusal_says_so(
    filled: Engine, damage: RawDatabase, clock: Any
) -> None:
    damage.change(f"UPDATE summaries SET content = '…' WHERE summary_id = {LEAF}")
    damage.change("UPDATE conversations SET raw_tokens = raw_tokens + 1")
    with filled.store.write() as writer:
        assert writer.claim_debt(1, "another host", clock(), 30_000)
    outcome = mend(filled)
    by_code = {result.step.code: result for result in outcome.results}
    assert "being compacted" in by_code["summary_empty"].error
    assert by_code["counters"].mended == 1
    assert codes(filled) == {"summary_empty"}
    with filled.store.write() as writer:
        writer.settle_debt(1, "another host", "deferred", clock(), next_attempt_at=clock() + 5_000)
    assert filled.repair(filled.plan_repairs(filled.check()), backup=False).ok
    with filled.store.read() as reader:
        debt = reader.debt(1)
    assert debt is not None
    assert (debt.state, debt.next_attempt_at) == ("deferred", clock() + 5_000)


def test_turns_go_on_while_a_summary_is_written_again(
    filled: Engine, damage: RawDatabase, model: Model, session: Session
) -> None:
    damage.change(f"UPDATE summaries SET content = '…' WHERE summary_id = {LEAF}")
    model.meanwhile = lambda: filled.ingest(session, [user(f"meanwhile {len(model.asked)}")])
    assert mend(filled).ok
    assert filled.messages(session)[-1]["content"].startswith("meanwhile")
    assert codes(filled) == set()


def test_a_message_can_be_left_out_of_every_context_and_taken_back(filled: Engine, session: Session) -> None:
    ref = filled.context_items(session)[-1].id
    text = filled.messages(session)[-1]["content"]
    assert filled.command(session, f"/lcm doctor hide {ref}").ok
    assert text not in str(filled.assemble(session, 8_000).messages)
    assert filled.messages(session)[-1]["content"] == text
    assert codes(filled) == set()
    assert filled.command(session, f"/lcm doctor show {ref}").ok
    assert text in str(filled.assemble(session, 8_000).messages)
    assert not filled.command(session, "/lcm doctor hide msg_999999").ok
    assert not filled.command(Session("agent:main:stranger"), f"/lcm doctor hide {ref}").ok


def test_a_check_ends_when_it_is_told_to(filled: Engine) -> None:
    report = filled.doctor.checker.check(stop=lambda: True)
    assert not report.complete
    assert report.ok
    looks = iter(range(1 << 30))
    later = filled.doctor.checker.check(stop=lambda: next(looks) > 30)
    assert not later.complete
    assert filled.doctor.check(seconds=60).complete


def test_a_check_holds_no_writer_up(filled: Engine, session: Session) -> None:
    stored = threading.Event()

    def stop() -> bool:
        if not stored.is_set():
            filled.ingest(session, [user("written while a check reads")])
            stored.set()
        return False

    assert filled.doctor.checker.check(stop=stop, now=filled.clock()).findings == ()
    assert filled.messages(session)[-1]["content"] == "written while a check reads"


def test_a_host_that_uses_another_engine_is_told(filled: Engine) -> None:
    filled.selected_by_host = False
    assert codes(filled) == {"host_other_engine"}
    assert filled.check().ok


def test_the_command_line_mends_one_class_only(
    filled: Engine, damage: RawDatabase, database_named: Callable[[str], str]
) -> None:
    damage.change("UPDATE conversations SET raw_tokens = raw_tokens + 1, message_count = message_count - 1")
    path = database_named("lcm")
    done = run_here("doctor", "--apply", "--only", "message_order", "--database", path)
    assert done.returncode == 0, done.output
    assert codes(filled) == {"counters", "message_count"}
    unknown = run_here("doctor", "--only", "nonsense", "--database", path)
    assert unknown.returncode == 2
    done = run_here("doctor", "--apply", "--database", path)
    assert done.returncode == 0, done.output
    assert ("A copy from before is at" in done.output) is ("://" not in path)
    assert codes(filled) == set()
