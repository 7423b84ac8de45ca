"""Health: the same state as `lcm status`, jobs, failures, guards and the bill; and the doctor's findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lcm_plugin.commands.doctor import left_lines, refused_lines, result_lines
from lcm_plugin.commands.gauges import Gauges, gauges
from lcm_plugin.commands.health import Pairs, health_pairs
from lcm_plugin.commands.health import health as health_data
from lcm_plugin.commands.status import head, whole_data, whole_pairs
from lcm_plugin.commands.texts import moment
from lcm_plugin.store.open import is_server
from lcm_plugin.text import inline, plural
from lcm_plugin.types import Finding, IntegrityReport, Session

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine

_MOST_JOBS = 50
_MOST_FINDINGS = 200


def health(engine: Engine) -> dict[str, Any]:
    """The whole database's state: for programs, and as pairs of words in Markdown."""
    zone = engine.config.timezone
    with engine.store.read() as reader:
        whole = whole_data(engine, reader)
        bill = [asdict(line) for line in reader.summary_bill(None)]
        running = reader.held_debts()
        now = gauges(engine, reader)
    state = whole | health_data(engine, None, None)
    pairs: Pairs = [
        ("version", head(state)),
        *whole_pairs(state),
        *health_pairs(state, zone, inline),
        *_gauge_pairs(now, zone),
    ]
    return state | {
        "bill": bill,
        "compacting": [debt.conversation_id for debt in running if debt.owner],
        "gauges": asdict(now),
        "failures": [asdict(one) for one in engine.hook_health.failures()],
        "jobs": [asdict(one) for one in engine.integrity_jobs.overview()[:_MOST_JOBS]],
        "pairs": pairs,
    }


def _gauge_pairs(now: Gauges, zone: str) -> Pairs:
    paused = [f"`{model}` is not called for a while" for model in now.paused_models]
    if now.paused_sessions:
        paused.append(f"the summary calls of {plural(now.paused_sessions, 'session')} are used up")
    pairs = [
        ("compaction owed", f"in {plural(now.owed, 'conversation')}" if now.owed else "nowhere"),
        ("guards", "; ".join(paused) or "nothing is paused"),
    ]
    if now.last_error_at:
        pairs.append(("last error", moment(now.last_error_at, zone)))
    if now.fullest_conversation is not None:
        where = f"conversation {now.fullest_conversation}"
        pairs.append(("fullest context", f"{100 * now.fullest:.0f} % of its room, {where}, in the last hour"))
    if now.making_ms:
        times = f"half in {now.making(0.5):,} ms, 95 % in {now.making(0.95):,} ms, the slowest in {now.making_ms[-1]:,} ms"
        pairs.append(("contexts are made", f"{times}; the newest {len(now.making_ms):,} turns on record"))
    return pairs


def findings(engine: Engine, report: IntegrityReport) -> dict[str, Any]:
    """What a check found, the worst first, and which of it a repair would mend."""
    plan = engine.plan_repairs(report)
    ordered = sorted(report.findings, key=lambda one: one.severity.rank)
    return {
        "complete": report.complete,
        "checked": len(report.checked),
        "findings": [_finding(one) for one in ordered[:_MOST_FINDINGS]],
        "more": max(0, len(ordered) - _MOST_FINDINGS),
        "mendable": sum(not step.destructive for step in plan.steps),
        "destructive": sum(step.destructive for step in plan.steps),
    }


def mend(engine: Engine, session: Session | None) -> Sequence[str]:
    """Mends what can be mended without deleting anything, after a copy; what was done, in lines."""
    copy = None if is_server(engine.store.location) else engine.backup
    outcome, plan = engine.doctor.mend(lambda: engine.check(session), copy, destructive=False)
    lines = [*result_lines(outcome, str), *refused_lines(plan, str)]
    lines += left_lines(outcome, "`lcm doctor --apply --delete`")
    return [*lines, *([f"a copy from before is at {outcome.backup}"] if outcome.backup else [])]


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "code": one.code,
        "severity": str(one.severity),
        "message": one.message,
        "ids": list(one.ids[:20]),
        "conversation": one.conversation_id,
        "repair": one.repair,
    }
