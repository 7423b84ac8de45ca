"""Repairs: a plan from a report's findings, and carrying it out.

A finding without a safe repair is refused, not guessed at. Every step is a transaction of its own, after
a checked copy of the database; nothing that a user wiped comes back, and nothing stored is deleted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from lcm_plugin.errors import LcmError
from lcm_plugin.health.resummarise import Rewriter
from lcm_plugin.store.base import Store, Writer
from lcm_plugin.types import Finding, IntegrityReport, RepairPlan, RepairResult, RepairStep, Severity

# Pointers first, then what is counted from them, then what costs model calls.
_ORDER = (
    "context_dangling",
    "context_foreign",
    "message_covered_twice",
    "message_uncovered",
    "context_tokens",
    "counters",
    "message_count",
    "summary_sums",
    "debt_stale",
    "summary_fallback",
)
_CHANGES: dict[str, Callable[[Writer, int], int]] = {
    "context_dangling": lambda writer, here: writer.drop_dangling_items(here),
    "context_foreign": lambda writer, here: writer.drop_dangling_items(here),
    "message_covered_twice": lambda writer, here: writer.drop_covered_items(here),
    "message_uncovered": lambda writer, here: writer.restore_items(here),
    "context_tokens": lambda writer, here: writer.copy_item_tokens(here),
    "counters": lambda writer, here: writer.recount(here),
    "message_count": lambda writer, here: writer.recount(here),
    "summary_sums": lambda writer, here: writer.recount_sources(here),
    "debt_stale": lambda writer, here: writer.free_lease(here),
}
_CHANGES_ITEMS = frozenset(_ORDER[:5])


def plan_repairs(report: IntegrityReport) -> RepairPlan:
    """One step per class of finding and conversation, in the order in which they must be done."""
    grouped: OrderedDict[tuple[str, int | None], list[Finding]] = OrderedDict()
    refused = []
    for finding in report.findings:
        if finding.repair:
            grouped.setdefault((finding.code, finding.conversation_id), []).append(finding)
        elif finding.severity is not Severity.INFO:
            refused.append(finding)
    steps = [
        RepairStep(
            code=code,
            description=findings[0].repair,
            ids=tuple(ref for finding in findings for ref in finding.ids),
            conversation_id=conversation_id,
        )
        for (code, conversation_id), findings in grouped.items()
    ]
    steps.sort(key=lambda step: _ORDER.index(step.code))
    return RepairPlan(tuple(steps), tuple(refused))


def apply_repairs(store: Store, rewriter: Rewriter, plan: RepairPlan) -> list[RepairResult]:
    """Carries a plan out, step by step; a step that fails changes nothing and does not end the others."""
    return [_apply(store, rewriter, step) for step in plan.steps]


def _apply(store: Store, rewriter: Rewriter, step: RepairStep) -> RepairResult:
    try:
        if step.conversation_id is None:
            return RepairResult(step, 0, error="the finding names no conversation")
        if step.code == "summary_fallback":
            written, failed = rewriter.rewrite(step.conversation_id)
            return RepairResult(step, written, failed)
        with store.write() as writer:
            mended = _CHANGES[step.code](writer, step.conversation_id)
            if step.code in _CHANGES_ITEMS:
                writer.recount(step.conversation_id)
        return RepairResult(step, mended)
    except LcmError as error:
        return RepairResult(step, 0, error=str(error))
