"""Formats of numbers and times in answers, and the four outcomes of an action."""

from __future__ import annotations

from lcm_plugin.recall.times import format_instant

DONE, DEFERRED, NOOP, FAILED = "done", "deferred", "noop", "failed"


def moment(at_ms: int, zone: str) -> str:
    """A time for people, to the minute, in the configured zone."""
    return format_instant(at_ms, zone)[:16].replace("T", " ")


def depths(counts: dict[int, int]) -> str:
    """``10 at depth 0, 2 at depth 1``; ``none`` for none."""
    return ", ".join(f"{count:,} at depth {depth}" for depth, count in sorted(counts.items())) or "none"
