"""Types that all explorers share, and helpers that keep a text within bounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lcm_plugin.text import plural

SUMMARY_CHARS = 1_500
HEAD_BYTES = 4 << 20
TAIL_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Exploration:
    """The description of a payload, made without a model.

    ``kind`` is the explorer's word (``json``, ``csv``, ``python``, ``log``, ``png`` …);
    ``line_count`` is None for binary data; ``summary`` has at most `SUMMARY_CHARS` characters;
    ``truncated`` says that the text had been cut before it came here.
    """

    mime: str
    kind: str
    line_count: int | None
    summary: str
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class TextSample:
    """A text to explore: its first `HEAD_BYTES`, its last `TAIL_BYTES`, and whether head is all of it."""

    head: str
    tail: str
    size: int
    line_count: int
    name: str = ""
    mime: str = ""

    @property
    def whole(self) -> bool:
        """Whether the head is the whole text."""
        return not self.tail

    @property
    def extension(self) -> str:
        """The name's extension in lower case, without its dot."""
        return self.name.rpartition("/")[2].rpartition(".")[2].lower() if "." in self.name else ""


@dataclass(frozen=True, slots=True)
class FileOutline:
    """One explorer's result: the kind and type of a file, and lines about its content, the best first."""

    kind: str
    mime: str
    lines: list[str]
    cut: bool = False


def clip(text: str, limit: int) -> str:
    """The text within ``limit`` characters, an ellipsis for what is cut."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)].rstrip() + "…"


def one_line(text: str, limit: int = 80) -> str:
    """A short form on one line: blanks joined, control characters left out."""
    head = text[: limit * 8]
    shown = "".join(sign if sign.isprintable() else " " for sign in head)
    return clip(" ".join(shown.split()), limit)


def listed(items: Iterable[str], limit: int, total: int | None = None) -> str:
    """The first ``limit`` items joined by commas, and how many more there are."""
    every = list(items)
    more = (total if total is not None else len(every)) - min(len(every), limit)
    return ", ".join(every[:limit]) + (f" and {more:,} more" if more > 0 else "")


def join_bounded(lines: Iterable[str], limit: int = SUMMARY_CHARS) -> str:
    """As many lines as fit in ``limit`` characters; a last line says when some were left out."""
    kept: list[str] = []
    room, dropped = limit - 30, 0
    for line in lines:
        line = clip(line, 400)
        if dropped or len(line) + 1 > room:
            dropped += 1
            continue
        kept.append(line)
        room -= len(line) + 1
    if dropped:
        kept.append(f"… {plural(dropped, 'more line')}")
    return "\n".join(kept)
