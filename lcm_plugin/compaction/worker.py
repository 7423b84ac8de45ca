"""Working off compaction debts outside any host: what ``lcm worker`` runs.

Any number of workers and hosts may share a database: a debt is taken with a lease, which is renewed while
its passes run and expires when its holder dies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import uuid4

from lcm_plugin.compaction.compactor import Compactor
from lcm_plugin.compaction.policy import Call, Limits
from lcm_plugin.compaction.scheduler import call_of
from lcm_plugin.errors import ServerAway, StoreBusy
from lcm_plugin.store.holders import is_dead
from lcm_plugin.store.protocol import Store
from lcm_plugin.store.records import Conversation
from lcm_plugin.types import CompactionResult, Reason

_PAGE = 200
_AT_ONCE = 16


@dataclass(slots=True)
class WorkReport:
    """What a worker did: how many compactions of which verdict, passes, tokens saved, and integrity checks."""

    compactions: int = 0
    passes: int = 0
    tokens_saved: int = 0
    verdicts: dict[Reason, int] = field(default_factory=dict)
    integrity_checks: int = 0

    def add(self, result: CompactionResult) -> None:
        """Notes one compaction."""
        self.compactions += 1
        self.passes += result.passes
        self.tokens_saved += result.tokens_before - result.tokens_after
        self.verdicts[result.reason] = self.verdicts.get(result.reason, 0) + 1


class Worker:
    """Takes debts that are due, one at a time, until it is stopped.

    ``may_write`` answers for a session key; ignored and stateless lanes and archived conversations are let be.
    ``check`` does the integrity jobs that are due, until what it is given says stop, and returns how many.
    """

    def __init__(
        self,
        store: Store,
        compactor: Compactor,
        clock: Callable[[], int],
        may_write: Callable[[str], bool] = lambda session_key: True,
        check: Callable[[Callable[[], bool]], int] = lambda stop: 0,
    ) -> None:
        self._may_write = may_write
        self._check = check
        self._store = store
        self._compactor = compactor
        self._clock = clock

    def run(
        self, stop: threading.Event, *, until_idle: bool = False, poll_seconds: float = 2.0
    ) -> WorkReport:
        """Works until ``stop`` is set, or with ``until_idle`` until nothing is due any more.

        A set ``stop`` ends it after the pass that is running; what is left stays owed. A database server that goes
        away is waited for, unless it is to end when idle: then that is an error.
        """
        report = WorkReport()
        seen_backlogs = False
        while not stop.is_set():
            try:
                if not seen_backlogs:
                    self._record_backlogs()
                    seen_backlogs = True
                worked = self._round(stop, report)
                checked = self._check(stop.is_set)
                report.integrity_checks += checked
                worked |= checked > 0
            except StoreBusy:
                worked = False
            except ServerAway:
                if until_idle:
                    raise
                worked = False
            if worked:
                continue
            if until_idle:
                break
            stop.wait(poll_seconds)
        return report

    def _round(self, stop: threading.Event, report: WorkReport) -> bool:
        """One go over what is due now; whether any of it made progress."""
        progress = False
        with self._store.read() as reader:
            due = reader.due_debts(self._clock(), limit=_AT_ONCE)
            due += [debt for debt in reader.held_debts(limit=_AT_ONCE) if is_dead(debt.owner)]
            owed = [(debt, reader.conversation(debt.conversation_id)) for debt in due]
        for debt, conversation in owed:
            if stop.is_set():
                return False
            if conversation is None:
                continue
            if not conversation.active or not self._may_write(conversation.session_key):
                self._let_be(conversation.conversation_id)
                continue
            limits = self._compactor.limits(call_of(debt), conversation.session_key)
            progress |= self._work_off(conversation.conversation_id, limits, stop, report)
        return progress

    def _work_off(
        self, conversation_id: int, limits: Limits, stop: threading.Event, report: WorkReport
    ) -> bool:
        """Compacts one conversation as long as that is due and helps; whether anything came of it."""
        progress = False
        while not stop.is_set():
            result = self._compactor.compact(conversation_id, limits, cancelled=stop.is_set)
            report.add(result)
            if not result.compacted or not self._compactor.evaluate(conversation_id, limits).due:
                return progress or result.compacted or result.reason is Reason.BELOW_THRESHOLD
            progress = True
        return progress

    def _let_be(self, conversation_id: int) -> None:
        """Closes a debt that is not to be worked off, so that it does not stand before others."""
        owner, now = f"worker:{uuid4().hex[:8]}", self._clock()
        with self._store.write() as writer:
            if writer.claim_debt(conversation_id, owner, now, 1_000) is not None:
                writer.settle_debt(conversation_id, owner, "done", now, reason=str(Reason.IGNORED))

    def _record_backlogs(self) -> None:
        """Notes what is due without a debt: an imported history that no turn has looked at yet."""
        for conversation in self._active_conversations():
            if not self._may_write(conversation.session_key):
                continue
            limits = self._compactor.limits(Call(), conversation.session_key)
            if conversation.raw_tokens < limits.least_outside:
                continue
            with self._store.read() as reader:
                known = reader.debt(conversation.conversation_id)
            if known is not None:
                continue
            decision = self._compactor.evaluate(conversation.conversation_id, limits)
            if decision.due:
                with self._store.write() as writer:
                    writer.request_compaction(
                        conversation.conversation_id, str(decision.reason), None, self._clock()
                    )

    def _active_conversations(self) -> Iterator[Conversation]:
        after = 0
        while True:
            with self._store.read() as reader:
                page = reader.conversations(after_id=after, limit=_PAGE, active_only=True)
            if not page:
                return
            yield from page
            after = page[-1].conversation_id
