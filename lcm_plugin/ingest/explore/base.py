"""What every explorer shares: its result, its bounds, and ways to keep a text within them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SUMMARY_CHARS = 1_500
SAMPLE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Exploration:
    """What a payload holds, found without a model.

    ``kind`` is the explorer's word (``json``, ``csv``, ``python``, ``log``, ``image`` …);
    ``line_count`` is None for binary data; ``summary`` has at most `SUMMARY_CHARS` characters;
    ``truncated`` says that the host had cut the text before it came here.
    """

    mime: str
    kind: str
    line_count: int | None
    summary: str
    truncated: bool = False


def clip(text: str, limit: int) -> str:
    """The text within ``limit`` characters, an ellipsis for what is cut."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)].rstrip() + "…"


def one_line(text: str, limit: int = 80) -> str:
    """A short form on one line: blanks joined, control characters left out."""
    head = text[: limit * 8]
    shown = "".join(sign if sign.isprintable() else " " for sign in head)
    return clip(" ".join(shown.split()), limit)


def join_bounded(lines: Iterable[str], limit: int = SUMMARY_CHARS) -> str:
    """As many lines as fit in ``limit`` characters; a last line says when some were left out."""
    kept: list[str] = []
    room, dropped = limit - 30, 0
    for line in lines:
        if dropped or len(line) + 1 > room:
            dropped += 1
            continue
        kept.append(line)
        room -= len(line) + 1
    if dropped:
        kept.append(f"… {dropped} more lines")
    return clip("\n".join(kept), limit)
