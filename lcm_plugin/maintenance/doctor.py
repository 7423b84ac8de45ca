"""The doctor: checks, plans, and mends after a checked copy of the database."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from lcm_plugin.errors import NotFound, StoreError
from lcm_plugin.events import EventBus
from lcm_plugin.maintenance.check import Checker, worst
from lcm_plugin.maintenance.repair import REWRITES, Repairer, plan_repairs
from lcm_plugin.maintenance.summaries.rewriting import Rewritten
from lcm_plugin.store.failures import HookFailure
from lcm_plugin.store.protocol import Store
from lcm_plugin.store.records import Conversation
from lcm_plugin.types import (
    IntegrityReport,
    RepairOutcome,
    RepairPlan,
    RepairResult,
    RepairStep,
    Severity,
)

_LEVELS = {Severity.ERROR: logging.ERROR, Severity.WARNING: logging.WARNING}
_MOST_ROUNDS = 50


class Doctor:
    """Checks and repairs for commands and the engine. ``copy`` makes a checked copy and returns its path."""

    def __init__(
        self,
        store: Store,
        checker: Checker,
        repairer: Repairer,
        events: EventBus,
        clock: Callable[[], int],
        closing: Callable[[], bool],
    ) -> None:
        self._store = store
        self.checker = checker
        self._repairer = repairer
        self._events = events
        self._clock = clock
        self._closing = closing
        # The engine's, which may get those of its host's plugin later.
        self.failures: Callable[[], Sequence[HookFailure]] = lambda: ()

    def check(
        self,
        conversations: Sequence[Conversation] | None = None,
        *,
        selected_by_host: bool | None = None,
        seconds: float | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> IntegrityReport:
        """Checks everything or some conversations, for at most ``seconds`` or until ``stop``; emits an event."""
        end = None if seconds is None else time.monotonic() + seconds
        began = time.monotonic()
        report = self.checker.check(
            conversations,
            now=self._clock(),
            stop=lambda: self._closing() or stop() or (end is not None and time.monotonic() > end),
            selected_by_host=selected_by_host,
            failing=self._failing_of(conversations),
        )
        self.emit("integrity.checked", report, seconds=round(time.monotonic() - began, 3))
        return report

    def _failing_of(self, conversations: Sequence[Conversation] | None) -> list[HookFailure]:
        failing = [one for one in self.failures() if one.in_a_row]
        if conversations is None:
            return failing
        lanes = {name for row in conversations for name in (row.session_key, row.session_id)}
        return [one for one in failing if one.lane in lanes]

    def emit(self, name: str, report: IntegrityReport, **fields: Any) -> None:
        """Emits an event with the counts of a report's findings."""
        found = worst(report)
        self._events.emit(
            name,
            level=_LEVELS.get(found, logging.DEBUG) if found else logging.DEBUG,
            conversation_id=_only_conversation(report),
            findings=len(report.findings),
            errors=sum(finding.severity is Severity.ERROR for finding in report.findings),
            classes=",".join(sorted({finding.code for finding in report.findings})),
            complete=report.complete,
            **fields,
        )

    def repair(
        self, plan: RepairPlan, copy: Callable[[], str] | None, *, destructive: bool = False
    ) -> RepairOutcome:
        """Carries out a plan after a copy. Steps that delete or end something only with ``destructive``.

        Raises `StoreUnavailable` when the copy cannot be made; then nothing but a broken full-text index,
        which is made from the tables anyway, was changed.
        """
        steps = tuple(step for step in plan.steps if destructive or not step.destructive)
        left = tuple(step for step in plan.steps if step not in steps)
        results: list[RepairResult] = []
        where = ""
        if copy is not None and any(not step.code.startswith("file_") for step in steps):
            where, results = self._copied(copy, steps)
            done = {result.step for result in results}
            steps = tuple(step for step in steps if step not in done)
        results += self._repairer.apply(steps)
        for result in results:
            self._events.emit(
                "integrity.repaired" if not (result.error or result.failed) else "integrity.repair_failed",
                level=logging.INFO if not (result.error or result.failed) else logging.WARNING,
                conversation_id=result.step.conversation_id,
                code=result.step.code,
                mended=result.mended,
                failed=result.failed,
            )
        return RepairOutcome(tuple(results), where, left)

    def mend(
        self,
        check: Callable[[], IntegrityReport],
        copy: Callable[[], str] | None,
        *,
        destructive: bool = False,
        rewrite: bool = True,
    ) -> tuple[RepairOutcome, RepairPlan]:
        """Checks and repairs in rounds, since some findings show only when others are mended.

        One copy is made, before the first change. Ends when a round mends nothing new. Returns the outcome
        and the remaining plan. Without ``rewrite`` no summary gets another text.
        """
        results: list[RepairResult] = []
        where = ""
        tried: set[tuple[str, int | None, tuple[str, ...]]] = set()
        for _ in range(_MOST_ROUNDS):
            plan = plan_repairs(check())
            fresh = tuple(step for step in plan.steps if _key(step) not in tried)
            if not rewrite:
                fresh = tuple(step for step in fresh if step.code not in REWRITES)
            doable = [step for step in fresh if destructive or not step.destructive]
            if not doable:
                break
            tried |= {_key(step) for step in fresh}
            outcome = self.repair(
                RepairPlan(fresh, plan.refused), None if where else copy, destructive=destructive
            )
            where = where or outcome.backup
            results += outcome.results
        left = tuple(step for step in plan.steps if step.destructive and not destructive)
        return RepairOutcome(tuple(results), where, left), plan

    def rewrite(self, conversation_id: int, summary_id: str) -> Rewritten:
        """Has one summary written again, and those made from it; raises as `Rewriter.rewrite`."""
        return self._repairer.rewrite(conversation_id, summary_id)

    def set_apart(self, ref: str, conversation_ids: Sequence[int], *, hide: bool) -> bool:
        """Leaves a message out of every context, or takes it back in; the row stays. False when it was so already.

        Raises `NotFound` when it belongs to none of the conversations.
        """
        message_id = int(ref.removeprefix("msg_"))
        with self._store.write() as writer:
            found = writer.messages_by_id([message_id]).get(message_id)
            if found is None or found.head.conversation_id not in conversation_ids:
                raise NotFound(f"there is no message {ref} here")
            if found.head.hidden == hide:
                return False
            change = writer.hide if hide else writer.show
            change(found.head.conversation_id, [message_id], self._clock())
            writer.recount(found.head.conversation_id)
        return True

    def _copied(
        self, copy: Callable[[], str], steps: tuple[RepairStep, ...]
    ) -> tuple[str, list[RepairResult]]:
        try:
            return copy(), []
        except StoreError:
            derived = tuple(step for step in steps if step.code == "index_differs")
            if not derived:
                raise
            # A broken full-text index alone can keep a copy from being made, and holds nothing of its own.
            results = self._repairer.apply(derived)
            return copy(), results


def _key(step: RepairStep) -> tuple[str, int | None, tuple[str, ...]]:
    return step.code, step.conversation_id, step.ids


def _only_conversation(report: IntegrityReport) -> int | None:
    ids = {finding.conversation_id for finding in report.findings}
    return next(iter(ids)) if len(ids) == 1 else None
