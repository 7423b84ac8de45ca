"""The audit part of the store seam: what must hold between the rows of a healthy database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

AUDITS = (
    "context_dangling",
    "context_foreign",
    "context_order",
    "context_tokens",
    "counters",
    "message_count",
    "message_uncovered",
    "message_covered_twice",
    "message_unreadable",
    "part_without_file",
    "summary_without_source",
    "summary_missing_source",
    "summary_depth",
    "summary_orphan",
    "summary_sums",
    "summary_fallback",
    "summary_oversize",
    "debt_stale",
)


@dataclass(frozen=True, slots=True)
class Breach:
    """One row that breaks a rule. ``detail`` is what was found instead, in a few words."""

    conversation_id: int | None
    ref: str
    detail: str = ""


class AuditReader(Protocol):
    """Queries of the integrity checker. Each streams, and costs at most one pass over its tables."""

    def audit(self, name: str, *, conversation_id: int | None = None, now: int = 0) -> Iterator[Breach]:
        """The breaches of one of the `AUDITS`, in a whole database or one conversation."""

    def structure_faults(self) -> list[str]:
        """What the database itself says is wrong with its pages, indexes and foreign keys."""
