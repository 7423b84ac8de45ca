"""The facade: a chunk in, an accepted summary or nothing out."""

from __future__ import annotations

import time
from collections.abc import Callable

from lcm_plugin.config import LcmConfig
from lcm_plugin.events import EventBus
from lcm_plugin.summarize.base import GuardStore, SummaryDraft, SummaryTask
from lcm_plugin.summarize.extractive import ExtractiveSummarizer
from lcm_plugin.tokens import TokenCounter
from lcm_plugin.types import Completer

EXTRACTIVE_VERSION = "extractive-1"
MIN_SOURCE_TOKENS = 64
_SHRINK = 0.6


def now_ms() -> int:
    """The wall clock in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Summarizer:
    """Writes summaries of chunks. Thread-safe."""

    def __init__(
        self,
        config: LcmConfig,
        counter: TokenCounter,
        events: EventBus,
        completer: Completer | None = None,
        guards: GuardStore | None = None,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._config = config
        self._counter = counter
        self._events = events
        self._completer = completer
        self._guards = guards
        self._clock = clock
        self._extractive = ExtractiveSummarizer(counter, config.timezone)

    def summarize(self, task: SummaryTask) -> SummaryDraft | None:
        """A draft smaller than its source, or None: the chunk stays raw, which is no failure."""
        if task.source_tokens < MIN_SOURCE_TOKENS or not any(block.text.strip() for block in task.blocks):
            return None
        limit = min(task.target_tokens, int(task.source_tokens * _SHRINK))
        written = self._extractive.summarize(task.blocks, limit)
        if written is None:
            return None
        text, tokens = written
        return SummaryDraft(text, tokens, "extractive", prompt_version=EXTRACTIVE_VERSION)
