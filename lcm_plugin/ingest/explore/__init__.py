"""What is in a payload: its type, shape and samples, found without any model.

`explore` looks at bounded samples only, so that hostile input (zip bombs, entity bombs, deep
nesting, a hundred megabytes) costs bounded time and memory, and the same bytes always give the
same summary.
"""

from __future__ import annotations

from lcm_plugin.ingest.explore.base import SUMMARY_CHARS, Exploration, clip, one_line

__all__ = ["SUMMARY_CHARS", "Exploration", "explore"]


def explore(data: bytes, name: str = "", mime: str = "") -> Exploration:
    """Explore a payload. ``name`` and ``mime`` are what the host said, the bytes decide."""
    text = data.decode("utf-8", "replace")
    lines = text.count("\n") + 1
    return Exploration(
        mime or "text/plain",
        "text",
        lines,
        clip(f"{lines} lines. Begins: {one_line(text, 400)}", SUMMARY_CHARS),
    )
