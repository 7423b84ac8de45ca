"""Cutting source blocks into units: the sentences and fields a summary is put together from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lcm_plugin.summarize.base import SourceBlock
from lcm_plugin.summarize.directives import is_directive

UNIT_CHARS = 280
EXPAND_PREFIX = "Expand for details about:"
_PACK_CHARS = 160
_SENTENCE = re.compile(r"(?<=[.!?…;])[\"')\]]?\s+|(?<=[。！？；])")
_CLAUSE = re.compile(r"(?<=[,:，、：])\s*|\s+")
_JSON_BREAK = re.compile(r"[{}\[\]]+")
_JSON_FIELD = re.compile(r",\s+(?=\")|,(?=\")")
_JSON_NOISE = str.maketrans({'"': None})
_ESCAPES = (("\\n", "\n"), ("\\t", " "), ('\\"', "'"), ('":"', '": "'))
_BLOB = re.compile(r"(?:data:[\w.+/-]+;base64,)?[A-Za-z0-9+/_-]{200,}={0,2}")
_REASONING = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_SUMMARY_LINE = re.compile(
    r"(?:\[(?:(?P<date>\d{4,5}-\d\d-\d\d) ?)?(?P<time>\d\d:\d\d)?\] )?"
    r"(?:(?P<who>(?:user|assistant|tool|function|developer|summary)(?: [^:\n]{1,80})?): )?(?P<text>.*)"
)
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
    def line(self) -> tuple[int, str]:
        """Units of one line of the result share this."""
        return self.block, self.who


def units(blocks: tuple[SourceBlock, ...]) -> list[Unit]:
    """All units of the blocks in order, without reasoning, binary runs and untrusted directives."""
    found: list[Unit] = []
    for index, block in enumerate(blocks):
        if block.role == "system":
            continue
        found.extend(_of_summary(block, index) if block.role == "summary" else _of_message(block, index))
    for order, unit in enumerate(found):
        unit.order = order
    return found


def clean(text: str) -> str:
    """A text without reasoning and without binary runs; what stood beside them stays."""
    if "<" in text:
        text = _REASONING.sub("", text)
    if len(text) >= 200:
        text = _BLOB.sub(_blob_note, text)
    return text


def speaker(block: SourceBlock) -> str:
    """Who a block is from, for a line's head: ``user Ann``, ``tool search``, ``assistant``."""
    name = " ".join((block.tool or block.sender).replace(":", " ").split())[:60]
    return f"{block.role} {name}" if name and name != block.role else block.role


def _of_message(block: SourceBlock, index: int) -> list[Unit]:
    text = clean(block.text)
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
    text = clean(block.text)
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
    for line in text.splitlines():
        for sentence in _SENTENCE.split(line):
            stripped = sentence.strip()
            if "  " in stripped or "\t" in stripped:
                stripped = " ".join(stripped.split())
            if len(stripped) <= UNIT_CHARS:
                if len(stripped) > 1 or stripped.isalnum():
                    yield stripped
            elif stripped.count('"') >= 8:
                yield from _fields(stripped)
            else:
                yield from _wrapped(stripped)


def _fields(text: str) -> Iterator[str]:
    """JSON-like text, whole or cut off: a record's scalar fields, packed into short lines."""
    for old, new in _ESCAPES:
        if old in text:
            text = text.replace(old, new)
    for record in _JSON_BREAK.split(text):
        if len(record) < 2:
            continue
        flat = record.translate(_JSON_NOISE) if len(record) <= _PACK_CHARS else None
        if flat is not None:
            flat = flat.strip(" ,:\n\t")
            if flat:
                yield " ".join(flat.split())
            continue
        yield from _packed(_JSON_FIELD.split(record))


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
            yield from _sentences(flat)
        else:
            line = f"{line}, {flat}" if line else flat
    if line:
        yield line


def _sentences(text: str) -> Iterator[str]:
    for sentence in _SENTENCE.split(text):
        yield from _wrapped(sentence.strip())


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


def _blob_note(match: re.Match[str]) -> str:
    run = match.group()
    if not run.startswith("data:") and (run.isalpha() or not any(char.isdigit() for char in run)):
        return run
    return f"[{len(run)} characters of binary data]"
