"""What the host reads of an engine: the counts of the newest model call, and how a compaction went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Counters:
    """The fields of the host's base class, under the host's names.

    ``last_prompt_tokens`` is set to -1 by the host while it waits for the first count after a compaction.
    ``compression_count`` stays at 1: from 2 on the host warns at each compaction that accuracy may degrade, since its own
    compressor summarises its summary anew. Here what was compacted can be read word for word; ``compactions`` counts.
    """

    emit_automatic_compaction_status = False
    """Newer hosts ask whether to announce each compaction in the chat."""

    def __init__(self) -> None:
        self.last_real_prompt_tokens = 0
        self.last_compression_rough_tokens = 0
        self.awaiting_real_usage_after_compression = False
        self._reset_counters()
        self._reset_outcome()

    def _reset_counters(self) -> None:
        """Another session: nothing was counted in it yet."""
        self.last_prompt_tokens = 0
        self.last_completion_tokens = 0
        self.last_total_tokens = 0
        self.compression_count = self.compactions = 0
        self._counted = self._estimated = self._estimate_of_counted = 0

    def _count(self, usage: Mapping[str, Any]) -> int:
        """Takes the provider's counts of a call and returns that of the prompt."""
        prompt, completion = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
        self.last_prompt_tokens = self.last_real_prompt_tokens = prompt
        self.last_completion_tokens = completion
        self.last_total_tokens = self._counted = int(usage.get("total_tokens") or prompt + completion)
        self._estimate_of_counted, self._estimated = self._estimated, 0
        return prompt

    def _size(self, estimate: int | None) -> int:
        """What the list costs, given the host's estimate, which is a quarter of its characters.

        Once the provider has counted a request of which there was an estimate, only what was added to that is estimated.
        """
        tokens = positive(estimate)
        if tokens != self.last_real_prompt_tokens:
            self._estimated = tokens
            if self._estimate_of_counted:
                tokens = self.last_real_prompt_tokens + tokens - self._estimate_of_counted
        return max(tokens, self._counted)

    def _reset_outcome(self, aborted: str = "") -> None:
        """A compaction begins, or was given up for the reason in ``aborted``."""
        self._last_compression_made_progress = False
        self._last_compress_aborted = bool(aborted)
        self._last_summary_error = aborted or None
        self._last_summary_fallback_used = False
        self._last_aux_model_failure_model = None
        self._last_aux_model_failure_error = None

    def _made_smaller(self) -> None:
        """A compaction gave the host a smaller list, which nobody has counted yet."""
        self.compression_count = 1
        self.compactions += 1
        self._counted = self._estimated = self._estimate_of_counted = 0
        self._last_compression_made_progress = True


def positive(tokens: int | None) -> int:
    """A count; the host's -1 ("not known yet") and None are 0."""
    return tokens if isinstance(tokens, int) and tokens > 0 else 0
