"""Damage of each class, put into a real database, is found and named; a healthy one has no findings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from databases import RawDatabase
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.types import Message, Severity

pytestmark = pytest.mark.both_stores

Open = Callable[..., Engine]
Grown = tuple[Engine, RawDatabase]


def turn(number: int) -> list[Message]:
    return [
        user(f"question {number} about host-{number} " + "word " * 30),
        call(f"c{number}", text=None),
        result(f"c{number}", f"value {number} " + "line " * 30),
        assistant(f"answer {number} " + "text " * 30),
    ]


@pytest.fixture
def grown(
    open_engine: Open, raw_database: Callable[..., RawDatabase], session: Session, tmp_path: Path
) -> Grown:
    """An engine with three depths of summaries and files, and a second handle to do damage with."""
    engine = open_engine(
        fresh_tail_count=4,
        leaf_chunk_tokens=300,
        leaf_target_tokens=64,
        condensed_target_tokens=96,
        condensed_min_fanout=2,
        large_files_dir=str(tmp_path / "lcm-files"),
    )
    engine.ingest(session, [message for number in range(16) for message in turn(number)])
    engine.ingest(session, [user("A" * 4 + "long text " * 30_000)])
    for _ in range(20):
        if not engine.compact(session, force=True).compacted:
            break
    return engine, raw_database()


def codes(engine: Engine) -> set[str]:
    return {finding.code for finding in engine.check().findings}


def test_a_healthy_database_has_no_findings(grown: Grown, session: Session) -> None:
    engine, damage = grown
    depths = dict(damage.rows("SELECT depth, count(*) FROM summaries GROUP BY depth"))
    assert max(depths) >= 2, depths
    report = engine.check()
    assert report.findings == ()
    assert report.ok
    assert report.complete
    assert engine.check(session).findings == ()
    assert engine.check(Session("nobody")).findings == ()


DAMAGE = {
    "context_foreign": "UPDATE context_items SET conversation_id = 99 WHERE message_id IS NOT NULL",
    "context_order": "UPDATE context_items SET ordinal = ordinal + 1000 WHERE ordinal = "
    "(SELECT min(ordinal) FROM context_items)",
    "context_tokens": "UPDATE context_items SET tokens = tokens + 1 WHERE message_id IS NOT NULL",
    "counters": "UPDATE conversations SET raw_tokens = raw_tokens + 1",
    "message_count": "UPDATE conversations SET message_count = message_count - 1",
    "message_uncovered": "DELETE FROM context_items WHERE message_id IS NOT NULL",
    "message_covered_twice": "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, tokens) "
    "SELECT conversation_id, seq, 'message', message_id, tokens FROM messages WHERE message_id = "
    "(SELECT max(message_id) FROM summary_messages)",
    "message_unreadable": "UPDATE messages SET skeleton = '{broken'",
    "part_without_file": "DELETE FROM large_files",
    "summary_without_source": "DELETE FROM summary_messages WHERE summary_id = "
    "(SELECT summary_id FROM summary_messages LIMIT 1)",
    "summary_missing_source": "UPDATE summary_parents SET parent_summary_id = 'sum_gone' WHERE ordinal = 0",
    "summary_depth": "UPDATE summaries SET depth = depth + 1 WHERE depth = (SELECT max(depth) FROM summaries)",
    "summary_orphan": "DELETE FROM context_items WHERE summary_id IS NOT NULL",
    "summary_sums": "UPDATE summaries SET message_count = message_count + 1 WHERE depth = 0",
    "summary_oversize": "UPDATE summaries SET tokens = source_tokens + 1",
    "context_dangling": "UPDATE context_items SET message_id = 999999 WHERE message_id IS NOT NULL",
}


@pytest.mark.long
@pytest.mark.parametrize("code", DAMAGE)
def test_damage_is_found_and_named(code: str, grown: Grown) -> None:
    engine, damage = grown
    assert damage.change(DAMAGE[code]) > 0
    report = engine.check()
    assert code in {finding.code for finding in report.findings}
    for finding in report.findings:
        assert finding.message
    planned = engine.plan_repairs(report)
    handled = {step.code for step in planned.steps} | {finding.code for finding in planned.refused}
    assert handled == {finding.code for finding in report.findings}


@pytest.mark.sqlite_only
def test_a_reference_to_nothing_breaks_the_files_structure_too(grown: Grown) -> None:
    engine, damage = grown
    damage.change(DAMAGE["context_dangling"])
    assert "structure" in codes(engine)


def test_a_lost_or_changed_file_is_found(grown: Grown, tmp_path: Path) -> None:
    engine, _ = grown
    (stored,) = [path for path in (tmp_path / "lcm-files").rglob("*") if path.is_file()]
    original = stored.read_bytes()
    stored.chmod(0o600)
    stored.write_bytes(original[:-1] + b"!")
    assert codes(engine) == {"file_changed"}
    stored.unlink()
    assert codes(engine) == {"file_missing"}


def test_what_new_pruned_is_no_damage(grown: Grown, session: Session) -> None:
    engine, _ = grown
    engine.new_session(session, retain_depth=1)
    assert engine.check().findings == ()
    engine.reset_session(session)
    assert engine.check().findings == ()


def test_errors_and_warnings_weigh_differently(grown: Grown) -> None:
    engine, damage = grown
    damage.change("UPDATE summaries SET tokens = source_tokens + 1")
    report = engine.check()
    assert {finding.severity for finding in report.findings} == {Severity.WARNING}
    assert report.ok


def test_a_persons_text_may_be_longer_than_what_a_redaction_left_of_its_source(grown: Grown) -> None:
    engine, damage = grown
    damage.change("UPDATE summaries SET tokens = source_tokens + 1, level = 'person'")
    assert codes(engine) == set()
