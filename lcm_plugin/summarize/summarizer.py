"""Summarises chunks: returns an accepted summary or None.

Escalation, per model: normal, then aggressive (facts only, half the target); then the next model; last the
extractive summariser, which calls nobody. A model that fails is left at once, one whose text is
rejected gets its second level.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import ModelError
from lcm_plugin.events import EventBus
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.summarize.base import (
    FallbackCause,
    GuardStore,
    Level,
    SourceBlock,
    SummaryDraft,
    SummaryTask,
    longest_call,
)
from lcm_plugin.summarize.completers import Completions, NotAsked, Route
from lcm_plugin.summarize.extractive import ExtractiveSummarizer
from lcm_plugin.summarize.facts import Vocabulary
from lcm_plugin.summarize.focus import Focus
from lcm_plugin.summarize.gate import SHRINK, Gate, Limits, Verdict
from lcm_plugin.summarize.guards import MemoryGuards, SpendGuard
from lcm_plugin.summarize.litellm_client import REASONING_TOKENS, ContextTooLong
from lcm_plugin.summarize.prompts import VERSION, PromptParts, frame, prompt
from lcm_plugin.summarize.shortening import ending, shortened
from lcm_plugin.summarize.source import CUT_MARK, SourceText
from lcm_plugin.summarize.units import EXPAND_PREFIX
from lcm_plugin.types import Completer, CompletionRequest, CompletionResult

EXTRACTIVE_VERSION = "extractive-2"
MIN_SOURCE_TOKENS = 64
_WARN_FACTOR = 1.5
_OUTPUT_FACTOR = 2
_WINDOW_SHARE = 0.95
_HALVINGS = 2
_CUT_OFF = frozenset({"length", "max_tokens"})
_LEVELS: tuple[Level, ...] = ("normal", "aggressive")
_TEMPERATURE = {"normal": 0.2, "aggressive": 0.1}


class SpendLimited(NotAsked):
    """The session's calls or tokens for this window are used up."""


@dataclass(frozen=True, slots=True)
class _Job:
    """A task with the values that all its attempts share. Models read ``blocks`` as they are in ``shown``."""

    task: SummaryTask
    blocks: tuple[SourceBlock, ...]
    shown: tuple[SourceBlock, ...]
    text: str
    limits: Limits


