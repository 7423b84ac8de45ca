"""A short piece of a text round its matches, with the matches marked."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_plugin.recall.match import Span

OPEN, CLOSE = "**", "**"
ELLIPSIS = "…"


def make_snippet(text: str, spans: Sequence[Span], width: int = 240) -> str:
    """Up to ``width`` characters of a text, chosen to hold most matches, each between ``**``.

    Blanks and line ends become single blanks. Without a match it is the beginning of the text.
    """
    start, end = _window(text, spans, width)
    pieces, position = [], start
    for low, high in spans:
        low, high = max(low, start), min(high, end)
        if low >= high or low < position:
            continue
        pieces += [text[position:low], OPEN, text[low:high], CLOSE]
        position = high
    pieces.append(text[position:end])
    body = " ".join("".join(pieces).split())
    return f"{ELLIPSIS if start > 0 else ''}{body}{ELLIPSIS if end < len(text) else ''}"


def shorten(text: str, width: int) -> str:
    """The beginning of a text on one line."""
    return make_snippet(text, (), width)


def _window(text: str, spans: Sequence[Span], width: int) -> Span:
    if len(text) <= width:
        return 0, len(text)
    if not spans:
        return 0, _word_end(text, width)
    first = _densest(spans, width * 3 // 4)
    start = _word_start(text, max(0, spans[first][0] - width // 4))
    return start, _word_end(text, min(len(text), max(start + width, spans[first][1])))


def _densest(spans: Sequence[Span], width: int) -> int:
    """The span from which a window of this width holds the most matches; the earliest of equals."""
    best, most, last = 0, 0, 0
    for index, (start, _) in enumerate(spans):
        while last < len(spans) and spans[last][1] <= start + width:
            last += 1
        if last - index > most:
            best, most = index, last - index
    return best


def _word_start(text: str, position: int) -> int:
    blank = text.find(" ", max(0, position - 1), position + 20)
    return blank + 1 if position > 0 and blank >= 0 else position


def _word_end(text: str, position: int) -> int:
    if position >= len(text):
        return len(text)
    blank = text.rfind(" ", max(0, position - 20), position + 1)
    return blank if blank > 0 else position
