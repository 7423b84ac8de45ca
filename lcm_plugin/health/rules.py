"""What each breach means in plain words, how much it matters, and what mends it."""

from __future__ import annotations

from dataclasses import dataclass

from lcm_plugin.types import Severity

REFUSED = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A class of findings. ``repair`` says what `doctor apply` does; empty when it cannot be mended."""

    severity: Severity
    meaning: str
    repair: str = REFUSED


RULES: dict[str, Rule] = {
    "structure": Rule(Severity.ERROR, "the database file itself is damaged"),
    "context_dangling": Rule(
        Severity.ERROR, "the context points to a row that does not exist", "remove the pointer"
    ),
    "context_foreign": Rule(
        Severity.ERROR, "the context points into another conversation", "remove the pointer"
    ),
    "context_order": Rule(Severity.ERROR, "context items overlap or stand out of order"),
    "context_tokens": Rule(
        Severity.WARNING,
        "a context item has another token count than its message",
        "copy the message's count",
    ),
    "counters": Rule(
        Severity.ERROR, "a conversation's running totals differ from its context", "count the context again"
    ),
    "message_count": Rule(
        Severity.ERROR, "a conversation's message count differs from its messages", "count the messages again"
    ),
    "message_uncovered": Rule(
        Severity.ERROR,
        "a message is in no context, under no summary and not pruned by /new",
        "put the message back into the context",
    ),
    "message_covered_twice": Rule(
        Severity.ERROR, "a message is covered more than once", "take the raw pointer out of the context"
    ),
    "message_unreadable": Rule(Severity.ERROR, "a message's stored form is not JSON"),
    "part_without_file": Rule(Severity.ERROR, "a message refers to a file without a record"),
    "file_missing": Rule(Severity.ERROR, "the bytes of an externalised payload are gone"),
    "file_changed": Rule(
        Severity.ERROR, "the bytes of an externalised payload are not those that were stored"
    ),
    "summary_without_source": Rule(Severity.ERROR, "a summary has no source"),
    "summary_missing_source": Rule(Severity.ERROR, "a summary links to a source that does not exist"),
    "summary_depth": Rule(
        Severity.ERROR, "a condensed summary's depth is not one more than that of all its sources"
    ),
    "summary_orphan": Rule(Severity.WARNING, "a summary is neither in a context nor the source of another"),
    "summary_sums": Rule(
        Severity.WARNING, "a summary's counts differ from its sources", "count the sources again"
    ),
    "summary_fallback": Rule(
        Severity.WARNING, "a summary was written by extraction because a model failed", "ask the model again"
    ),
    "summary_oversize": Rule(Severity.WARNING, "a summary is not smaller than its source"),
    "debt_stale": Rule(Severity.WARNING, "a compaction lease ended long ago", "give the lease back"),
    "interrupted": Rule(Severity.INFO, "the check stopped before it was through"),
}
