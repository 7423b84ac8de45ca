"""Repairs: makes a plan from a report's findings, and carries it out.

A finding without a safe repair is refused, not guessed at. Every step is a transaction of its own and touches
only what the plan lists; a row that is whole again by then is left alone. Nothing that a user wiped comes back.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from lcm_plugin.errors import LcmError
from lcm_plugin.files.store import FileFolder
from lcm_plugin.maintenance.file_checks import LEFTOVER_SECONDS
from lcm_plugin.maintenance.rules import RULES
from lcm_plugin.maintenance.summaries.rewriting import Rewriter, Rewritten
from lcm_plugin.store.integrity import message_ids
from lcm_plugin.store.protocol import Store, Writer
from lcm_plugin.types import Finding, IntegrityReport, RepairPlan, RepairResult, RepairStep, Severity

# In order of dependence: the schema, pointers, counts, then repairs that cost model calls.
_ORDER = (
    "index_differs", "schema_differs", "file_rights", "file_leftover", "message_unreadable",
    "message_withdrawn", "context_dangling", "context_foreign", "summary_link_lost", "summary_depth",
    "summary_span", "message_covered_twice", "context_order", "summary_orphan", "message_uncovered",
    "context_tokens", "message_count", "summary_sums", "counters", "debt_stale", "debt_stuck",
    "summary_fallback", "summary_marker", "summary_empty", "summary_answer", "summary_prompt_leak",
    "summary_echo", "summary_cut", "summary_oversize", "summary_over_cap", "summary_unsupported", "lane_stale",
    "file_orphan", "blob_orphan",
)  # fmt: skip
REWRITES = frozenset(_ORDER[_ORDER.index("summary_fallback") : _ORDER.index("lane_stale")])
_OF_ITEMS = frozenset((
    "context_dangling", "context_foreign", "message_covered_twice", "context_order", "message_uncovered",
    "context_tokens", "summary_depth", "summary_span", "message_unreadable", "message_withdrawn",
))  # fmt: skip
# Repairs that may leave some of their rows as they are.
_MAY_BE_LEFT = frozenset((
    "context_order", "summary_orphan", "summary_link_lost", "message_uncovered", "message_covered_twice",
))  # fmt: skip
_CHANGES: dict[str, Callable[[Writer, int, RepairStep], int]] = {
    "context_dangling": lambda writer, here, step: writer.drop_dangling_items(here, step.ids),
    "context_foreign": lambda writer, here, step: writer.drop_dangling_items(here, step.ids),
    "context_order": lambda writer, here, step: writer.reorder_items(here, step.ids),
    "context_tokens": lambda writer, here, step: writer.copy_item_tokens(here, step.ids),
    "counters": lambda writer, here, step: writer.recount(here),
    "message_count": lambda writer, here, step: writer.recount(here),
    "message_covered_twice": lambda writer, here, step: writer.drop_covered_items(here, step.ids),
    "message_uncovered": lambda writer, here, step: writer.restore_items(here, step.ids),
    "summary_link_lost": lambda writer, here, step: writer.relink(here, step.ids),
    "summary_depth": lambda writer, here, step: writer.recount_depths(here),
    "summary_span": lambda writer, here, step: writer.recount_sources(here),
    "summary_sums": lambda writer, here, step: writer.recount_sources(here),
    "debt_stale": lambda writer, here, step: writer.free_lease(here),
    "debt_stuck": lambda writer, here, step: writer.free_lease(here),
}


def plan_repairs(report: IntegrityReport) -> RepairPlan:
    """One step per class of finding and conversation, in the order in which they must be done."""
    grouped: OrderedDict[tuple[str, int | None], list[Finding]] = OrderedDict()
    refused = []
    for finding in report.findings:
        if finding.repair:
            grouped.setdefault((finding.code, finding.conversation_id), []).append(finding)
        elif finding.severity is not Severity.INFO:
            refused.append(finding)
    if any(code == "index_differs" for code, _ in grouped):
        _join(grouped, "index_differs")
    steps = [
        RepairStep(
            code=code,
            description=findings[0].repair,
            ids=tuple(dict.fromkeys(ref for finding in findings for ref in finding.ids)),
            conversation_id=conversation_id,
            destructive=RULES[code].destructive,
        )
        for (code, conversation_id), findings in grouped.items()
    ]
    steps.sort(key=lambda step: _ORDER.index(step.code))
    return RepairPlan(tuple(steps), tuple(refused))


def _join(grouped: OrderedDict[tuple[str, int | None], list[Finding]], code: str) -> None:
    """Joins the findings of a class that concerns the whole database into one step."""
    keys = [key for key in grouped if key[0] == code]
    grouped[(code, None)] = [finding for key in keys for finding in grouped[key]]
    for key in keys:
        if key[1] is not None:
            del grouped[key]


class Repairer:
    """Carries plans out, step by step; a step that fails changes nothing and does not end the others."""

    def __init__(
        self, store: Store, rewriter: Rewriter, folder: FileFolder | None, clock: Callable[[], int]
    ) -> None:
        self._store = store
        self._rewriter = rewriter
        self._folder = folder
        self._clock = clock

    def rewrite(self, conversation_id: int, summary_id: str) -> Rewritten:
        """Has one summary written again, and those made from it; raises as `Rewriter.rewrite`."""
        return self._rewriter.rewrite(conversation_id, [summary_id], "")

    def apply(self, steps: tuple[RepairStep, ...]) -> list[RepairResult]:
        """Carries out the steps in their order; returns their results."""
        rewritten: set[str] = set()
        return [self._apply(step, rewritten) for step in steps]

    def _apply(self, step: RepairStep, rewritten: set[str]) -> RepairResult:
        try:
            if step.code.startswith("file_"):
                return RepairResult(step, self._files(step))
            if step.conversation_id is None:
                return RepairResult(step, self._database(step))
            if step.code in REWRITES:
                done = self._rewriter.rewrite(step.conversation_id, step.ids, step.code, frozenset(rewritten))
                rewritten |= done.ids
                return RepairResult(step, len(done.ids), done.failed)
            if step.code == "summary_orphan":
                mended = self._rewriter.restore(step.conversation_id, step.ids)
            else:
                mended = self._conversation(step, step.conversation_id)
            failed = max(0, len(step.ids) - mended) if step.code in _MAY_BE_LEFT else 0
            return RepairResult(step, mended, failed)
        except (LcmError, OSError) as error:
            return RepairResult(step, 0, error=str(error))

    def _conversation(self, step: RepairStep, conversation_id: int) -> int:
        now = self._clock()
        with self._store.write() as writer:
            if step.code in ("message_unreadable", "message_withdrawn"):
                writer.hide(conversation_id, message_ids(step.ids), now)
                mended = len(step.ids)
            elif step.code == "lane_stale":
                stale = list(writer.audit("lane_stale", conversation_id=conversation_id, now=now))
                for _ in stale:
                    writer.archive(conversation_id, "session-end", now)
                mended = len(stale)
            else:
                mended = _CHANGES[step.code](writer, conversation_id, step)
            if step.code in _OF_ITEMS:
                writer.recount(conversation_id)
        return mended

    def _database(self, step: RepairStep) -> int:
        if step.code == "index_differs":
            return self._rebuild_index(step)
        with self._store.write() as writer:
            if step.code == "schema_differs":
                return writer.restore_schema()
            if step.code == "blob_orphan":
                return sum(writer.delete_blob(digest) for digest in step.ids)
        raise LcmError(f"the finding {step.code} names no conversation")

    def _rebuild_index(self, step: RepairStep) -> int:
        with self._store.write() as writer:
            whole = writer.rebuild_index()
        if not whole:
            # Damaged pages of the old index are in no table now; rewriting the file leaves them out.
            self._store.give_back_space()
        while True:
            with self._store.write() as writer:
                if not writer.index_pending():
                    return max(1, len(step.ids))

    def _files(self, step: RepairStep) -> int:
        if step.code == "file_rights":
            return sum(_make_private(Path(name)) for name in step.ids)
        if self._folder is None:
            raise LcmError("the folder of payloads is not configured here (largeFilesDir)")
        if step.code == "file_leftover":
            return self._folder.remove_leftovers()
        with self._store.write() as writer:
            digests = {_digest(uri): uri for uri in step.ids}
            named = set(writer.known_digests(sorted(digests)))
            limit = time.time() - LEFTOVER_SECONDS
            unneeded = [
                uri
                for digest, uri in digests.items()
                if digest not in named and self._folder.modified(uri) < limit
            ]
            for uri in unneeded:
                self._folder.delete(uri)
        return len(unneeded)


def _digest(uri: str) -> str:
    return uri.rpartition("/")[2].partition(".")[0]


def _make_private(path: Path) -> int:
    """Takes others' rights away by name: no handle on a database file is ever opened here."""
    mode = os.lstat(path).st_mode
    path.chmod(mode & 0o700)
    return 1
