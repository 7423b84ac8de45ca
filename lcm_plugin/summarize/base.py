"""The summariser's task and result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias

from lcm_plugin.config import LcmConfig

Level: TypeAlias = Literal["normal", "aggressive", "extractive"]


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """One message, or one summary of a chunk, as plain text.

    ``at`` and ``until`` are milliseconds since the epoch: a message has one time, a summary the
    earliest and latest of what it covers. ``role`` is the message's, or ``summary``.
    """

    id: str
    role: str
    text: str
    at: int
    until: int
    sender: str = ""
    tool: str = ""


@dataclass(frozen=True, slots=True)
class SummaryTask:
    """One chunk to summarise.

    ``depth`` is that of the node to be written: 0 a leaf, d+1 a condensed one. The result must be
    smaller than ``source_tokens``. ``previous`` is the text of the summary before this chunk, context
    that is not to be repeated. ``forced``: a person or an overflow asked, so back-off is bypassed a
    bounded number of times. After ``deadline`` (a `time.monotonic` value) no model is called.
    What concerns the words of ``focus`` is kept in detail.
    """

    blocks: tuple[SourceBlock, ...]
    depth: int
    target_tokens: int
    source_tokens: int
    previous: str = ""
    scope: str = ""
    conversation_id: int | None = None
    forced: bool = False
    deadline: float | None = None
    focus: str = ""


class FallbackCause(StrEnum):
    """Why no model wrote a summary that one was to write."""

    UNANSWERED = "unanswered"
    REJECTED = "rejected"
    CALLS_USED_UP = "calls_used_up"


@dataclass(frozen=True, slots=True)
class SummaryDraft:
    """An accepted summary and its origin.

    ``model`` is empty for an extractive one. ``fallback``: why it is extractive although a model was to write it.
    ``capped``: cut at a sentence because it was over the hard cap. ``made_ms``: how long it took, refused texts included.
    """

    text: str
    tokens: int
    level: Level
    model: str = ""
    prompt_version: str = ""
    fallback: FallbackCause | None = None
    capped: bool = False
    made_ms: int | None = None


class GuardStore(Protocol):
    """Where breaker and spend state live so that they survive a restart. Values are JSON objects."""

    def load_guard(self, key: str) -> dict[str, Any] | None:
        """The state saved under a key, or None."""

    def save_guard(self, key: str, state: dict[str, Any]) -> None:
        """Replaces the state under a key."""


def longest_call(config: LcmConfig, source_tokens: int) -> float:
    """Seconds that a summary call for so much text may take."""
    return config.summary_timeout_ms / 1000 * max(1, source_tokens / 20_000)


_TEXTS = {
    FallbackCause.UNANSWERED: "no model answered",
    FallbackCause.REJECTED: "no model's text was a usable summary",
    FallbackCause.CALLS_USED_UP: "the session's summary calls were used up",
}


def extracted(causes: Mapping[str, int]) -> str:
    """How many summaries were extracted for which cause; those that were imported so have none."""
    parts = []
    for cause, count in sorted(causes.items(), key=lambda one: -one[1]):
        since = f", since {_TEXTS[FallbackCause(cause)]}" if cause else ""
        parts.append(f"{count:,} by extraction{since}")
    return "; ".join(parts)


def writer_of(model: str, level: str) -> str:
    """Who wrote a summary's text, in words; a summary that was imported may not name its model."""
    if level == "person":
        return "a person"
    return model or ("extraction, no model" if level == "extractive" else "a model that is not named")
