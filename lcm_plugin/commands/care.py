"""Commands that do something: compact, undo, doctor, backup. Each says how it ended in one of four words."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from lcm_plugin.commands.texts import DEFERRED, DONE, FAILED, NOOP, inline, plural, size
from lcm_plugin.sessions.gate import Access
from lcm_plugin.types import (
    CommandResult,
    CompactionResult,
    Finding,
    IntegrityReport,
    Reason,
    Session,
    Severity,
)

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine

_MOST_FINDINGS = 10
_SPACE_FACTOR = 1.2
_DEFERRED = frozenset({Reason.LOCKED, Reason.DEFERRED, Reason.CALLS_USED_UP, Reason.CANCELLED})
_SENTENCES = {
    DONE: "Compacted",
    NOOP: "There was nothing to compact",
    DEFERRED: "Not now: the work is kept and done later",
    FAILED: "The compaction failed; nothing was changed by the failed part",
}


def compact(engine: Engine, session: Session, words: list[str]) -> CommandResult:
    """Compacts as far as it goes."""
    if engine.access(session) is Access.READ_ONLY:
        return CommandResult("This session is stateless: nothing of it may be written.", {"outcome": NOOP})
    result = engine.compact(session, force=True)
    outcome = _outcome(result)
    text = f"{_SENTENCES[outcome]} ({str(result.reason).replace('_', ' ')})."
    if result.passes:
        text += (
            f" {plural(result.passes, 'summary')} written, {result.tokens_before:,} → {result.tokens_after:,} tokens "
            "in the context."
        )
    if result.detail:
        text += f" {inline(result.detail)}"
    data = {
        "outcome": outcome,
        "compacted": result.compacted,
        "reason": str(result.reason),
        "passes": result.passes,
        "tokens_before": result.tokens_before,
        "tokens_after": result.tokens_after,
        "summaries": list(result.summaries),
    }
    return CommandResult(text, data, ok=outcome != FAILED)


def undo(engine: Engine, session: Session, words: list[str]) -> CommandResult:
    """Takes the last ``/new`` back."""
    restored = engine.undo_new(session)
    if restored:
        text = (
            f"Done: {plural(restored, 'item')} of the context are back in place."
            if restored > 1
            else ("Done: 1 item of the context is back in place.")
        )
        return CommandResult(text, {"outcome": DONE, "restored": restored})
    text = (
        "There is nothing to undo: no `/new` took anything out, or the context was compacted or reset since."
    )
    return CommandResult(text, {"outcome": NOOP, "restored": 0})


def doctor(engine: Engine, session: Session, words: list[str]) -> CommandResult:
    """Checks this session's conversations and their files; with ``apply``, mends what can be mended."""
    if words and words[0].lower() != "apply":
        return CommandResult("`/lcm doctor` checks, `/lcm doctor apply` mends.", {"outcome": NOOP}, ok=False)
    report = engine.check(session)
    if words:
        return _apply_repairs(engine, report)
    counts = Counter(finding.severity for finding in report.findings)
    data = {
        "outcome": DONE if report.complete else DEFERRED,
        "healthy": report.ok and report.complete,
        "complete": report.complete,
        "findings": [_as_data(finding) for finding in report.findings],
    }
    checks = plural(len(report.checked), "check")
    if not report.findings and report.complete:
        return CommandResult(f"All is whole: {checks} found no fault in this session.", data)
    head = (
        f"{plural(counts[Severity.ERROR], 'error')}, {plural(counts[Severity.WARNING], 'warning')}, "
        f"{plural(counts[Severity.INFO], 'remark')} from {checks}."
    )
    lines = [
        f"- {finding.severity} `{finding.code}`: {inline(finding.message)}"
        for finding in sorted(
            report.findings, key=lambda one: list(Severity).index(one.severity), reverse=True
        )
    ]
    hidden = len(lines) - _MOST_FINDINGS
    more = [f"- … and {hidden:,} more"] if hidden > 0 else []
    unfinished = [] if report.complete else ["The check was ended early; run it again."]
    repair = ["Nothing was changed; `/lcm doctor apply` mends what can be mended."] if report.findings else []
    return CommandResult(
        "\n".join([head, *lines[:_MOST_FINDINGS], *more, *unfinished, *repair]), data, ok=report.ok
    )


def _apply_repairs(engine: Engine, report: IntegrityReport) -> CommandResult:
    plan = engine.plan_repairs(report)
    refused = [f"- not mended, `{one.code}`: {inline(one.message)}" for one in plan.refused[:_MOST_FINDINGS]]
    if not plan.steps:
        text = "\n".join(
            ["There is nothing to mend." if not refused else "Nothing of it can be mended.", *refused]
        )
        return CommandResult(text, {"outcome": NOOP, "refused": len(plan.refused)}, ok=not refused)
    outcome = engine.repair(plan, backup="://" not in engine.store.location)
    lines = [
        f"- {'failed' if one.error or one.failed else 'done'}, `{one.step.code}`: {one.step.description}; "
        f"{one.mended:,} mended"
        + (f", {one.failed:,} not" if one.failed else "")
        + (f" ({one.error})" if one.error else "")
        for one in outcome.results
    ]
    copied = [f"A copy from before is at `{outcome.backup}`."] if outcome.backup else []
    data = {
        "outcome": DONE if outcome.ok else FAILED,
        "backup": outcome.backup,
        "steps": [
            {"code": one.step.code, "mended": one.mended, "failed": one.failed} for one in outcome.results
        ],
        "refused": len(plan.refused),
    }
    return CommandResult("\n".join([*lines, *refused, *copied]), data, ok=outcome.ok)


def backup(engine: Engine, session: Session, words: list[str]) -> CommandResult:
    """Copies the database beside it, under a name with the time."""
    if "://" in engine.store.location:
        return CommandResult(
            "A PostgreSQL database is backed up on its server, with `pg_dump`.", {"outcome": NOOP}
        )
    source = Path(engine.store.location)
    with engine.store.read() as reader:
        needed = int(reader.status().size_bytes * _SPACE_FACTOR)
    free = shutil.disk_usage(source.absolute().parent).free
    if free < needed:
        text = f"Failed: the copy needs {size(needed)}, and only {size(free)} are free on that disk."
        return CommandResult(text, {"outcome": FAILED, "needed": needed, "free": free}, ok=False)
    target = engine.backup()
    return CommandResult(f"Done: a checked copy is at `{target}`.", {"outcome": DONE, "path": target})


def _outcome(result: CompactionResult) -> str:
    if result.compacted:
        return DONE
    if result.reason in _DEFERRED:
        return DEFERRED
    return FAILED if result.reason in (Reason.MODEL_FAILED, Reason.BUDGET_UNREACHABLE) else NOOP


def _as_data(finding: Finding) -> dict[str, object]:
    return {
        "code": finding.code,
        "severity": str(finding.severity),
        "message": finding.message,
        "ids": list(finding.ids),
        "conversation_id": finding.conversation_id,
    }