def now_ms() -> int:
    """The wall clock in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Summarizer:
    """Writes summaries of chunks. Thread-safe. ``completions`` also serves other purposes than summaries."""

    def __init__(
        self,
        config: LcmConfig,
        counter: TokenCounter,
        events: EventBus,
        completer: Completer | None = None,
        guards: GuardStore | None = None,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        guards = guards or MemoryGuards()
        self._vocabulary = vocabulary = Vocabulary()
        self._config = config
        self._counter = counter
        self._events = events
        self._source = SourceText(config.timezone, config.strip_injected_context_tags)
        self._extractive = ExtractiveSummarizer(counter, config.timezone, vocabulary)
        self._gate = Gate(counter, vocabulary)
        self._spend = SpendGuard(guards, config, clock)
        self.completions = Completions(config, events, completer, guards, clock)

    def summarize(self, task: SummaryTask) -> SummaryDraft | None:
        """A draft smaller than its source, or None: the chunk stays raw, which is no failure."""
        blocks = self._source.visible(task.blocks)
        if not blocks or task.source_tokens < MIN_SOURCE_TOKENS:
            return None
        began = time.monotonic()
        draft, cause = self._by_models(self._job(task, blocks))
        if draft is not None:
            self._spend.progressed(task.scope)
        elif not self.completions.cancelled:
            draft = self._by_extraction(task, blocks, cause)
        return draft and replace(draft, made_ms=round((time.monotonic() - began) * 1_000))

    def cancel(self) -> None:
        """Ends waiting model calls and refuses new ones, for good: the engine is closing."""
        self.completions.cancel()

    def status(self, scope: str = "") -> dict[str, Any]:
        """For ``/lcm``: the models in order with their breakers, and a session's spending."""
        breaker = self.completions.breaker
        models = [
            {"model": route.name, **breaker.state(route.provider, route.model)}
            for route in self.completions.routes()
        ]
        return {"models": models, "spend": self._spend.state(scope)}

    def spent_until(self, scope: str) -> int:
        """When a session whose summary calls are used up may call a model again; 0 when it may now, or has none.

        Milliseconds since the epoch.
        """
        return self._spend.spent_until(scope) if self.completions.available() else 0

    def _job(self, task: SummaryTask, blocks: tuple[SourceBlock, ...]) -> _Job:
        limits = Limits.of(task.source_tokens, task.target_tokens, self._config.summary_cap)
        shown = blocks
        if self.completions.available():
            focus = Focus(task.focus)
            shown = shortened(blocks, task.source_tokens, limits.target, self._vocabulary, focus)
        return _Job(task, blocks, shown, "\n".join(block.text for block in blocks), limits)

    def _by_extraction(
        self, task: SummaryTask, blocks: tuple[SourceBlock, ...], cause: FallbackCause | None
    ) -> SummaryDraft | None:
        limit = min(task.target_tokens, int(task.source_tokens * SHRINK))
        written = self._extractive.summarize(blocks, limit, Focus(task.focus))
        if written is None:
            self._emit(task, "summary.unshrinkable", source_tokens=task.source_tokens)
            return None
        if cause:
            self._emit(task, "summary.fallback", logging.WARNING, tokens=written[1], reason=str(cause))
        return SummaryDraft(*written, "extractive", prompt_version=EXTRACTIVE_VERSION, fallback=cause)

    def _by_models(self, job: _Job) -> tuple[SummaryDraft | None, FallbackCause | None]:
        """A model's accepted draft, or why there is none where a model was to write one."""
        cause: FallbackCause | None = None
        for route in self.completions.routes():
            try:
                draft = self._by_model(route, job)
            except SpendLimited:
                self._emit(job.task, "summary.spend_limited", logging.WARNING)
                return None, FallbackCause.CALLS_USED_UP
            except NotAsked:
                continue
            except ModelError as error:
                self._emit(
                    job.task,
                    "summary.failed",
                    logging.WARNING,
                    model=route.name,
                    error=type(error).__name__,
                    detail=str(error)[:300],
                )
                cause = cause or FallbackCause.UNANSWERED
            else:
                if draft is not None:
                    return draft, None
                cause = FallbackCause.REJECTED
            if self.completions.cancelled:
                break
        return None, cause

    def _by_model(self, route: Route, job: _Job) -> SummaryDraft | None:
        """The first level whose text the gate accepts."""
        allowance = 0
        for level in _LEVELS:
            target = job.limits.target if level == "normal" else max(16, job.limits.target // 2)
            parts = self._parts(route, job, level, target)
            answer, parts = self._ask(route, job, level, parts, allowance)
            cut_off = answer.finish_reason in _CUT_OFF
            verdict = self._gate.check(answer.text, job.text, frame(parts), job.limits, cut_off)
            if cut_off and verdict.reason in ("empty", "reasoning"):
                allowance = REASONING_TOKENS
            if not verdict.reason:
                return self._draft(route, job, level, answer, verdict)
            self._emit(
                job.task,
                "summary.rejected",
                logging.WARNING,
                model=route.name,
                summary_level=level,
                reason=verdict.reason,
                finish_reason=answer.finish_reason,
            )
        return None

    def _parts(
        self, route: Route, job: _Job, level: Level, target: int, room: int | None = None
    ) -> PromptParts:
        """The prompt, its source shortened to ``room`` tokens or to the rest of the model's window."""
        parts = PromptParts(
            depth=job.task.depth,
            aggressive=level == "aggressive",
            target=target,
            span=self._source.span(job.blocks),
            source="",
            previous=ending(job.task.previous.replace(CUT_MARK, "")),
            instructions=self._config.custom_instructions,
            focus=" ".join(job.task.focus.split()),
        )
        if room is None:
            window = self.completions.window(route)
            if window is not None:
                rest = self._counter.text(frame(parts) + parts.previous) + target * _OUTPUT_FACTOR
                room = int(window * _WINDOW_SHARE) - rest
        source = self._source.write(job.shown, lambda text: room is None or self._counter.text(text) <= room)
        return replace(parts, source=source)

    def _ask(
        self, route: Route, job: _Job, level: Level, parts: PromptParts, allowance: int
    ) -> tuple[CompletionResult, PromptParts]:
        """The model's answer; a source that turns out to be too long is halved twice.

        ``allowance`` is room for reasoning on top of the text's, in tokens.
        """

        for left in range(_HALVINGS, -1, -1):
            messages = prompt(parts)
            tokens = self._prompt_tokens(job, parts) + parts.target
            spend = partial(self._spend_on, job.task, tokens)
            request = CompletionRequest(
                messages=messages,
                max_tokens=parts.target * _OUTPUT_FACTOR + allowance,
                temperature=_TEMPERATURE[level],
                purpose="summary",
                timeout=longest_call(self._config, job.task.source_tokens),
            )
            try:
                return self.completions.call(route, request, job.task.deadline, spend), parts
            except ContextTooLong:
                if not left:
                    raise
                room = self._counter.text(parts.source) // 2
                parts = self._parts(route, job, level, parts.target, room)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _prompt_tokens(self, job: _Job, parts: PromptParts) -> int:
        """About the tokens of a prompt. Those of the source are known, and are shared out over what is shown of it."""
        whole = max(1, sum(len(block.text) for block in job.task.blocks))
        source = job.task.source_tokens * len(parts.source) // whole
        return source + self._counter.text(frame(parts)) + self._counter.text(parts.previous)

    def _spend_on(self, task: SummaryTask, tokens: int) -> None:
        """Counts a call of so many tokens; raises `SpendLimited` when it may not be made."""
        if not self._spend.take(task.scope, task.forced, tokens):
            raise SpendLimited("what the session's summary calls may cost in this window is used up")

    def _draft(
        self, route: Route, job: _Job, level: Level, answer: CompletionResult, verdict: Verdict
    ) -> SummaryDraft:
        over = verdict.tokens > _WARN_FACTOR * job.limits.target
        if over or verdict.capped:
            name = "summary.capped" if verdict.capped else "summary.oversize"
            self._emit(
                job.task,
                name,
                logging.WARNING,
                model=route.name,
                tokens=verdict.tokens,
                target=job.limits.target,
                cap=job.limits.cap,
            )
        text, tokens = self._with_expand_line(job, verdict)
        return SummaryDraft(text, tokens, level, answer.model or route.name, VERSION, capped=verdict.capped)

    def _with_expand_line(self, job: _Job, verdict: Verdict) -> tuple[str, int]:
        """Appends the "Expand for details about" line to a model's text that has none."""
        if EXPAND_PREFIX.lower() in verdict.text.lower():
            return verdict.text, verdict.tokens
        room = (
            min(job.limits.cap - verdict.tokens, job.limits.target // 8)
            - self._counter.text(EXPAND_PREFIX)
            - 4
        )
        if room <= 0:
            return verdict.text, verdict.tokens
        line = self._extractive.expand_line(job.blocks, verdict.text, room)
        text = f"{verdict.text}\n{line}"
        tokens = self._counter.text(text)
        return (text, tokens) if tokens <= job.limits.cap else (verdict.text, verdict.tokens)

    def _emit(self, task: SummaryTask, name: str, level: int = logging.INFO, **fields: Any) -> None:
        self._events.emit(
            name,
            level=level,
            conversation_id=task.conversation_id,
            session_key=task.scope or None,
            depth=task.depth,
            **fields,
        )
