"""Writes flawed summaries again, and those made from them, sources first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lcm_plugin.compaction.leases import CompactionLease
from lcm_plugin.errors import StoreBusy
from lcm_plugin.maintenance.summaries.checks import SummaryHealth, SummaryTarget, source_blocks, sources_whole
from lcm_plugin.maintenance.summaries.texts import SummaryTexts
from lcm_plugin.messages.markup import summary_tokens
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.store.protocol import Store
from lcm_plugin.store.records import Summary
from lcm_plugin.summarize.base import SummaryDraft, SummaryTask
from lcm_plugin.summarize.summarizer import Summarizer


@dataclass(slots=True)
class Rewritten:
    """How many summaries were written again and how many could not be. ``ids`` are the former."""

    ids: set[str]
    failed: int = 0


class Rewriter:
    """Asks the model again, one summary at a time; no transaction is open while it answers.

    It holds the conversation's compaction lease meanwhile, so that nothing is made from a text that is about
    to change. The old text is never shown to the model, which might copy its flaw.
    """

    def __init__(
        self,
        store: Store,
        summarizer: Summarizer,
        counter: TokenCounter,
        health: SummaryHealth,
        target_of: SummaryTarget,
        texts: SummaryTexts,
        zone: str,
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._summarizer = summarizer
        self._counter = counter
        self._health = health
        self._target_of = target_of
        self._texts = texts
        self._zone = zone
        self._clock = clock

    def rewrite(
        self, conversation_id: int, refs: Sequence[str], code: str, done: frozenset[str] = frozenset()
    ) -> Rewritten:
        """Writes some summaries with the flaw ``code`` again, and all that were made from them.

        Those in ``done`` were just written and stay. Raises `StoreBusy` when the conversation is being
        compacted; then nothing was changed.
        """
        flawed = set(refs) - done
        with self._store.read() as reader:
            wanted = [
                one for one in reader.stale_summaries(conversation_id, sorted(flawed)) if one not in done
            ]
            before = reader.debt(conversation_id)
        result = Rewritten(set(refs) & done)
        if not wanted:
            return result
        lease = CompactionLease.of(self._store, conversation_id, self._clock)
        if lease is None:
            raise StoreBusy(f"conversation {conversation_id} is being compacted; try again when that is done")
        kept: set[str] = set()
        try:
            with lease:
                for summary_id in wanted:
                    if not lease.held or self._summarizer.completions.cancelled:
                        result.failed += 1
                    elif self._rewrite_one(summary_id, code if summary_id in flawed else ""):
                        result.ids.add(summary_id)
                    else:
                        kept.add(summary_id)
        finally:
            idle = before is None or before.state in ("done", "running")
            lease.settle(
                "done" if before is None else "pending" if before.state == "running" else before.state,
                reason="" if before is None else before.reason,
                error="" if before is None else before.last_error,
                next_attempt_at=0 if idle or before is None else before.next_attempt_at,
            )
        result.failed += len(kept)
        return result

    def restore(self, conversation_id: int, refs: Sequence[str]) -> int:
        """Puts summaries that nothing reaches back into the context where nothing covers their stretch."""
        with self._store.write() as writer:
            found = writer.summaries(list(refs))
            sources = writer.sources_of(list(refs))
            # The deepest first: it stands for those below it.
            ordered = sorted(found.values(), key=lambda one: (-one.depth, one.first_seq))
            restored = sum(
                writer.restore_summary(one, self._shown_tokens(one, sources.get(one.summary_id, [])))
                for one in ordered
                if one.conversation_id == conversation_id
            )
            writer.recount(conversation_id)
        return restored

    def _rewrite_one(self, summary_id: str, code: str) -> bool:
        """True when a better text is stored now. ``code`` is empty for one that is only made from another's text."""
        with self._store.read() as reader:
            old = reader.summaries([summary_id]).get(summary_id)
            if old is None:
                return False
            blocks = source_blocks(reader, old)
            whole = sources_whole(reader, old)
            target = self._target_of(reader, old.conversation_id, old.depth)
        if not blocks or not whole:
            return False
        draft = self._summarizer.summarize(
            SummaryTask(
                blocks=blocks,
                depth=old.depth,
                target_tokens=target,
                source_tokens=old.source_tokens,
                conversation_id=old.conversation_id,
                forced=True,
            )
        )
        if draft is None or draft.tokens >= old.source_tokens or not self._good_enough(draft, old, code):
            return False
        new = replace(
            old,
            content=draft.text,
            tokens=draft.tokens,
            level=draft.level,
            model=draft.model,
            prompt_version=draft.prompt_version,
            fallback=False,
            fallback_cause="",
            capped=draft.capped,
            made_ms=draft.made_ms,
        )
        with self._store.read() as reader:
            if code and any(flaw.code == code for flaw in self._health.judge(reader, new)):
                return False
        with self._store.write() as writer:
            return self._texts.put(writer, old, new)

    @staticmethod
    def _good_enough(draft: SummaryDraft, old: Summary, code: str) -> bool:
        """An extraction takes a model's place only where no model is to be asked and the old text is no use."""
        if draft.level != "extractive":
            return True
        return not draft.fallback and code != "summary_fallback" and (bool(code) or old.level == "extractive")

    def _shown_tokens(self, summary: Summary, sources: Sequence[str]) -> int:
        return summary_tokens(summary, sources, self._zone, self._counter)
