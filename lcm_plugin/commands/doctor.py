"""``/lcm doctor``: what is wrong with this session, and mending it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from lcm_plugin.commands.cleaning import clean
from lcm_plugin.commands.counting import counting, counting_text
from lcm_plugin.commands.facade import EngineFacade
from lcm_plugin.commands.health import Quote, last_stored
from lcm_plugin.commands.texts import DEFERRED, DONE, FAILED, NOOP
from lcm_plugin.errors import InputError
from lcm_plugin.store.open import is_server
from lcm_plugin.text import inline, plural
from lcm_plugin.types import (
    CommandResult,
    Finding,
    IntegrityReport,
    RepairOutcome,
    RepairPlan,
    Session,
    Severity,
)

DELETE = "delete"
USAGE = (
    "`/lcm doctor` checks, `/lcm doctor apply` mends, `/lcm doctor apply delete` also archives or deletes what is "
    "stale. `/lcm doctor hide msg_…` leaves a message out of every context, `show` takes it back in. "
    "`/lcm doctor clean` shows and removes archived, empty and abandoned lanes."
)
_MOST_FINDINGS = 10
_SEVERITIES = list(Severity)


def doctor(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """Checks this session's conversations and their files; with ``apply``, mends what can be mended."""
    if words and words[0].lower() == "clean":
        return clean(engine, session, words[1:])
    match [word.lower() for word in words]:
        case []:
            return _report(engine.check(session), counting(engine), last_stored(engine))
        case ["apply"]:
            return _apply(engine, session, destructive=False)
        case ["apply", "delete"]:
            return _apply(engine, session, destructive=True)
        case ["hide" | "show" as verb, ref]:
            return _set_apart(engine, session, ref, hide=verb == "hide")
    return CommandResult(USAGE, {"outcome": NOOP}, ok=False)


def _report(report: IntegrityReport, counted: dict[str, Any], stored: str) -> CommandResult:
    counts = Counter(finding.severity for finding in report.findings)
    data = {
        "outcome": DONE if report.complete else DEFERRED,
        "healthy": report.ok and report.complete,
        "complete": report.complete,
        "counting": counted,
        "findings": [_as_data(finding) for finding in report.findings],
    }
    checks = plural(len(report.checked), "check")
    if not report.findings and report.complete:
        whole = f"All is whole: {checks} found no fault in this session."
        return CommandResult(f"{whole} {stored} Tokens are {counting_text(counted)}.", data)
    head = (
        f"{plural(counts[Severity.ERROR], 'error')}, {plural(counts[Severity.WARNING], 'warning')}, "
        f"{plural(counts[Severity.INFO], 'remark')} from {checks}."
    )
    worst_first = sorted(
        report.findings, key=lambda finding: _SEVERITIES.index(finding.severity), reverse=True
    )
    lines = [f"- {finding.severity} `{finding.code}`: {inline(finding.message)}" for finding in worst_first]
    hidden = len(lines) - _MOST_FINDINGS
    more = [f"- … and {hidden:,} more"] if hidden > 0 else []
    unfinished = [] if report.complete else ["The check was ended early; run it again."]
    repair = ["Nothing was changed; `/lcm doctor apply` mends what can be mended."] if report.findings else []
    tokens = f"- tokens: {counting_text(counted)}"
    return CommandResult(
        "\n".join([head, *lines[:_MOST_FINDINGS], *more, f"- {stored}", tokens, *unfinished, *repair]),
        data,
        ok=report.ok,
    )


def _apply(engine: EngineFacade, session: Session, *, destructive: bool) -> CommandResult:
    copy = None if is_server(engine.store.location) else engine.backup
    outcome, plan = engine.doctor.mend(lambda: engine.check(session), copy, destructive=destructive)
    refused = refused_lines(plan, inline)[:_MOST_FINDINGS]
    left = left_lines(outcome, f"`/lcm doctor apply {DELETE}`")
    if not outcome.results:
        nothing = "Nothing of it can be mended." if refused or left else "There is nothing to mend."
        return CommandResult(
            "\n".join([nothing, *_listed(refused), *_listed(left)]),
            {"outcome": NOOP, "refused": len(plan.refused), "left": len(left)},
            ok=not refused,
        )
    copied = [f"A copy from before is at `{outcome.backup}`."] if outcome.backup else []
    data = {
        "outcome": DONE if outcome.ok else FAILED,
        "backup": outcome.backup,
        "steps": [
            {"code": one.step.code, "mended": one.mended, "failed": one.failed} for one in outcome.results
        ],
        "refused": len(plan.refused),
        "left": len(left),
    }
    lines = _listed([*result_lines(outcome, inline), *refused, *left])
    return CommandResult("\n".join([*lines, *copied]), data, ok=outcome.ok)


def result_lines(outcome: RepairOutcome, quote: Quote) -> list[str]:
    """What each step of a repair did."""
    lines = []
    for result in outcome.results:
        verdict = "failed" if result.error or result.failed else "done"
        unmended = f", {result.failed:,} not" if result.failed else ""
        why = f" ({quote(result.error)})" if result.error else ""
        what = f"{quote(result.step.description)}; {result.mended:,} mended{unmended}{why}"
        lines.append(f"{verdict}, {quote(result.step.code)}: {what}")
    return lines


def refused_lines(plan: RepairPlan, quote: Quote) -> list[str]:
    """What no step may mend."""
    return [f"not mended, {quote(one.code)}: {quote(one.message)}" for one in plan.refused]


def left_lines(outcome: RepairOutcome, word: str) -> list[str]:
    """The steps that were left out, and the ``word`` with which they are done."""
    return [f"left, {step.code}: to {step.description} needs {word}" for step in outcome.left]


def _listed(lines: list[str]) -> list[str]:
    return [f"- {line}" for line in lines]


def _set_apart(engine: EngineFacade, session: Session, ref: str, *, hide: bool) -> CommandResult:
    if not ref.removeprefix("msg_").isdigit() or not ref.startswith("msg_"):
        raise InputError(f"{ref} is no message; it is written like msg_12")
    with engine.store.read() as reader:
        lane = engine.sessions.lineage(reader, session)
    changed = engine.doctor.set_apart(ref, [row.conversation_id for row in lane], hide=hide)
    if not changed:
        text = f"{ref} is {'hidden already' if hide else 'not hidden'}; nothing was changed."
        return CommandResult(text, {"outcome": NOOP})
    what = "left out of every context from now on; it stays stored" if hide else "part of its context again"
    return CommandResult(f"Done: {ref} is {what}.", {"outcome": DONE})


def _as_data(finding: Finding) -> dict[str, object]:
    return {
        "code": finding.code,
        "severity": str(finding.severity),
        "message": finding.message,
        "ids": list(finding.ids),
        "conversation_id": finding.conversation_id,
        "repair": finding.repair,
    }
