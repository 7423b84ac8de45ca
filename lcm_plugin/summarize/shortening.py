"""Shortens long messages before a model reads them to summarise them; what is stored stays whole.

A message keeps its beginning and its end, where results say how they ended, and of what is between them the sentences
that tell most: errors, identifiers, numbers, decisions. So a summary call reads what a summary can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lcm_plugin.summarize.base import SourceBlock
from lcm_plugin.summarize.extraction.reading import read
from lcm_plugin.summarize.extraction.selection import Choice
from lcm_plugin.summarize.facts import Vocabulary
from lcm_plugin.summarize.focus import Focus
from lcm_plugin.summarize.units import EXPAND_PREFIX

READ_PER_TARGET = 12
"""Source tokens that a model reads for each token that it is to write; above it, long messages are shortened."""
WHOLE_WORDS, WHOLE_RESULT = 1_500, 750
"""Tokens up to which a message of words, or a result, is always read whole."""
PREVIOUS_TOKENS = 300
"""How much of the summary before a stretch a model reads: how it ended."""
_CHARS_PER_TOKEN = 4
_HEAD, _TAIL = 1 / 3, 1 / 4
_HARDLY_LONGER = 1.2
_WORDS = ("user", "assistant")
_ROUNDS = 12


def shortened(
    blocks: Sequence[SourceBlock], source_tokens: int, target: int, vocabulary: Vocabulary, focus: Focus
) -> tuple[SourceBlock, ...]:
    """The blocks as a model reads them for a summary of ``target`` tokens; the longest give way first.

    What has words of the ``focus`` goes before all else. Summaries are never shortened.
    """
    chars = sum(len(block.text) for block in blocks)
    each = chars / max(1, source_tokens)
    room = int(READ_PER_TARGET * target * each)
    if chars <= room:
        return tuple(blocks)
    least = [_whole(block, each) for block in blocks]
    most = _longest(blocks, least, room)
    return tuple(
        _short(block, max(most, whole), vocabulary, focus) for block, whole in zip(blocks, least, strict=True)
    )


def ending(summary: str) -> str:
    """The last lines of a summary, without the list of what it left out."""
    lines = [line for line in summary.splitlines() if not line.startswith(EXPAND_PREFIX)]
    text = "\n".join(lines).strip()
    most = PREVIOUS_TOKENS * _CHARS_PER_TOKEN
    return text if len(text) <= most else text[_line_start(text, len(text) - most) :]


def _whole(block: SourceBlock, chars_per_token: float) -> int:
    """Characters of a block that are read whatever the room is."""
    if block.role == "summary":
        return len(block.text)
    return int((WHOLE_WORDS if block.role in _WORDS else WHOLE_RESULT) * chars_per_token)


def _longest(blocks: Sequence[SourceBlock], least: Sequence[int], room: int) -> int:
    """The length beyond which blocks are shortened, so that all of them fit into so many characters, if they can."""
    lengths = [len(block.text) for block in blocks]
    low, high = 0, max(lengths)
    long = [(length, whole) for length, whole in zip(lengths, least, strict=True) if length > whole]
    room -= sum(lengths) - sum(length for length, _ in long)
    for _ in range(_ROUNDS):
        middle = (low + high) // 2
        size = sum([min(length, max(middle, whole)) for length, whole in long])
        low, high = (middle, high) if size <= room else (low, middle)
    return low


def _short(block: SourceBlock, most: int, vocabulary: Vocabulary, focus: Focus) -> SourceBlock:
    text = block.text
    if len(text) <= most * _HARDLY_LONGER:
        return block
    head = _line_end(text, int(most * _HEAD))
    tail = _line_start(text, len(text) - int(most * _TAIL))
    middle = text[head:tail]
    kept = _telling(replace(block, text=middle), most - head - (len(text) - tail), vocabulary, focus)
    note = f"[{len(middle)} characters left out{', but for:' if kept else ''}]"
    return replace(
        block, text="\n".join([text[:head].rstrip(), note, *kept, "[the end:]", text[tail:].lstrip()])
    )


def _telling(block: SourceBlock, room: int, vocabulary: Vocabulary, focus: Focus) -> list[str]:
    """The sentences of a block that tell most, in their order, of at most so many characters."""
    scored = read((block,), vocabulary, focus)
    chars, cost = sum(len(text) + 1 for text in scored.texts), sum(scored.costs)
    choice = Choice(scored)
    choice.fill(room * cost // max(1, chars))
    kept, left = [], room
    for index in choice.picked:
        piece = scored.texts[index]
        left -= len(piece) + 1
        if left < 0:
            break
        kept.append(piece)
    return kept


def _line_end(text: str, place: int) -> int:
    """The end of the last whole line before a place, or of the last word where the line is long."""
    least = place * 3 // 4
    return next((end for mark in "\n " if (end := text.rfind(mark, least, place)) >= 0), place)


def _line_start(text: str, place: int) -> int:
    """The start of the first whole line behind a place, or of the first word where the line is long."""
    most = place + (len(text) - place) // 4
    return next((start + 1 for mark in "\n " if (start := text.find(mark, place, most)) >= 0), place)
