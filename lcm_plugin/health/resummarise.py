"""Writing summaries again that a model failed to write, and those made from them, sources first."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lcm_plugin.compaction.sources import message_block, summary_block
from lcm_plugin.markup import summary_block as rendered
from lcm_plugin.store.base import Reader, Store
from lcm_plugin.store.records import Summary
from lcm_plugin.summarize.base import SourceBlock, SummaryTask
from lcm_plugin.summarize.summarizer import Summarizer
from lcm_plugin.tokens import TokenCounter


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Asks the model again, one summary at a time; no transaction is open while it answers."""

    store: Store
    summarizer: Summarizer
    counter: TokenCounter
    leaf_target: int
    condensed_target: int
    zone: str

    def rewrite(self, conversation_id: int) -> tuple[int, int]:
        """How many summaries were written again, and how many the model failed at once more."""
        with self.store.write() as writer:
            wanted = writer.summaries_to_rewrite(conversation_id)
        written = failed = 0
        for summary_id in wanted:
            if self._rewrite_one(summary_id):
                written += 1
            else:
                failed += 1
        return written, failed

    def _rewrite_one(self, summary_id: str) -> bool:
        with self.store.read() as reader:
            old = reader.summaries([summary_id])[summary_id]
            blocks = _blocks(reader, old)
            sources = reader.sources_of([summary_id]).get(summary_id, [])
        draft = self.summarizer.summarize(
            SummaryTask(
                blocks=blocks,
                depth=old.depth,
                target_tokens=self.condensed_target if old.depth else self.leaf_target,
                source_tokens=old.source_tokens,
                conversation_id=old.conversation_id,
                forced=True,
            )
        )
        if draft is None or draft.level == "extractive":
            return False
        new = replace(
            old,
            content=draft.text,
            tokens=draft.tokens,
            level=draft.level,
            model=draft.model,
            prompt_version=draft.prompt_version,
            fallback=False,
            capped=draft.capped,
        )
        shown = {"role": "user", "content": rendered(new, sources, self.zone)}
        with self.store.write() as writer:
            writer.rewrite_summary(new, self.counter.message(shown))
        return True


def _blocks(reader: Reader, summary: Summary) -> tuple[SourceBlock, ...]:
    if summary.depth == 0:
        ids = reader.source_messages(summary.summary_id)
        stored = reader.messages_by_id(ids)
        made = [message_block(stored[message_id]) for message_id in ids]
        return tuple(block for block in made if block is not None)
    names = reader.source_summaries(summary.summary_id)
    found = reader.summaries(names)
    return tuple(summary_block(found[name]) for name in names)
