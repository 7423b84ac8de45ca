"""Why a summary was extracted where a model was to write it, and how that is worded."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class FallbackCause(StrEnum):
    """Why no model wrote a summary that one was to write."""

    UNANSWERED = "unanswered"
    REJECTED = "rejected"
    CALLS_USED_UP = "calls_used_up"


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
