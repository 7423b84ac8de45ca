"""How commands write numbers, times and stored texts, and the four words for how an action ended."""

from __future__ import annotations

import re

from lcm_plugin.recall.times import format_instant

DONE, DEFERRED, NOOP, FAILED = "done", "deferred", "noop", "failed"
_FENCES = re.compile(r"^\s{0,3}(`{3,})", re.MULTILINE)


def size(count: int) -> str:
    """Bytes for people."""
    amount = float(count)
    for unit in ("B", "KB", "MB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GB"


def moment(at_ms: int, zone: str) -> str:
    """A time for people, to the minute, in the configured zone."""
    return format_instant(at_ms, zone)[:16].replace("T", " ")


def depths(counts: dict[int, int]) -> str:
    """``10 at depth 0, 2 at depth 1``; ``none`` for none."""
    return ", ".join(f"{count:,} at depth {depth}" for depth, count in sorted(counts.items())) or "none"


def fenced(text: str) -> str:
    """A stored text as a Markdown code block that it cannot end."""
    longest = max((len(fence) for fence in _FENCES.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def code(text: str) -> str:
    """A name or path as code within a line."""
    shown = " ".join(text.split()).replace("`", "'")
    return f"`{shown}`"


def inline(text: str) -> str:
    """A stored text within a line: one line, and no mark-up of its own."""
    return re.sub(r"([\\`*_\[\]<>|~])", r"\\\1", " ".join(text.split()))
