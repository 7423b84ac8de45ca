"""Repairs: a plan from a report's findings. A finding without a safe repair is refused, not guessed at."""

from __future__ import annotations

from collections import OrderedDict

from lcm_plugin.types import Finding, IntegrityReport, RepairPlan, RepairStep, Severity


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
    return RepairPlan(tuple(steps), tuple(refused))
