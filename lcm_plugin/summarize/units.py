"""Splits source blocks into units: the sentences and fields of which a summary is made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lcm_plugin.summarize.base import SourceBlock
from lcm_plugin.summarize.directives import is_directive

UNIT_CHARS = 280
EXPAND_PREFIX = "Expand for details about:"
_PACK_CHARS = 160
# It opens with one set of characters, so that the engine skips what cannot end a sentence.
_SENTENCE_END = re.compile(r"[.!?…;。！？；\n\r\v\f\x1c-\x1e\x85\u2028\u2029](?:(?<![.!?…;])|[\"')\]]?\s+)")
_JSON_BREAK = re.compile(r"[{}\[\]]+")
_JSON_FIELD = re.compile(r",\s+(?=\")|,(?=\")")
_JSON_NOISE = str.maketrans({'"': None})
_ESCAPES = (("\\n", "\n"), ("\\t", " "), ('\\"', "'"), ('":"', '": "'))
_SUMMARY_LINE = re.compile(
    r"(?:\[(?:(?P<date>\d{4,5}-\d\d-\d\d) ?)?(?P<time>\d\d:\d\d)?\] )?"
    r"(?:(?P<who>(?:user|assistant|tool|function|developer|summary)(?: [^:\n]{1,80})?): )?(?P<text>.*)"
)
_LIST_MARK = re.compile(r"\d{1,3}[.)]")
_LIST_MARK_CHARS = 4
_QUOTE = re.compile(r"^\s*(?:>|&gt;)")


@dataclass(slots=True)
class Unit:
    """One candidate: its text, the block it is from, and who said it when (for a summary's lines).

    ``edge``: the first or last of a message. ``index``: an earlier summary's list of what it left out,
    which is named again and never kept as a sentence.
    """

    order: int
    block: int
    text: str
    role: str
    who: str
    date: str = ""
    time: str = ""
    edge: bool = False
    index: bool = False

    @property
    def is_personal(self) -> bool:
        """Whether somebody who is named says it."""
        return self.role in ("user", "assistant") and " " in self.who


def units(blocks: Sequence[SourceBlock]) -> list[Unit]:
    """All units of the blocks in order, without untrusted directives."""
    found: list[Unit] = []
    for index, block in enumerate(blocks):
        if block.role == "system":
            continue
        found.extend(_of_summary(block, index) if block.role == "summary" else _of_message(block, index))
    for order, unit in enumerate(found):
        unit.order = order
    return found


def speaker(block: SourceBlock) -> str:
    """Who a block is from, for a line's head: ``user Ann``, ``tool search``, ``assistant``."""
    name = " ".join((block.tool or block.sender).replace(":", " ").split())[:60]
    return f"{block.role} {name}" if name and name != block.role else block.role


def _of_message(block: SourceBlock, index: int) -> list[Unit]:
    text = block.text
    untrusted = block.role not in ("user", "assistant")
    suspicious = is_directive(text) if untrusted or ">" in text else False
    who = speaker(block)
    found = [
        Unit(0, index, piece, block.role, who)
        for piece in _pieces(text)
        if not (suspicious and (untrusted or _QUOTE.match(piece)) and is_directive(piece))
    ]
    if found:
        found[0].edge = found[-1].edge = True
    return found


def _of_summary(block: SourceBlock, index: int) -> Iterator[Unit]:
    """Lines of an earlier summary; those this package wrote carry their own time and speaker."""
    date = time = ""
    who = role = "summary"
    text = block.text
    suspicious = is_directive(text)
    for line in text.splitlines():
        if line.startswith(EXPAND_PREFIX):
            terms = line.removeprefix(EXPAND_PREFIX).strip()
            if terms:
                yield Unit(0, index, terms, "index", "", index=True)
            continue
        head = _SUMMARY_LINE.fullmatch(line)
        if head:
            date, time = head["date"] or date, head["time"] or time
            who = head["who"] or "summary"
            role = who.split(" ", 1)[0]
            line = head["text"]
        for piece in _pieces(line):
            if not (suspicious and role != "user" and is_directive(piece)):
                yield Unit(0, index, piece, role, who, date, time)


def _pieces(text: str) -> Iterator[str]:
    if text.lstrip()[:1] in ("{", "[") and '"' in text:
        yield from _fields(text)
        return
    for sentence in _sentences(text):
        if "  " in sentence or "\t" in sentence:
            sentence = " ".join(sentence.split())
        length = len(sentence)
        if length <= _LIST_MARK_CHARS:
            if (length > 1 or sentence.isalnum()) and not _LIST_MARK.fullmatch(sentence):
                yield sentence
        elif length <= UNIT_CHARS:
            yield sentence
        elif sentence.count('"') >= 8:
            yield from _fields(sentence)
        else:
            yield from _wrapped(sentence)


def _sentences(text: str) -> list[str]:
    """The text cut after each line and each sentence."""
    ends = [0, *[end.end() for end in _SENTENCE_END.finditer(text)], len(text)]
    return [text[start:end].strip() for start, end in pairwise(ends)]


def _fields(text: str) -> Iterator[str]:
    """JSON-like text, whole or cut off: a record's scalar fields, packed into short lines."""
    for old, new in _ESCAPES:
        if old in text:
            text = text.replace(old, new)
    for record in _JSON_BREAK.split(text):
        if len(record) < 2:
            continue
        if len(record) > _PACK_CHARS:
            yield from _packed(_JSON_FIELD.split(record))
            continue
        flat = " ".join(record.translate(_JSON_NOISE).split()).strip(" ,:")
        if flat:
            yield flat


def _packed(fields: list[str]) -> Iterator[str]:
    line = ""
    for field in fields:
        flat = " ".join(field.translate(_JSON_NOISE).split()).strip(" ,:")
        if not flat:
            continue
        if line and len(line) + len(flat) > _PACK_CHARS:
            yield line
            line = ""
        if len(flat) > UNIT_CHARS:
            for sentence in _sentences(flat):
                yield from _wrapped(sentence)
        else:
            line = f"{line}, {flat}" if line else flat
    if line:
        yield line


def _wrapped(text: str) -> Iterator[str]:
    """A text without sentence ends, cut at clause or word boundaries, hard only where there are none."""
    start = 0
    while len(text) - start > UNIT_CHARS:
        cut = max(text.rfind(mark, start + UNIT_CHARS // 2, start + UNIT_CHARS) for mark in " ,，、\t")
        end = cut + 1 if cut > 0 else start + UNIT_CHARS
        yield text[start:end].strip()
        start = end
    rest = text[start:].strip()
    if rest:
        yield rest
